// A folder at a path of the user's choice: how a volume that is a directory is handed out. Root binds it, always without devices and set-uid
// programs; without root it is a link, in the place of an empty folder. Each verb looks, acts only if needed, and looks again.
import { lstat, readlink, rmdir, stat, symlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { FlockError } from '../model/errors.ts';
import type { Binding } from './bound.ts';
import { beFolder, ifThere, isCode } from './files.ts';
import { mountsAt } from './mounts.ts';
import { run } from './run.ts';

/** Throws InUse when something else is at `target`. */
export async function beFolderBound(source: string, target: string, as: { readOnly: boolean; how: Binding }): Promise<void> {
  if (as.how === 'link') return beLinked(source, target);
  const options = ['nodev', 'nosuid', as.readOnly ? 'ro' : 'rw'];
  const there = (await mountsAt(target)).at(-1);
  const isAsOrdered = async (has: readonly string[]): Promise<boolean> =>
    options.every((each) => has.includes(each)) && (await isSame(source, target));
  if (there && (await isAsOrdered(there.options))) return;
  if (there)
    throw new FlockError(
      'InUse',
      `${target} is taken by a mount of ${there.source} (${there.options.join(',')}): unmount it or use another path`,
    );
  await beFolder(target);
  await run('mount', ['--bind', '-o', options.join(','), '--', source, target]);
  const after = (await mountsAt(target)).at(-1);
  if (!after || !(await isAsOrdered(after.options)))
    throw new FlockError('Internal', `mount reported success, but ${target} is not ${source} with ${options.join(',')}`);
}

async function isSame(one: string, other: string): Promise<boolean> {
  const [left, right] = [await stat(one, { bigint: true }), await stat(other, { bigint: true })];
  return left.dev === right.dev && left.ino === right.ino;
}

async function beLinked(source: string, target: string): Promise<void> {
  await beFolder(dirname(target));
  const there = await ifThere(lstat(target));
  if (there?.isSymbolicLink() && (await readlink(target)) === source) return;
  if (there) await beGone(target);
  await symlink(source, target);
}

/** An empty folder was made for it. */
async function beGone(target: string): Promise<void> {
  try {
    await rmdir(target);
  } catch (error) {
    if (!isCode(error, 'ENOTEMPTY', 'EEXIST', 'ENOTDIR', 'EBUSY')) throw error;
    throw new FlockError('InUse', `${target} is there already and is no empty folder: choose another path for the volume`, {
      cause: error,
    });
  }
}
