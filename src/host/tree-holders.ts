// Who uses anything of a directory: processes and each of their threads, mounts of it and over it in every mount namespace, loop devices made
// from its files. What somebody reached by another way (a bind mount, another namespace, a mount that was taken away lazily) has another path
// for it: that is told by the inode, for which the tree is walked. Processes come and go while we look, so we look more than once.
import { readdirSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Bursts } from './bursts.ts';
import { namedProcess } from './holders.ts';
import { loopDevices } from './loop.ts';
import { mountOf } from './mounts.ts';
import { inodesAmong } from './tree-inodes.ts';
import { mountsOver, overlaysOf } from './tree-mounts.ts';
import { tasksOf, usesOf, type Task } from './tree-tasks.ts';
import { deviceNumber } from './mountinfo.ts';
import { isWithinAny, type Suspect, type Tree } from './tree-uses.ts';

/** All of them are looked at twice, for what passes from one process to another; then those that came since, until none did. Some machines never rest. */
const MOST_LOOKS = 40;

/** Where anything of it is mounted, in words; costs little. */
export async function mountsOfTree({ paths, folder }: Pick<Tree, 'paths' | 'folder'>): Promise<string[]> {
  return mountsOver(
    await mountOf(folder),
    paths,
    processes().flatMap((pid) => tasksOf(pid)),
  );
}

/** In words; empty: nobody. Without root only processes of this user are seen. */
export async function usersOfTree(of: Pick<Tree, 'paths' | 'folder'> & { root: number }): Promise<string[]> {
  const looks = new Looks({ ...of, mount: await mountOf(of.folder), dev: (await stat(`/proc/self/fd/${of.root}`, { bigint: true })).dev });
  const seen = new Set<string>();
  for (let look = 0; look < MOST_LOOKS; look += 1) {
    const all = processes();
    const fresh = all.filter((pid) => !seen.has(pid));
    if (look > 1 && fresh.length === 0) break;
    const users = look === 1 ? await looks.again(all, seen) : await looks.at(fresh);
    if (users.length > 0) return users;
    for (const pid of fresh) seen.add(pid);
  }
  return [];
}

const processes = (): string[] => readdirSync('/proc').filter((name) => /^[0-9]+$/u.test(name));

class Looks {
  readonly #tree: Tree;
  /** What is known of inodes that somebody has: whether they are in the tree. */
  readonly #judged = new Map<bigint, boolean>();

  constructor(tree: Tree) {
    this.#tree = tree;
  }

  /** Of those that were seen before, what can have come to them since; a mapping is its own process's. With what is no process. */
  async again(pids: readonly string[], seen: ReadonlySet<string>): Promise<string[]> {
    return [...new Set([...(await this.at(pids, seen)), ...(await this.#judge(await this.#loops()))])];
  }

  /** Users among these processes, each once. */
  async at(pids: readonly string[], seen?: ReadonlySet<string>): Promise<string[]> {
    const bursts = new Bursts();
    const tasks: Task[] = [];
    const users: string[] = [];
    const suspects: Suspect[] = [];
    for (const pid of pids) {
      if (bursts.isOver) await bursts.rest();
      const own = tasksOf(pid, seen?.has(pid));
      tasks.push(...own);
      if (pid === String(process.pid)) continue;
      const how = own.reduce<string | null>((found, task) => found ?? usesOf(task, this.#tree, suspects), null);
      if (how !== null) users.push(await told({ pid, how }));
    }
    const { mount, paths } = this.#tree;
    const overs = await mountsOver(mount, paths, tasks);
    return [...new Set([...users, ...overs, ...(await this.#judge([...suspects, ...overlaysOf(this.#tree, tasks)]))])];
  }

  /** By the file itself: its path is of the namespace in which the device was made. */
  async #loops(): Promise<Suspect[]> {
    const { dev, mount } = this.#tree;
    const numbers = [mount.number, deviceNumber(Number(dev))];
    const ours = (await loopDevices()).filter(
      ({ file, filesystem }) => numbers.includes(filesystem) || isWithinAny(file, this.#tree.paths),
    );
    return ours.map(({ device, inode }) => ({ pid: null, how: `loop device ${device}`, ino: BigInt(inode) }));
  }

  /** Those who have something of the tree. It is walked whole, but only when there is somebody new to ask about. */
  async #judge(suspects: readonly Suspect[]): Promise<string[]> {
    const unknown = new Set(suspects.map(({ ino }) => ino).filter((ino) => !this.#judged.has(ino)));
    if (unknown.size > 0) {
      const inodes = await inodesAmong(this.#tree.root, unknown);
      for (const ino of unknown) this.#judged.set(ino, inodes.has(ino));
    }
    return Promise.all(suspects.filter(({ ino }) => this.#judged.get(ino) === true).map(told));
  }
}

const told = async ({ pid, how }: Pick<Suspect, 'pid' | 'how'>): Promise<string> =>
  pid === null ? how : `${await namedProcess(pid)} has it ${how}`;
