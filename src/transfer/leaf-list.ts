// A list of leaves on the wire: runs, varint coded. Pure.
import { FlockError } from '../model/errors.ts';
import { VarintReader, VarintWriter } from './varint.ts';

/** Leaves whose hashes fit in one frame. */
const LEAVES_LIMIT = 32 * 1024;

export function encodeLeaves(leaves: readonly number[]): Buffer {
  const out = new VarintWriter();
  let at = 0;
  for (let index = 0; index < leaves.length;) {
    const first = leaves[index] as number;
    let count = 1;
    while (leaves[index + count] === first + count) count += 1;
    out.put(first - at);
    out.put(count);
    at = first + count;
    index += count;
  }
  return out.bytes();
}

/** Throws Corrupt for more than a frame answers, and for leaves that the volume does not have. */
export function decodeLeaves(encoded: Buffer, leafCount: number): number[] {
  const reader = new VarintReader(encoded);
  const leaves: number[] = [];
  let at = 0;
  while (!reader.done) {
    const first = at + reader.take();
    const count = reader.take();
    if (count === 0 || first + count > leafCount || leaves.length + count > LEAVES_LIMIT)
      throw new FlockError('Corrupt', `${count} leaves from ${first} were asked for, of ${leafCount}`);
    for (let leaf = first; leaf < first + count; leaf += 1) leaves.push(leaf);
    at = first + count;
  }
  return leaves;
}
