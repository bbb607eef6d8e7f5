// What one task of a process has of a directory: descriptors, working directory, root, program, mappings. A thread may have a descriptor table
// or a working directory of its own, and may outlive the first thread of its process. What is of /proc is in memory: it is read at once.
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { sharesFiles } from './syscalls.ts';
import { isWithinAny, orNull, type Suspect, type Tree } from './tree-uses.ts';

export interface Task {
  pid: string;
  tid: string;
  /** Its folder in /proc. */
  path: string;
  /** It has a descriptor table that no task before it in the process has. */
  ownFiles: boolean;
  /** Its memory was looked at neither with a task before it nor earlier. */
  ownMemory: boolean;
}

/** The first thread first. A process that ended, or that this user may not see, has none. */
export function tasksOf(pid: string, seen = false): Task[] {
  const tids = orNull(() => readdirSync(`/proc/${pid}/task`)) ?? [];
  const all = tids.map((tid) => ({ pid, tid, path: `/proc/${pid}/task/${tid}` }));
  // Of a first thread that has ended nothing is left to share.
  const [first] = all;
  const alive = first !== undefined && orNull(() => readlinkSync(`${first.path}/cwd`)) !== null;
  return all.map((task, at) => ({
    ...task,
    ownFiles: at === 0 || !alive || !sharesFiles(Number(first.tid), Number(task.tid)),
    ownMemory: !seen && (at === 0 || !alive),
  }));
}

const LINKS: { [name: string]: string } = { cwd: 'as its working directory', root: 'as its root', exe: 'as its program' };

/** How the task has it, where a path says so; what only an inode can tell goes to `suspects`. */
export function usesOf(task: Task, tree: Tree, suspects: Suspect[]): string | null {
  const { pid, path, ownMemory } = task;
  for (const [name, how] of [...Object.entries(LINKS), ...descriptorsOf(task)]) {
    const link = `${path}/${name}`;
    const target = orNull(() => readlinkSync(link));
    // Sockets, pipes and what has no name are on no disk.
    if (target === null || !target.startsWith('/')) continue;
    if (isWithinAny(target, tree.paths)) return how;
    const seen = orNull(() => statSync(link, { bigint: true }));
    if (seen?.dev === tree.dev) suspects.push({ pid, how, ino: seen.ino });
  }
  return ownMemory && mapped(task, tree, suspects) ? 'mapped' : null;
}

const descriptorsOf = ({ path, ownFiles }: Task): [name: string, how: string][] =>
  ownFiles ? (orNull(() => readdirSync(`${path}/fd`)) ?? []).map((fd) => [`fd/${fd}`, 'open']) : [];

/** Each line: addresses, rights, offset, device, inode, path. Of one process there may be very many. */
function mapped({ pid, path }: Task, tree: Tree, suspects: Suspect[]): boolean {
  const text = orNull(() => readFileSync(`${path}/maps`, 'latin1')) ?? '';
  const device = tree.mount.number.split(':').map((each) => Number(each).toString(16).padStart(2, '0'));
  // Most processes have nothing of this filesystem: that is told quickly.
  if (!text.includes(` ${device.join(':')} `)) return false;
  const inodes = new Set<string>();
  for (const [, inode = '', file = ''] of text.matchAll(new RegExp(` ${device.join(':')} ([0-9]+) *(/.*)?$`, 'gmu'))) {
    if (isWithinAny(file, tree.paths)) return true;
    inodes.add(inode);
  }
  suspects.push(...[...inodes].map((inode) => ({ pid, how: 'mapped', ino: BigInt(inode) })));
  return false;
}
