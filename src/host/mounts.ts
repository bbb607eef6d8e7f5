// What is mounted, and the two verbs about it. Each looks, acts only if needed, and looks again; what mount(8) answered is no proof.
import { open, readFile, realpath, stat, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { FlockError } from '../model/errors.ts';
import { beFolder, beFoldersGone, ifThere } from './files.ts';
import { usersOf } from './holders.ts';
import { deviceNumber, parseMounts, type Mount } from './mountinfo.ts';
import { CommandFailed, run } from './run.ts';

/** Mounts of this process's namespace, in order: of two on one path the later one is on top. */
export async function mounts(): Promise<Mount[]> {
  return parseMounts(await readFile('/proc/self/mountinfo', 'utf8'));
}

export async function mountsAt(target: string): Promise<Mount[]> {
  const path = await resolved(target);
  return (await mounts()).filter((mount) => mount.target === path);
}

const resolved = async (path: string): Promise<string> => (await ifThere(realpath(path))) ?? path;

/** The mount that a path lies on. */
export async function mountOf(path: string): Promise<Mount> {
  const whole = await resolved(path);
  const within = (mount: Mount): boolean => mount.target === '/' || whole === mount.target || whole.startsWith(`${mount.target}/`);
  const found = (await mounts())
    .filter(within)
    .reduce<Mount | null>((best, mount) => (best && best.target.length > mount.target.length ? best : mount), null);
  if (!found) throw new FlockError('Internal', `no mount holds ${path}`);
  return found;
}

/** By number; btrfs gives its mounts a number of their own, there the source's name decides. */
async function isOf(mount: Mount, device: string): Promise<boolean> {
  const found = await stat(device);
  const number = deviceNumber(found.rdev);
  return mount.number === number || (await resolved(mount.source)) === (await resolved(device));
}

const optionsOf = (readOnly: boolean): string[] => ['nodev', 'nosuid', readOnly ? 'ro' : 'rw'];

/** The device's filesystem is mounted at the target, always without devices and set-uid programs. Something else mounted there is an error. */
export async function beMounted(device: string, target: string, filesystem: string, readOnly: boolean): Promise<void> {
  const options = optionsOf(readOnly);
  const isAsOrdered = async (mount: Mount): Promise<boolean> =>
    mount.filesystem === filesystem && options.every((each) => mount.options.includes(each)) && (await isOf(mount, device));
  const there = (await mountsAt(target)).at(-1);
  if (there && (await isAsOrdered(there))) return;
  if (there) throw taken(target, there);
  const made = await beFolder(target);
  await orTakenBack(run('mount', ['-t', filesystem, '-o', options.join(','), '--', device, target]), () => beFoldersGone(made));
  const after = (await mountsAt(target)).at(-1);
  if (!after || !(await isAsOrdered(after))) throw unproven(target, `a mount of ${device} with ${options.join(',')}`);
}

/** The device node itself is at the target, a file made for it: a raw block volume. */
export async function beBound(device: string, target: string): Promise<void> {
  const there = (await mountsAt(target)).at(-1);
  if (there && (await isNodeOf(target, device))) return;
  if (there) throw taken(target, there);
  const made = await beFolder(dirname(target));
  const isNew = (await ifThere(stat(target))) === null;
  await (await open(target, 'a', 0o600)).close();
  await orTakenBack(run('mount', ['--bind', '--', device, target]), async () => {
    if (isNew) await unlink(target);
    await beFoldersGone(made);
  });
  if (!(await isMounted(target)) || !(await isNodeOf(target, device))) throw unproven(target, `the device ${device}`);
}

/** What was made for a mount that failed is not left behind. */
async function orTakenBack(mounting: Promise<unknown>, takeBack: () => Promise<void>): Promise<void> {
  try {
    await mounting;
  } catch (error) {
    await takeBack();
    throw error;
  }
}

const isNodeOf = async (target: string, device: string): Promise<boolean> => (await stat(target)).rdev === (await stat(device)).rdev;

export const isMounted = async (target: string): Promise<boolean> => (await mountsAt(target)).length > 0;

const taken = (target: string, mount: Mount): FlockError =>
  new FlockError(
    'InUse',
    `${target} is taken by a mount of ${mount.source} (${mount.filesystem}, ${mount.options.join(',')}): unmount it or use another path`,
  );

const unproven = (target: string, what: string): FlockError =>
  new FlockError('Internal', `mount reported success, but ${target} is not ${what}`);

/** Nothing is mounted at the target, however many were stacked there. Throws InUse, naming who uses it. */
export async function beUnmounted(target: string): Promise<void> {
  for (let left = 64; left > 0; left -= 1) {
    const path = await resolved(target);
    const stacked = await mountsAt(target);
    if (stacked.length === 0) return;
    await unmountOne(path);
  }
  throw new FlockError('InUse', `${target} is mounted again and again: something on this machine mounts it`);
}

/** How often a mount that is busy without a user is tried again: whoever looks through /proc has it in hand for a moment. */
const TRIES = 20;
const OWN_TRIES = 3;

async function unmountOne(path: string): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await run('umount', ['--', path]);
      return;
    } catch (error) {
      if (!(error instanceof CommandFailed) || !error.stderr.includes('busy')) throw error;
      await beUnusedOrTriedAgain(path, tries, error);
    }
  }
}

async function beUnusedOrTriedAgain(path: string, tries: number, error: CommandFailed): Promise<void> {
  const others = await usersOf(path, process.pid);
  // What this process itself has there it lets go in a moment; if not, that is said too.
  const users = others.length > 0 || tries < OWN_TRIES ? others : await usersOf(path);
  if (users.length > 0 || tries >= TRIES) {
    const names = users.length === 0 ? 'a user that could not be found' : users.join(', ');
    throw new FlockError('InUse', `${path} is busy: used by ${names}. End it and try again`, { cause: error });
  }
  await new Promise((resolve) => setTimeout(resolve, 50));
}
