// Where a copy's manifests lie, and what time its disk says it is.
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { beAbsent } from '../../host/files.ts';
import { syncWhole } from '../../host/syscalls.ts';
import { isBefore, statOf, type Time } from '../../host/tree-calls.ts';
import { FlockError } from '../../model/errors.ts';
import type { CopyName, Pool, TreeHandle } from '../../pools/pool.ts';
import { partOf } from './manifest-file.ts';

export const manifestOf = (pool: Pool, copy: CopyName): string => join(pool.journals, `${copy}.tree`);

/** Nothing that was known of the copy's tree is believed any more. */
export async function forgetManifests(pool: Pool, copy: CopyName): Promise<void> {
  await beAbsent(manifestOf(pool, copy));
  await beAbsent(partOf(manifestOf(pool, copy)));
}

/** What the disk writes into a change time that is made now: not this process's clock, which runs ahead of it by a few ms. */
export async function diskTime(pool: Pool, copy: CopyName): Promise<Time> {
  const path = join(pool.journals, `${copy}.clock`);
  try {
    await using file = await open(path, 'w', 0o600);
    await file.write('.');
    return statOf(file.fd).ctime;
  } finally {
    await beAbsent(path);
  }
}

/** A time of the disk that is later than that of every change so far: its clock goes in steps of some ms. */
export async function diskTimeAfter(pool: Pool, copy: CopyName): Promise<Time> {
  const first = await diskTime(pool, copy);
  for (;;) {
    await setTimeout(1);
    const now = await diskTime(pool, copy);
    if (isBefore(first, now)) return now;
  }
}

/** Every write so far is on the disk, and from here on every write through a mapping changes the file's change time. */
export const flushTree = (tree: TreeHandle): Promise<void> => syncWhole(tree.fd);

export function openTree(pool: Pool, copy: CopyName, mode: 'read' | 'write'): Promise<TreeHandle> {
  if (!pool.openTree) throw new FlockError('Internal', `pool ${pool.name} holds no directories`);
  return pool.openTree(copy, mode);
}
