// Who uses a device or a mount: mounts in every mount namespace, open descriptors, devices stacked on it. An answer names process and
// command, so that a person can end it. Processes come and go while we look: what vanishes is no holder.
import { constants } from 'node:fs';
import { open, readdir, readFile, readlink, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { FlockError } from '../model/errors.ts';
import { isCode } from './files.ts';
import { deviceNumber, parseMounts, type Mount } from './mountinfo.ts';

const orNothing = async <T>(asked: Promise<T>, nothing: T): Promise<T> => asked.catch(() => nothing);

async function pids(): Promise<string[]> {
  return (await readdir('/proc')).filter((name) => /^[0-9]+$/u.test(name));
}

/** `process 7 (postgres)`; of whoever asks it says so, for that is for us to end and not for a person. */
export async function namedProcess(pid: string): Promise<string> {
  const whose = pid === String(process.pid) ? ', which asks this' : '';
  return `process ${pid} (${await programOf(pid)}${whose})`;
}

/** What Node calls the first thread of every program that it runs. */
const NODE = 'MainThread';

/** What a person knows it by: the command; of what runs on Node, that and its script, for all have one name there. */
async function programOf(pid: string): Promise<string> {
  const command = (await orNothing(readFile(`/proc/${pid}/comm`, 'utf8'), '')).trim();
  if (command !== NODE) return command;
  const [program = '', script = ''] = (await orNothing(readFile(`/proc/${pid}/cmdline`, 'utf8'), '')).split('\0');
  return (
    [program, script.startsWith('-') ? '' : script]
      .map((word) => basename(word))
      .filter(Boolean)
      .join(' ') || command
  );
}

/** Everything that keeps the block device busy, in words. */
async function holdersOf(device: string): Promise<string[]> {
  const stacked = await orNothing(readdir(`/sys/class/block/${basename(device)}/holders`), []);
  return [...stacked.map((name) => `device ${name}`), ...(await mountsEverywhere(device)), ...(await openers(device))];
}

/**
 * Throws InUse unless nothing keeps the device busy. Programs that list devices (losetup, blkid, udev) open each for a moment, and a kernel
 * needs one to end a mount; and whatever begins in a mount namespace of its own takes a copy of every mount along, until it lets go of them:
 * whoever has it open or mounted in a namespace that is not ours, and a claim without a name, are looked for again, 40 times. A mount of ours,
 * a device stacked on it, and users of a filesystem that was unmounted lazily stay: that is told at once.
 */
export async function beUnheld(device: string, pause: () => Promise<void> = () => setTimeout(50)): Promise<void> {
  let holders = await heldBy(device);
  for (let left = 40; left > 0 && holders.length > 0 && holders.every(isPassing); left -= 1) {
    await pause();
    holders = await heldBy(device);
  }
  if (holders.length > 0) throw new FlockError('InUse', `${device} is in use: ${holders.join('; ')}. End that and try again`);
}

const OPENED = 'opened by';
const CLAIMED = 'claimed by something that could not be found';
const MOUNTED_ELSEWHERE = /^mounted at .* for process /u;
const isPassing = (holder: string): boolean => holder.startsWith(OPENED) || holder === CLAIMED || MOUNTED_ELSEWHERE.test(holder);

/** In words. Who shows nowhere, but keeps others from having the device alone, is a filesystem without a mount. */
async function heldBy(device: string): Promise<string[]> {
  const holders = await holdersOf(device);
  if (holders.length > 0 || !(await isClaimed(device))) return holders;
  const users = await usersOfFilesystem(device);
  return users.length === 0 ? [CLAIMED] : users.map((user) => `its filesystem is not mounted any more, but still used by ${user}`);
}

async function isClaimed(device: string): Promise<boolean> {
  try {
    await (await open(device, constants.O_RDONLY | constants.O_EXCL)).close();
    return false;
  } catch (error) {
    if (isCode(error, 'EBUSY')) return true;
    // It was detached meanwhile.
    if (isCode(error, 'ENXIO', 'ENOENT')) return false;
    throw error;
  }
}

/** Processes with something open, or their working folder, in the device's filesystem, wherever that is. */
async function usersOfFilesystem(device: string): Promise<string[]> {
  const { rdev } = await stat(device);
  const found: string[] = [];
  for (const pid of await pids()) {
    const fds = await orNothing(readdir(`/proc/${pid}/fd`), []);
    const places = ['cwd', 'root', ...fds.map((fd) => `fd/${fd}`)];
    const on = await Promise.all(places.map(async (place) => (await orNothing(stat(`/proc/${pid}/${place}`), null))?.dev === rdev));
    if (on.includes(true)) found.push(await namedProcess(pid));
  }
  return found;
}

async function mountsEverywhere(device: string): Promise<string[]> {
  const { rdev } = await stat(device);
  const number = deviceNumber(rdev);
  const own = await orNothing(readlink('/proc/self/ns/mnt'), '');
  const seen = new Set<string>();
  const found: string[] = [];
  for (const pid of await pids()) {
    const namespace = await orNothing(readlink(`/proc/${pid}/ns/mnt`), '');
    if (namespace === '' || seen.has(namespace)) continue;
    seen.add(namespace);
    const mounts = parseMounts(await orNothing(readFile(`/proc/${pid}/mountinfo`, 'utf8'), ''));
    const ours = mounts.filter((mount: Mount) => mount.number === number || mount.source === device || isNode(mount, device));
    // Whose namespace is ours too is told by nobody's name: any of our processes has it.
    const whose = namespace === own ? '' : ` for ${await namedProcess(pid)}`;
    for (const mount of ours) found.push(`mounted at ${mount.target}${whose}`);
  }
  return found;
}

/** The device's own node at another path, as raw volumes are handed out: whoever opens it there gets whatever has its number by then. */
const isNode = (mount: Mount, device: string): boolean => mount.filesystem === 'devtmpfs' && `/dev${mount.root}` === device;

/** Descriptors of a process with what they point at. */
async function descriptors(pid: string): Promise<{ fd: string; target: string }[]> {
  const names = await orNothing(readdir(`/proc/${pid}/fd`), []);
  return Promise.all(names.map(async (fd) => ({ fd, target: await orNothing(readlink(`/proc/${pid}/fd/${fd}`), '') })));
}

async function openers(device: string): Promise<string[]> {
  const found: string[] = [];
  for (const pid of await pids()) {
    const opened = (await descriptors(pid)).some(({ target }) => target === device);
    if (opened) found.push(`${OPENED} ${await namedProcess(pid)}`);
  }
  return found;
}

/** Processes, but for the one given, with something open, or their working folder, at or below a path. */
export async function usersOf(path: string, but?: number): Promise<string[]> {
  const within = (target: string): boolean => target === path || target.startsWith(`${path}/`);
  const found: string[] = [];
  for (const pid of await pids()) {
    if (pid === String(but)) continue;
    const places = await Promise.all(['cwd', 'root', 'exe'].map((name) => orNothing(readlink(`/proc/${pid}/${name}`), '')));
    const opened = (await descriptors(pid)).map(({ target }) => target);
    if ([...places, ...opened].some(within)) found.push(await namedProcess(pid));
  }
  return found;
}

/** Processes, but for the one given, that have the file open for writing. Those of other users are only seen by root. */
export async function writersOf(file: string, but?: number): Promise<string[]> {
  const wanted = await stat(file);
  const found: string[] = [];
  for (const pid of await pids()) {
    if (pid === String(but)) continue;
    for (const { fd, target } of await descriptors(pid)) {
      if (basename(target) === basename(file) && (await writes(pid, fd, wanted))) found.push(await namedProcess(pid));
    }
  }
  return found;
}

async function writes(pid: string, fd: string, wanted: { ino: number; dev: number }): Promise<boolean> {
  const opened = await orNothing(stat(`/proc/${pid}/fd/${fd}`), null);
  if (opened?.ino !== wanted.ino || opened.dev !== wanted.dev) return false;
  const info = await orNothing(readFile(`/proc/${pid}/fdinfo/${fd}`, 'utf8'), '');
  const flags = /^flags:\s*([0-7]+)/mu.exec(info)?.[1] ?? '0';
  return (Number.parseInt(flags, 8) & 0o3) !== 0;
}
