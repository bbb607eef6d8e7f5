// How a copy of a directory pool begins, grows and ends on the disk, so that a crash between any two writes leaves something that is
// recognised (docs/decisions/0023). Within the copy's turn.
import { closeSync } from 'node:fs';
import { rmdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { beAbsent, isCode, syncFolder } from '../host/files.ts';
import { sayingProtected } from '../host/protected.ts';
import { removeTree } from '../host/remove-tree.ts';
import { namesIn } from '../host/tree-calls.ts';
import { FlockError } from '../model/errors.ts';
import { openedTree, pathBy, treeOf, treePaths, type DirectoryPlace } from './directory-place.ts';
import { JOURNALS, writeSidecar, type Sidecar } from './image-layout.ts';
import { filesOf } from './image-place.ts';
import type { CopyName } from './pool.ts';

/** Makes the copy what its label says, repeating what a crash cut off; its size. */
export async function finished(place: DirectoryPlace, name: CopyName, sidecar: Sidecar): Promise<bigint> {
  if (sidecar.state === 'removing')
    throw new FlockError('Conflict', `copy ${name} is being removed: let the removal end, then use another copy id`);
  if (sidecar.state === 'creating') await made(place, name, sidecar);
  if (sidecar.state === 'growing') await grown(place, name, sidecar);
  return BigInt(sidecar.to ?? sidecar.label.size);
}

async function made(place: DirectoryPlace, name: CopyName, sidecar: Sidecar): Promise<void> {
  const path = pathBy(treePaths(place, name), sidecar.label);
  if ((await treeOf(place, name)) === null) await place.limits.make(path);
  place.crash('create:made');
  await place.limits.limit(path, { size: BigInt(sidecar.label.size), project: sidecar.project });
  await syncFolder(place.path);
  place.crash('create:limited');
  await writeSidecar(filesOf(place, name), { ...sidecar, state: 'ready' });
}

/** While booking, after the room was found. */
export async function enlarged(place: DirectoryPlace, name: CopyName, sidecar: Sidecar, to: bigint): Promise<void> {
  const growing: Sidecar = { ...sidecar, state: 'growing', to: String(to) };
  await writeSidecar(filesOf(place, name), growing);
  place.crash('grow:labelled');
  await grown(place, name, growing);
}

async function grown(place: DirectoryPlace, name: CopyName, { to, ...sidecar }: Sidecar): Promise<void> {
  const size = to ?? sidecar.label.size;
  const path = await treeOf(place, name);
  if (path !== null) await place.limits.limit(path, { size: BigInt(size), project: sidecar.project });
  place.crash('grow:limited');
  await writeSidecar(filesOf(place, name), { ...sidecar, state: 'ready', label: { ...sidecar.label, size } });
}

/** With the copy locked: from here on it goes, whatever happens. */
export async function begunToRemove(place: DirectoryPlace, name: CopyName, there: Sidecar): Promise<Sidecar> {
  const sidecar: Sidecar = { ...there, state: 'removing' };
  if (there.state !== 'removing') await writeSidecar(filesOf(place, name), sidecar);
  place.crash('remove:labelled');
  return sidecar;
}

/** With the copy locked; its label says "removing", or cannot be read. */
export async function removed(place: DirectoryPlace, name: CopyName, project: number | undefined): Promise<void> {
  const files = filesOf(place, name);
  const path = await treeOf(place, name);
  if (path !== null) await treeRemoved(place, path, project);
  place.crash('remove:emptied');
  // What was known of it goes with it.
  for (const kind of ['tree', 'tree.new', 'committed', 'mending', 'clock']) await beAbsent(join(place.path, JOURNALS, `${name}.${kind}`));
  await beAbsent(files.sidecar);
  await beAbsent(files.lock);
}

async function treeRemoved(place: DirectoryPlace, path: string, project: number | undefined): Promise<void> {
  const fd = openedTree(path);
  try {
    for (const name of namesIn(fd)) await removeTree(fd, name);
  } finally {
    closeSync(fd);
  }
  const afterwards = await place.limits.drop(path, project);
  place.crash('remove:unlimited');
  try {
    await sayingProtected(-1, path, () => rmdir(path));
  } catch (error) {
    throw isCode(error, 'ENOTEMPTY', 'EBUSY')
      ? new FlockError('InUse', `${basename(path)} is being removed and somebody puts something into it: end that and try again`, {
          cause: error,
        })
      : error;
  }
  await syncFolder(dirname(path));
  await afterwards();
}
