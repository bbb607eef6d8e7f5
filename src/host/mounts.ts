// What is mounted, and the two verbs about it. Each looks, acts only if needed, and looks again; what mount(8) answered is no proof.
import { mkdir, readFile, realpath, stat } from 'node:fs/promises';
import { FlockError } from '../model/errors.ts';
import { isCode } from './files.ts';
import { usersOf } from './holders.ts';
import { deviceNumber, parseMounts, type Mount } from './mountinfo.ts';
import { CommandFailed, run } from './run.ts';

export interface MountOrder {
  device: string;
  target: string;
  filesystem: string;
  /** Besides nodev and nosuid. */
  options?: readonly string[];
}

/** Mounts of this process's namespace, in order: of two on one path the later one is on top. */
export async function mounts(): Promise<Mount[]> {
  return parseMounts(await readFile('/proc/self/mountinfo', 'utf8'));
}

export async function mountsAt(target: string): Promise<Mount[]> {
  const path = await resolved(target);
  return (await mounts()).filter((mount) => mount.target === path);
}

async function resolved(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (isCode(error, 'ENOENT')) return path;
    throw error;
  }
}

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

async function isAsOrdered(mount: Mount, order: MountOrder): Promise<boolean> {
  const wanted = ['nodev', 'nosuid', ...(order.options ?? [])];
  const options = [...mount.options, ...mount.superOptions];
  return mount.filesystem === order.filesystem && wanted.every((each) => options.includes(each)) && (await isOf(mount, order.device));
}

/** The device's filesystem is mounted at the target with these options. Something else mounted there is an error. */
export async function beMounted(order: MountOrder): Promise<void> {
  const there = (await mountsAt(order.target)).at(-1);
  if (there && (await isAsOrdered(there, order))) return;
  if (there)
    throw new FlockError(
      'InUse',
      `${order.target} is taken by a mount of ${there.source} (${there.filesystem}): unmount it or use another path`,
    );
  await mkdir(order.target, { recursive: true });
  const options = ['nodev', 'nosuid', ...(order.options ?? [])].join(',');
  await run('mount', ['-t', order.filesystem, '-o', options, '--', order.device, order.target]);
  const after = (await mountsAt(order.target)).at(-1);
  if (!after || !(await isAsOrdered(after, order)))
    throw new FlockError('Internal', `mount reported success, but ${order.target} is not a mount of ${order.device} with ${options}`);
}

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

async function unmountOne(path: string): Promise<void> {
  try {
    await run('umount', ['--', path]);
  } catch (error) {
    if (!(error instanceof CommandFailed) || !error.stderr.includes('busy')) throw error;
    const users = await usersOf(path);
    const names = users.length === 0 ? 'a user that could not be found' : users.join(', ');
    throw new FlockError('InUse', `${path} is busy: used by ${names}. End it and try again`, { cause: error });
  }
}
