// Who uses anything of a directory: processes by what they have open, run, mapped or stand in; mounts of it in every mount namespace; loop
// devices made from its files. What a process reached by another way (a bind mount, another namespace, a mount that was taken away lazily)
// has another path for it: that is told by the inode, for which the tree is walked. Processes come and go while we look.
import { closeSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { Bursts } from './bursts.ts';
import { isCode } from './files.ts';
import { namedProcess } from './holders.ts';
import { loopDevices } from './loop.ts';
import { parseMounts, type Mount } from './mountinfo.ts';
import { mountOf } from './mounts.ts';
import { FORMATS, isVanished, namesIn, openDirectoryAt, statAt, statOf } from './tree-calls.ts';

/** What is open in a process and lies on the tree's filesystem. */
interface Suspect {
  pid: string;
  how: string;
  ino: bigint;
}

interface Found {
  /** In words, each once. */
  users: Set<string>;
  suspects: Suspect[];
}

interface Tree {
  /** Every path by which this machine's own folders tell the tree. */
  paths: readonly string[];
  /** What lies in it and not at one of `paths` is not in the tree. */
  folder: string;
  dev: bigint;
  /** Of its filesystem, as /proc tells it. */
  number: string;
}

/** Where anything of it is mounted, in words; costs little. */
export async function mountsOfTree({ paths, folder }: Pick<Tree, 'paths' | 'folder'>): Promise<string[]> {
  return mountsOf(
    await mountOf(folder),
    paths,
    (await readdir('/proc')).filter((name) => /^[0-9]+$/u.test(name)),
  );
}

/** In words; empty: nobody. Without root only processes of this user are seen. */
export async function usersOfTree(of: Pick<Tree, 'paths' | 'folder'> & { root: number }): Promise<string[]> {
  const { dev } = await stat(`/proc/self/fd/${of.root}`, { bigint: true });
  const { paths, folder } = of;
  const mount = await mountOf(folder);
  const found: Found = { users: new Set(), suspects: [] };
  for (const { device, file } of await loopDevices()) if (isWithinAny(file, paths)) found.users.add(`loop device ${device}`);
  const pids = (await readdir('/proc')).filter((name) => /^[0-9]+$/u.test(name));
  for (const user of await mountsOf(mount, paths, pids)) found.users.add(user);
  const bursts = new Bursts();
  for (const pid of pids) {
    if (bursts.isOver) await bursts.rest();
    const how = pid === String(process.pid) ? null : lookAt(pid, { paths, folder, dev, number: mount.number }, found.suspects);
    if (how !== null) found.users.add(await told(pid, how));
  }
  for (const { pid, how } of await within(of.root, found.suspects)) found.users.add(await told(pid, how));
  return [...found.users];
}

/** Those who have something of the tree. It is walked whole, but only when there is somebody to ask about. */
async function within(root: number, suspects: readonly Suspect[]): Promise<Suspect[]> {
  if (suspects.length === 0) return [];
  const inodes = await inodesAmong(root, new Set(suspects.map(({ ino }) => ino)));
  return suspects.filter(({ ino }) => inodes.has(ino));
}

const isWithinAny = (path: string, of: readonly string[]): boolean => of.some((each) => path === each || path.startsWith(`${each}/`));

const told = async (pid: string, how: string): Promise<string> => `${await namedProcess(pid)} has it ${how}`;

const LINKS: { [name: string]: string } = { cwd: 'as its working directory', root: 'as its root', exe: 'as its program' };

/** How the process has it, where a path says so. What is of /proc is in memory: it is read at once. */
function lookAt(pid: string, tree: Tree, suspects: Suspect[]): string | null {
  const descriptors = (orNull(() => readdirSync(`/proc/${pid}/fd`)) ?? []).map((fd) => [`fd/${fd}`, 'open'] as const);
  for (const [name, how] of [...Object.entries(LINKS), ...descriptors]) {
    const path = `/proc/${pid}/${name}`;
    const target = orNull(() => readlinkSync(path));
    // Sockets, pipes and what has no name are on no disk.
    if (target === null || !target.startsWith('/')) continue;
    if (isWithinAny(target, tree.paths)) return how;
    if (target.startsWith(`${tree.folder}/`)) continue;
    const seen = orNull(() => statSync(path, { bigint: true }));
    if (seen?.dev === tree.dev) suspects.push({ pid, how, ino: seen.ino });
  }
  return mapped(pid, tree, suspects) ? 'mapped' : null;
}

/** Each line: addresses, rights, offset, device, inode, path. Of one process there may be very many. */
function mapped(pid: string, tree: Tree, suspects: Suspect[]): boolean {
  const text = orNull(() => readFileSync(`/proc/${pid}/maps`, 'latin1')) ?? '';
  const device = tree.number.split(':').map((each) => Number(each).toString(16).padStart(2, '0'));
  // Most processes have nothing of this filesystem: that is told quickly.
  if (!text.includes(` ${device.join(':')} `)) return false;
  const inodes = new Set<string>();
  for (const [, inode = '', path = ''] of text.matchAll(new RegExp(` ${device.join(':')} ([0-9]+) *(/.*)?$`, 'gmu'))) {
    if (isWithinAny(path, tree.paths)) return true;
    if (!path.startsWith(`${tree.folder}/`)) inodes.add(inode);
  }
  suspects.push(...[...inodes].map((inode) => ({ pid, how: 'mapped', ino: BigInt(inode) })));
  return false;
}

/** What vanished, and what this user may not see. */
function orNull<T>(ask: () => T): T | null {
  try {
    return ask();
  } catch (error) {
    if (isCode(error, 'ENOENT', 'EACCES', 'EPERM', 'ESRCH', 'ENOTDIR', 'ELOOP')) return null;
    throw error;
  }
}

/** Mounts whose root is the tree or within it, whoever sees them. */
async function mountsOf(under: Mount, paths: readonly string[], pids: readonly string[]): Promise<string[]> {
  const roots = paths.map((path) => rootOf(under, path));
  const found: string[] = [];
  const seen = new Set<string>();
  for (const pid of pids) {
    const namespace = orNull(() => readlinkSync(`/proc/${pid}/ns/mnt`));
    if (namespace === null || seen.has(namespace)) continue;
    seen.add(namespace);
    for (const mount of parseMounts(orNull(() => readFileSync(`/proc/${pid}/mountinfo`, 'utf8')) ?? ''))
      if (isSameDisk(mount, under) && isWithinAny(mount.root, roots))
        found.push(`mounted at ${mount.target} for ${await namedProcess(pid)}`);
  }
  return found;
}

/** Every mount of a btrfs has a number of its own. */
const isSameDisk = (mount: Mount, other: Mount): boolean => mount.number === other.number || mount.source === other.source;

/** The path within its filesystem. */
function rootOf({ root, target }: Mount, path: string): string {
  const below = target === '/' ? path : path.slice(target.length);
  return root === '/' ? below : `${root}${below}`;
}

/** Which of these inodes are in the tree. */
async function inodesAmong(root: number, wanted: ReadonlySet<bigint>): Promise<Set<bigint>> {
  const found = new Set<bigint>([statOf(root).ino]);
  const bursts = new Bursts();
  const levels = [entered(root, '.')];
  try {
    for (let level = levels.at(-1); level; level = levels.at(-1)) {
      if (bursts.isOver) await bursts.rest();
      const name = level.names.pop();
      const below = name === undefined ? null : looked(level.fd, name, { wanted, found });
      if (below) levels.push(below);
      if (name === undefined) closeSync((levels.pop() as Level).fd);
    }
  } finally {
    for (const { fd } of levels) closeSync(fd);
  }
  return found;
}

interface Level {
  fd: number;
  names: string[];
}

function entered(dir: number, name: string): Level {
  const fd = openDirectoryAt(dir, name);
  return { fd, names: namesIn(fd) };
}

function looked(dir: number, name: string, { wanted, found }: { wanted: ReadonlySet<bigint>; found: Set<bigint> }): Level | null {
  try {
    const { ino, format } = statAt(dir, name);
    if (wanted.has(ino)) found.add(ino);
    return format === FORMATS.dir ? entered(dir, name) : null;
  } catch (error) {
    if (isVanished(error)) return null;
    throw error;
  }
}
