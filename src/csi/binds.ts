// A staged volume at further paths of its node: one bind mount for each user. The verbs look, act only if needed, and look again. Knows no
// volume and no record.
import { mkdir, open, rmdir, stat, statfs } from 'node:fs/promises';
import { beBound as beDeviceAt, beUnbound } from '../host/bound.ts';
import { isCode } from '../host/files.ts';
import { isMounted, mountsAt } from '../host/mounts.ts';
import { deviceNumber } from '../host/mountinfo.ts';
import { run } from '../host/run.ts';
import { deviceSize } from '../host/syscalls.ts';
import { FlockError } from '../model/errors.ts';

/** Bytes and inodes of a filesystem. */
export interface Usage {
  bytes: { total: bigint; used: bigint; available: bigint };
  inodes: { total: bigint; used: bigint; available: bigint };
}

export interface Binds {
  /** What is mounted at `source` is at `target` too, with these options. Throws InUse when something else is. */
  beBound(source: string, target: string, options: readonly string[]): Promise<void>;
  /** The device node itself is at `target`. */
  beDevice(device: string, target: string): Promise<void>;
  /** Nothing is mounted at `target`, and the folder or file that was made for it is gone. */
  beGone(target: string): Promise<void>;
  isMounted(target: string): Promise<boolean>;
  /** The device, a filesystem from it, or the folder is what is mounted at `target`. */
  isOf(target: string, source: string): Promise<boolean>;
  usage(target: string): Promise<Usage>;
  size(device: string): Promise<bigint>;
}

/** A filesystem's own options are those of its first mount; of these each path has its own. */
const ALWAYS = ['nodev', 'nosuid'];
/** What mountinfo shows by leaving it out, or not in these words. */
const UNSEEN: ReadonlySet<string> = new Set(['strictatime', 'relatime']);

export const hostBinds: Binds = {
  beBound,
  beDevice: (device, target) => beDeviceAt(device, target, 'mount'),
  beGone,
  isMounted,
  isOf,
  usage: async (target) => {
    const { bsize, blocks, bfree, bavail, files, ffree } = await statfs(target, { bigint: true });
    return {
      bytes: { total: blocks * bsize, used: (blocks - bfree) * bsize, available: bavail * bsize },
      inodes: { total: files, used: files - ffree, available: ffree },
    };
  },
  size: async (device) => {
    await using opened = await open(device, 'r');
    return deviceSize(opened.fd);
  },
};

async function beBound(source: string, target: string, options: readonly string[]): Promise<void> {
  const wanted = [...new Set([...ALWAYS, ...options, options.includes('ro') ? 'ro' : 'rw'])];
  if (await isBoundAs(source, target, wanted)) return;
  // Of ours, but with other options: left by a crash between the two steps, or in use, which unmounting then says.
  if (await isSame(source, target)) await beUnbound(target);
  const [there] = await mountsAt(target);
  if (there) throw new FlockError('InUse', `${target} is taken by a mount of ${there.source}: unmount it or use another path`);
  await mkdir(target, { recursive: true, mode: 0o750 });
  await run('mount', ['--bind', '--', source, target]);
  await run('mount', ['-o', `remount,bind,${wanted.join(',')}`, '--', target]);
  if (!(await isBoundAs(source, target, wanted)))
    throw new FlockError('Internal', `mount reported success, but ${target} is not ${source} with ${wanted.join(',')}`);
}

async function isBoundAs(source: string, target: string, wanted: readonly string[]): Promise<boolean> {
  const there = (await mountsAt(target)).at(-1);
  const seen = wanted.filter((option) => !UNSEEN.has(option));
  return there !== undefined && seen.every((option) => there.options.includes(option)) && (await isSame(source, target));
}

/** Both are mounts of one filesystem, from its same folder. */
async function isSame(source: string, target: string): Promise<boolean> {
  const [from, to] = [(await mountsAt(source)).at(-1), (await mountsAt(target)).at(-1)];
  return from !== undefined && to !== undefined && from.number === to.number && from.root === to.root;
}

async function beGone(target: string): Promise<void> {
  await beUnbound(target);
  try {
    await rmdir(target);
  } catch (error) {
    if (isCode(error, 'ENOENT')) return;
    if (!isCode(error, 'ENOTEMPTY')) throw error;
    throw new FlockError('InUse', `${target} is not empty although nothing is mounted there: look whose files these are, and remove them`, {
      cause: error,
    });
  }
}

async function isOf(target: string, source: string): Promise<boolean> {
  const there = (await mountsAt(target)).at(-1);
  if (!there) return false;
  const of = await stat(source, { bigint: true });
  const at = await stat(target, { bigint: true });
  if (of.isDirectory()) return of.dev === at.dev && of.ino === at.ino;
  // A device node lies in a filesystem of its own; btrfs gives its mounts another number, and is known by its source.
  return there.number === deviceNumber(Number(of.rdev)) || there.source === source || at.rdev === of.rdev;
}
