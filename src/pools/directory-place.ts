// Where a copy of a directory pool lies: beside its label, or in `retired/` once it is fenced. The label says where it belongs; a hold takes it
// there before its label says so. Within the copy's turn.
import { constants, openSync, closeSync } from 'node:fs';
import { lstat, mkdir, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ifThere, syncFolder } from '../host/files.ts';
import { sayingProtected } from '../host/protected.ts';
import { mountsOfTree, usersOfTree } from '../host/tree-holders.ts';
import { FlockError } from '../model/errors.ts';
import type { CopyLabel } from '../model/label.ts';
import type { Limits } from './directory-budget.ts';
import { checkedCopy, sizeOf } from './image-layout.ts';
import type { Place } from './image-place.ts';
import type { CopyName } from './pool.ts';

export const RETIRED = 'retired';

export interface DirectoryPlace extends Place {
  limits: Limits;
}

export interface TreePaths {
  served: string;
  retired: string;
}

export function treePaths(place: Place, name: CopyName): TreePaths {
  checkedCopy(name);
  return { served: join(place.path, name), retired: join(place.path, RETIRED, name) };
}

const isFenced = ({ role }: CopyLabel): boolean => role === 'retired' || role === 'stale';

export const pathBy = (paths: TreePaths, label: CopyLabel): string => (isFenced(label) ? paths.retired : paths.served);

/** Null when it is at neither of its places. Throws Corrupt when it is at both, or is no directory. */
export async function treeOf(place: Place, name: CopyName): Promise<string | null> {
  const paths = treePaths(place, name);
  const there = await Promise.all([paths.served, paths.retired].map(async (path) => ((await isDirectory(path)) ? path : null)));
  const [first, second] = there.filter((path) => path !== null);
  if (first !== undefined && second !== undefined)
    throw new FlockError(
      'Corrupt',
      `copy ${name} lies at ${first} and at ${second}: one of them is not ours; look which is the right one, and move the other away`,
    );
  return first ?? null;
}

async function isDirectory(path: string): Promise<boolean> {
  const found = await sizeOf(path);
  if (found === null) return false;
  if (isDirectoryItself(path)) return true;
  throw new FlockError('Corrupt', `${path} is no directory, as a volume's is: it is neither served nor changed; move it away`);
}

function isDirectoryItself(path: string): boolean {
  try {
    closeSync(openedTree(path));
    return true;
  } catch {
    return false;
  }
}

export const openedTree = (path: string): number => openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);

/**
 * The folder of fenced copies is there. When somebody took it away it is made anew: whatever lay in it is gone with it. Throws Conflict for a
 * link, or another filesystem: then fenced copies lie, or would lie, elsewhere.
 */
export async function beRetiring(pool: string): Promise<void> {
  const path = join(pool, RETIRED);
  const found = await ifThere(lstat(path));
  if (found === null) {
    await mkdir(path, { mode: 0o700 });
    await syncFolder(pool);
  } else if (!found.isDirectory() || found.dev !== (await stat(pool)).dev)
    throw new FlockError(
      'Conflict',
      `${path} is to be a folder of the pool itself and is ${found.isDirectory() ? 'another filesystem' : 'a link or a file'}: fenced copies would lie elsewhere. Take it away, and bring what lies there back as ${path}/`,
    );
}

export async function beAt(place: Place, name: CopyName, wanted: string): Promise<void> {
  const there = await treeOf(place, name);
  if (there === null || there === wanted) return;
  await beRetiring(place.path);
  await sayingProtected(-1, there, () => rename(there, wanted));
  await syncFolder(place.path);
  await syncFolder(join(place.path, RETIRED));
}

/**
 * Throws InUse, naming where it is mounted. Whoever uses it by a mount keeps that mount; without root it is handed out as a link, which keeps
 * nothing, and every process is asked.
 */
export async function checkUnmounted(place: Place, name: CopyName): Promise<void> {
  if (process.geteuid?.() !== 0) return checkUnused(place, name);
  const paths = treePaths(place, name);
  const users = await mountsOfTree({ paths: [paths.served, paths.retired], folder: place.path });
  if (users.length > 0) throw inUse(name, users);
}

const inUse = (name: CopyName, users: readonly string[]): FlockError =>
  new FlockError('InUse', `copy ${name} is in use: ${users.join('; ')}. End that and try again`);

/** Throws InUse, naming who uses anything of it, by whatever way. */
export async function checkUnused(place: Place, name: CopyName): Promise<void> {
  const path = await treeOf(place, name);
  if (path === null) return;
  const paths = treePaths(place, name);
  const fd = openedTree(path);
  try {
    const users = await usersOfTree({ root: fd, paths: [paths.served, paths.retired], folder: place.path });
    if (users.length > 0) throw inUse(name, users);
  } finally {
    closeSync(fd);
  }
}
