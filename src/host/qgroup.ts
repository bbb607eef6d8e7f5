// Quotas of btrfs subvolumes, by the `btrfs` command. What was set is read back. Knows no pools.
import { FlockError } from '../model/errors.ts';
import { CommandFailed, run } from './run.ts';

export interface Qgroup {
  id: string;
  /** Bytes; null: none. */
  limit: bigint | null;
  used: bigint;
}

/** Whether quotas are enabled on the btrfs of this folder. */
export async function hasQgroups(folder: string): Promise<boolean> {
  try {
    return (await qgroupOf(folder)) !== null;
  } catch (error) {
    if (error instanceof CommandFailed) return false;
    throw error;
  }
}

/** The quota of the subvolume at this path; null: it has none. */
export async function qgroupOf(path: string): Promise<Qgroup | null> {
  const { stdout } = await run('btrfs', ['qgroup', 'show', '-r', '-f', '--raw', '--', path]);
  const line = stdout.split('\n').find((each) => /^0\/[0-9]+\s/u.test(each));
  const [id, used, , limit] = line?.trim().split(/\s+/u) ?? [];
  if (id === undefined || used === undefined) return null;
  return { id, used: BigInt(used), limit: limit === undefined || limit === 'none' ? null : BigInt(limit) };
}

/** Throws Internal when the limit is not in force. */
export async function beLimitedSubvolume(path: string, limit: bigint): Promise<void> {
  await run('btrfs', ['qgroup', 'limit', String(limit), path]);
  const set = await qgroupOf(path);
  if (set?.limit !== limit)
    throw new FlockError(
      'Internal',
      `the quota of ${path} was set to ${limit} bytes and reads ${set?.limit ?? 'none'}: the volume would not be kept within its size`,
    );
}

export async function makeSubvolume(path: string): Promise<void> {
  await run('btrfs', ['subvolume', 'create', path]);
}

/** What is left of a subvolume that is gone. Newer kernels do it by themselves. */
export async function dropQgroup(folder: string, id: string): Promise<void> {
  await run('btrfs', ['qgroup', 'destroy', id, folder], { allow: [1] });
}
