// Where a file's blocks lie, as the filesystem tells it (FIEMAP) or as far as it tells it (SEEK_DATA). Read in pages, so that a file of
// a million extents costs no memory. Knows no pools.
import { ioctlBuffer, seek, SEEK_DATA, SEEK_HOLE } from './syscalls.ts';

const FS_IOC_FIEMAP = 0xc020660b;
const FIEMAP_FLAG_SYNC = 1;
const HEADER = 32;
const RECORD = 56;
const PAGE_OF_RECORDS = 512;

const LAST = 0x1;
const UNWRITTEN = 0x800;
/** UNKNOWN, DELALLOC, ENCODED, DATA_ENCRYPTED, NOT_ALIGNED, DATA_INLINE, DATA_TAIL: `physical` says nothing then. */
const OPAQUE = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400;

export interface Mapped {
  logical: bigint;
  length: bigint;
  /** Where it lies, null when the filesystem does not say so that it could be compared. */
  physical: bigint | null;
  /** Allocated, and reads as zeros. */
  unwritten: boolean;
}

/** The allocated extents from 0 to `size`, sorted; what is between them is a hole. What was written to the file is on the disk first. */
export async function* mappedExtents(fd: number, size: bigint): AsyncGenerator<Mapped> {
  const buffer = Buffer.alloc(HEADER + RECORD * PAGE_OF_RECORDS);
  let start = 0n;
  while (start < size) {
    buffer.fill(0);
    buffer.writeBigUInt64LE(start, 0);
    buffer.writeBigUInt64LE(size - start, 8);
    buffer.writeUInt32LE(FIEMAP_FLAG_SYNC, 16);
    buffer.writeUInt32LE(PAGE_OF_RECORDS, 24);
    await ioctlBuffer("asking for a file's extents (FIEMAP)", fd, FS_IOC_FIEMAP, buffer);
    const count = buffer.readUInt32LE(20);
    if (count === 0) return;
    for (let index = 0; index < count; index += 1) {
      const extent = recordAt(buffer, HEADER + index * RECORD, start, size);
      if (extent.length > 0n) yield extent;
    }
    const last = HEADER + (count - 1) * RECORD;
    if ((buffer.readUInt32LE(last + 40) & LAST) !== 0) return;
    start = buffer.readBigUInt64LE(last) + buffer.readBigUInt64LE(last + 16);
  }
}

/** One extent, cut to what was asked for: an answer may begin before and end after it. */
function recordAt(buffer: Buffer, at: number, from: bigint, size: bigint): Mapped {
  const logical = buffer.readBigUInt64LE(at);
  const physical = buffer.readBigUInt64LE(at + 8);
  const end = logical + buffer.readBigUInt64LE(at + 16);
  const flags = buffer.readUInt32LE(at + 40);
  const begin = logical < from ? from : logical;
  const stop = end > size ? size : end;
  return {
    logical: begin,
    length: stop - begin,
    physical: (flags & OPAQUE) === 0 ? physical + (begin - logical) : null,
    unwritten: (flags & UNWRITTEN) !== 0,
  };
}

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
