// The table of a thick snapshot's exceptions: which chunks of its origin were written since. It lies on the snapshot's own store, is read
// past the page cache, and no exception ever leaves it, so that what is listed can be too much but never too little. Knows no LVM.
import { FlockError } from '../model/errors.ts';

/** Fills the buffer from the store at `offset`. */
export type ReadStore = (buffer: Buffer, offset: bigint) => Promise<void>;

/** Bytes of the origin. */
export interface Range {
  offset: bigint;
  length: bigint;
}

const MAGIC = 0x70416e53;
const VERSION = 1;
const SECTOR = 512n;
const HEADER = 4096;
const RECORD = 16;

/** Sorted, without overlaps. Throws NotFound when the store overflowed: what changed is not known any more. `buffer` makes one for direct IO. */
export async function exceptions(read: ReadStore, buffer: (size: number) => Buffer): Promise<Range[]> {
  const chunk = await chunkSize(read, buffer(HEADER));
  const area = buffer(Number(chunk));
  const perArea = BigInt(area.length / RECORD);
  const chunks: bigint[] = [];
  for (let index = 0n; ; index += 1n) {
    await read(area, chunk * (1n + index * (perArea + 1n)));
    if (!taken(area, chunks)) return merged(chunks, chunk);
  }
}

async function chunkSize(read: ReadStore, header: Buffer): Promise<bigint> {
  await read(header, 0n);
  const [magic, valid, version, sectors] = [0, 4, 8, 12].map((at) => header.readUInt32LE(at));
  if (magic !== MAGIC || version !== VERSION)
    throw new FlockError('Corrupt', `a snapshot's store does not begin as one (${magic?.toString(16)}, version ${version})`);
  if (valid !== 1) throw new FlockError('NotFound', 'the snapshot is gone: more was written since than its store could take');
  return BigInt(sectors ?? 0) * SECTOR;
}

/** False: the table ends in this area. */
function taken(area: Buffer, chunks: bigint[]): boolean {
  for (let at = 0; at < area.length; at += RECORD) {
    // Where it went is never 0: that is the header's place.
    if (area.readBigUInt64LE(at + 8) === 0n) return false;
    chunks.push(area.readBigUInt64LE(at));
  }
  return true;
}

function merged(chunks: bigint[], size: bigint): Range[] {
  const ranges: Range[] = [];
  for (const chunk of chunks.sort((one, other) => (one < other ? -1 : 1))) {
    const last = ranges.at(-1);
    if (last && last.offset + last.length === chunk * size) last.length += size;
    else ranges.push({ offset: chunk * size, length: size });
  }
  return ranges;
}
