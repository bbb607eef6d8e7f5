// A block without its zeros: those of its 4096-byte pages that are not zeros, and after them a bit for each page that says which those are.
// The hash of a frame is that of the whole block, so that what was unpacked is proven too. Pure.
import { FlockError } from '../model/errors.ts';
import { LEAF } from './leaves.ts';
import { BLOCK } from './spans.ts';

const ZEROS = Buffer.alloc(BLOCK);
/** Bytes of the largest map of pages. */
const LONGEST_MAP = LEAF / BLOCK / 8;

/** Takes the pages that are zeros out of `block`; what is left at its beginning, bytes. The whole length: there are none. 0: all are. */
export function pack(block: Buffer): number {
  const pages = Math.ceil(block.length / BLOCK);
  const map = Buffer.alloc(mapBytes(block.length));
  // A first look at one word of each page: most data has something there.
  const words = new Int32Array(block.buffer, block.byteOffset, block.length >>> 2);
  let kept = 0;
  for (let page = 0; page < pages; page += 1) {
    const from = page * BLOCK;
    if (words[from >>> 2] === 0 && isZeroPage(block, from)) continue;
    map[page >>> 3] = (map[page >>> 3] as number) | (1 << (page & 7));
    if (kept < from) block.copyWithin(kept, from, from + BLOCK);
    kept += Math.min(BLOCK, block.length - from);
  }
  if (kept === 0 || kept === block.length) return kept;
  map.copy(block, kept);
  return kept + map.length;
}

/** The end of a volume that is no whole page is kept: leaving it out would gain less than the map costs. */
const isZeroPage = (block: Buffer, from: number): boolean =>
  from + BLOCK <= block.length && block.compare(ZEROS, 0, BLOCK, from, from + BLOCK) === 0;

const mapBytes = (length: number): number => Math.ceil(Math.ceil(length / BLOCK) / 8);

/** Makes the whole of `block` from the `packed` bytes at its beginning. Throws Corrupt when they are not a packed block of that length. */
export function unpack(block: Buffer, packed: number): void {
  const pages = Math.ceil(block.length / BLOCK);
  const map = Buffer.alloc(LONGEST_MAP);
  let from = packed - mapBytes(block.length);
  if (from > 0) block.copy(map, 0, from, packed);
  for (let page = pages - 1; page >= 0 && from >= 0; page -= 1) {
    const at = page * BLOCK;
    const length = Math.min(BLOCK, block.length - at);
    if (((map[page >>> 3] as number) & (1 << (page & 7))) === 0) block.fill(0, at, at + length);
    else {
      from -= length;
      if (from >= 0 && from !== at) block.copyWithin(at, from, from + length);
    }
  }
  if (from !== 0) throw new FlockError('Corrupt', `${packed} bytes are not the pages of a block of ${block.length} bytes`);
}
