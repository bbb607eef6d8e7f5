// A device, or without root a raw file, at a path of the user's choice: how a raw block volume is handed out. Root binds the node itself;
// without root it is a link. Each verb looks, acts only if needed, and looks again.
import { lstat, open, readlink, realpath, rm, stat, symlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { FlockError } from '../model/errors.ts';
import { beFolder, ifThere, syncFilesystem } from './files.ts';
import { usersOf, writersOf } from './holders.ts';
import { beBound as bindDevice, beUnmounted, isMounted } from './mounts.ts';

export type Binding = 'mount' | 'link';

/** The source itself is at `target`. Throws InUse when something else is. */
export async function beBound(source: string, target: string, how: Binding): Promise<void> {
  if (how === 'link') return beLinked(source, target);
  await checkCoverable(target);
  await bindDevice(source, target);
}

/** What is already there must be ours to cover: an empty file, or the device bound before. */
async function checkCoverable(target: string): Promise<void> {
  const there = await ifThere(lstat(target));
  if (!there || there.isBlockDevice() || (there.isFile() && there.size === 0)) return;
  throw new FlockError('InUse', `${target} is there already and is no empty file: choose another path for the device`);
}

async function beLinked(source: string, target: string): Promise<void> {
  await beFolder(dirname(target));
  const there = await ifThere(lstat(target));
  if (there?.isSymbolicLink() && (await readlink(target)) === source) return;
  if (there) throw new FlockError('InUse', `${target} is there already: choose another path for the volume`);
  await symlink(source, target);
}

export async function isBound(target: string): Promise<boolean> {
  return (await ifThere(lstat(target)))?.isSymbolicLink() === true || (await isMounted(target));
}

/** Nothing of ours is at `target` any more. Throws InUse, naming who uses it. */
export async function beUnbound(target: string): Promise<void> {
  if (await isMounted(target)) await beUnmounted(target);
  const there = await ifThere(lstat(target));
  if (there?.isSymbolicLink()) await beUnwritten(target);
  if (there?.isSymbolicLink() || (there?.isFile() && there.size === 0)) await rm(target);
}

/** A link alone keeps nobody who writes through it, as a mount would. */
async function beUnwritten(target: string): Promise<void> {
  const file = await ifThere(realpath(target));
  if (file === null) return;
  if ((await stat(file)).isDirectory()) return beFolderUnused(target, file);
  const writers = await writersOf(file, process.pid);
  if (writers.length > 0)
    throw new FlockError('InUse', `${target} is busy: open for writing in ${writers.join(', ')}. End it and try again`);
}

async function beFolderUnused(target: string, folder: string): Promise<void> {
  const users = await usersOf(folder);
  if (users.length > 0) throw new FlockError('InUse', `${target} is busy: used by ${users.join(', ')}. End it and try again`);
}

/** What was written at `target`, a mounted filesystem or a bound device, is on the disk below it. */
export async function beFlushed(target: string): Promise<void> {
  if ((await stat(target)).isDirectory()) return syncFilesystem(target);
  await using file = await open(target, 'r+');
  await file.sync();
}
