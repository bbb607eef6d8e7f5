// The target's copy as a round sees it: what of it is allocated, what its leaves hash to. Holes are not read: the pool's own map says that
// they are zeros. Knows no wire.
import type { PullOptions } from './transfer.ts';
import { hashLeaves, using } from './disk.ts';
import { HASH } from './hashing.ts';
import { LEAF, leafLength, zeroHash, type LeafTable } from './leaves.ts';
import { DataMap, spansOf } from './spans.ts';
import type { BlockHandle, PointName } from '../pools/pool.ts';

type Target = PullOptions['target'];

/** Opens it, and closes it whatever happens inside. */
export const withHandle = async <T>(target: Target, mode: 'read' | 'write', act: (handle: BlockHandle) => Promise<T>): Promise<T> =>
  using(await target.pool.open(target.copy, 'live', mode), (handle) =>
    act(mode === 'read' && target.paced ? target.paced(handle) : handle),
  );

/** Where it holds anything but zeros, up to `deviceBytes`. */
export async function dataOf({ pool, copy }: Target, deviceBytes: number, point: PointName | 'live' = 'live'): Promise<DataMap> {
  return new DataMap(await spansOf(pool.changed(copy, null, point), deviceBytes));
}

/** Hashes of these leaves from the disk, into the table. */
export async function hashInto(
  table: LeafTable,
  leaves: readonly number[],
  from: { handle: BlockHandle; data: DataMap; stop: AbortSignal },
): Promise<void> {
  const { handle, data, stop } = from;
  const lengthOf = (leaf: number): number => leafLength(leaf, table.deviceBytes);
  const toRead = leaves.filter((leaf) => data.meets(leaf * LEAF, lengthOf(leaf)));
  const read = await hashLeaves(handle, toRead, table.deviceBytes, stop);
  for (const leaf of leaves) table.set(leaf, zeroHash(lengthOf(leaf)));
  toRead.forEach((leaf, index) => table.set(leaf, read.subarray(index * HASH, (index + 1) * HASH)));
}
