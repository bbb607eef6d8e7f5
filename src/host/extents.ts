// Where a file's blocks lie, as the filesystem tells it (FIEMAP) or as far as it tells it (SEEK_DATA). Read in pages, so that a file of
// a million extents costs no memory. Knows no pools.
import { ioctlBuffer, seek, SEEK_DATA, SEEK_HOLE } from './syscalls.ts';

const FS_IOC_FIEMAP = 0xc020660b;
const FIEMAP_FLAG_SYNC = 1;
const HEADER = 32;
const RECORD = 56;
const PAGE_OF_RECORDS = 1024;

const LAST = 0x1;
const UNWRITTEN = 0x800;
/** UNKNOWN, DELALLOC, ENCODED, DATA_ENCRYPTED, NOT_ALIGNED, DATA_INLINE, DATA_TAIL: `physical` says nothing then. */
const OPAQUE = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400;

export interface Mapped {
  logical: number;
  length: number;
  /** Where it lies, null when the filesystem does not say so that it could be compared. */
  physical: number | null;
  /** Allocated, and reads as zeros. */
  unwritten: boolean;
}

/**
 * The allocated extents from 0 to `size`, sorted, a page of them at a time; what is between them is a hole. What was written to the file is on
 * the disk first. Numbers, for files are below 2^53 bytes.
 */
export async function* mappedExtents(fd: number, size: number): AsyncGenerator<Mapped[]> {
  const pages = pagesOfExtents(fd, size);
  let next = pages.next();
  try {
    for (let page = await next; !page.done; page = await next) {
      // The kernel needs longer for a page than whoever takes it: it works on the next one meanwhile.
      next = pages.next();
      next.catch(() => undefined);
      yield page.value;
    }
  } finally {
    // The file is the caller's to close: nothing may be asking about it then.
    await next.catch(() => undefined);
  }
}

async function* pagesOfExtents(fd: number, size: number): AsyncGenerator<Mapped[], undefined> {
  const buffer = Buffer.alloc(HEADER + RECORD * PAGE_OF_RECORDS);
  let start = 0;
  while (start < size) {
    buffer.fill(0, 0, HEADER);
    buffer.writeBigUInt64LE(BigInt(start), 0);
    buffer.writeBigUInt64LE(BigInt(size - start), 8);
    buffer.writeUInt32LE(FIEMAP_FLAG_SYNC, 16);
    buffer.writeUInt32LE(PAGE_OF_RECORDS, 24);
    await ioctlBuffer("asking for a file's extents (FIEMAP)", fd, FS_IOC_FIEMAP, buffer);
    const count = buffer.readUInt32LE(20);
    if (count === 0) return;
    const page = Array.from({ length: count }, (_, index) => recordAt(buffer, HEADER + index * RECORD, start, size));
    yield page.filter(({ length }) => length > 0);
    const last = HEADER + (count - 1) * RECORD;
    if ((buffer.readUInt32LE(last + 40) & LAST) !== 0) return;
    start = whole(buffer, last) + whole(buffer, last + 16);
  }
}

/** One extent, cut to what was asked for: an answer may begin before and end after it. */
function recordAt(buffer: Buffer, at: number, from: number, size: number): Mapped {
  const logical = whole(buffer, at);
  const physical = whole(buffer, at + 8);
  const flags = buffer.readUInt32LE(at + 40);
  const begin = Math.max(logical, from);
  const stop = Math.min(logical + whole(buffer, at + 16), size);
  const comparable = (flags & OPAQUE) === 0 && Number.isSafeInteger(physical);
  return {
    logical: begin,
    length: stop - begin,
    physical: comparable ? physical + (begin - logical) : null,
    unwritten: (flags & UNWRITTEN) !== 0,
  };
}

/** Eight bytes as a number; exact below 2^53. */
const whole = (buffer: Buffer, at: number): number => buffer.readUInt32LE(at) + buffer.readUInt32LE(at + 4) * 2 ** 32;

/** The ranges that may hold something else than zeros, sorted. Works on every filesystem; tells less where holes are not known. */
export async function* dataRanges(fd: number, size: bigint): AsyncGenerator<{ offset: bigint; length: bigint }> {
  let at = 0n;
  while (at < size) {
    const begin = await seek(fd, at, SEEK_DATA);
    if (begin === null || begin >= size) return;
    const found = (await seek(fd, begin, SEEK_HOLE)) ?? size;
    const end = found > size ? size : found;
    yield { offset: begin, length: end - begin };
    at = end;
  }
}
