// A device, or without root a raw file, at a path of the user's choice: how a raw block volume is handed out. Root binds the node itself;
// without root it is a link. Each verb looks, acts only if needed, and looks again.
import { lstat, mkdir, open, readlink, rm, symlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { FlockError } from '../model/errors.ts';
import { isCode } from './files.ts';
import { beUnmounted, mountsAt } from './mounts.ts';
import { run } from './run.ts';

export type Binding = 'mount' | 'link';

async function lookAt(target: string): Promise<Awaited<ReturnType<typeof lstat>> | null> {
  try {
    return await lstat(target);
  } catch (error) {
    if (isCode(error, 'ENOENT')) return null;
    throw error;
  }
}

/** The source itself is at `target`. Throws InUse when something else is. */
export async function beBound(source: string, target: string, how: Binding): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  await (how === 'mount' ? beBoundByMount(source, target) : beLinked(source, target));
}

async function beBoundByMount(source: string, target: string): Promise<void> {
  if ((await mountsAt(target)).length > 0) {
    if (await isSame(source, target)) return;
    throw new FlockError('InUse', `${target} is taken by another mount: unmount it or use another path`);
  }
  await beEmptyFile(target);
  await run('mount', ['--bind', '--', source, target]);
  if (!(await isSame(source, target))) throw new FlockError('Internal', `mount reported success, but ${target} is not ${source}`);
}

/** What is already there must be ours to cover: an empty file. */
async function beEmptyFile(target: string): Promise<void> {
  const there = await lookAt(target);
  if (there && (!there.isFile() || there.size > 0))
    throw new FlockError('InUse', `${target} is there already and is no empty file: choose another path for the device`);
  if (!there) await (await open(target, 'wx', 0o600)).close();
}

async function isSame(source: string, target: string): Promise<boolean> {
  const [one, other] = await Promise.all([lstat(source), lstat(target)]);
  return one.isBlockDevice() && other.isBlockDevice() && one.rdev === other.rdev;
}

async function beLinked(source: string, target: string): Promise<void> {
  const there = await lookAt(target);
  if (there?.isSymbolicLink() && (await readlink(target)) === source) return;
  if (there) throw new FlockError('InUse', `${target} is there already: choose another path for the volume`);
  await symlink(source, target);
}

export async function isBound(target: string): Promise<boolean> {
  return (await lookAt(target))?.isSymbolicLink() === true || (await mountsAt(target)).length > 0;
}

/** Nothing of ours is at `target` any more. Throws InUse, naming who uses it. */
export async function beUnbound(target: string): Promise<void> {
  if ((await mountsAt(target)).length > 0) await beUnmounted(target);
  const there = await lookAt(target);
  if (there?.isSymbolicLink() || (there?.isFile() && there.size === 0)) await rm(target);
}
