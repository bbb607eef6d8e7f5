// Commands that change a volume group: LVM's, dmsetup's, the thin tools'. A killed one can leave devices suspended for ever, so each runs in
// a session and a cgroup of its own that outlive this process and its container, writes into files that nobody can close, and is asked to
// end but never killed. One that does not end stops the work on its own volume group only. Knows no command by name.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, open, readFile, rm, rmdir, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FlockError, messageOf } from '../model/errors.ts';
import { isCode } from './files.ts';
import { CommandFailed, type Output } from './run.ts';
import { turns } from './turns.ts';

/** Whose programs are run: those on the PATH of this process, or the machine's own, from within a container. */
export type Tools = 'host' | 'image';

export interface LvmRunOptions {
  /** Exit codes besides 0 that are an answer and no failure. */
  allow?: readonly number[];
  /** ms until it is asked to end; default 60 s. */
  patience?: number;
}

/** Runs a program to its end. Throws CommandFailed; Unavailable when it, or an earlier one, does not end. */
export type LvmRun = (program: string, args: readonly string[], options?: LvmRunOptions) => Promise<Output>;

const PATIENCE_MS = 60_000;
/** A constant text; what is run comes as arguments. */
const JOIN_AND_RUN = 'echo $$ > "$0" && exec "$@"';

interface Ended extends Output {
  signal: NodeJS.Signals | null;
}

/** The commands of one volume group. Make one a process, for it remembers what does not end. */
export class LvmCommands {
  readonly #volumeGroup: string;
  readonly #tools: Tools;
  #overdue: { command: string; pid: number | undefined } | null = null;

  constructor(volumeGroup: string, tools: Tools) {
    this.#volumeGroup = volumeGroup;
    this.#tools = tools;
  }

  readonly run: LvmRun = async (program, args, options = {}) => {
    this.#refuseBehindOverdue();
    const { child, ended } = await this.#begin([program, ...args]);
    const { patience = PATIENCE_MS, allow = [] } = options;
    const command = [program, ...args].join(' ');
    const answer = await Promise.race([ended, late(patience)]);
    if (answer === 'late') throw this.#late(command, { child, ended, patience });
    const { signal, ...output } = answer;
    if (signal === null && (output.exitCode === 0 || allow.includes(output.exitCode))) return output;
    const why = signal === null ? `failed with exit code ${output.exitCode}` : `was ended by ${signal}`;
    throw new CommandFailed(command, { exitCode: signal === null ? output.exitCode : null, stderr: output.stderr.trim(), why });
  };

  /** Waits until nothing that an earlier process began here runs any more. Throws Unavailable. */
  async settled(patience = PATIENCE_MS): Promise<void> {
    const until = performance.now() + patience;
    for (;;) {
      const pids = await runningOn(this.#volumeGroup);
      if (pids.length === 0) return;
      if (performance.now() > until)
        throw new FlockError(
          'Unavailable',
          `volume group ${this.#volumeGroup}: commands of an earlier agent do not end (process ${pids.join(', ')}): ` +
            'nothing is changed there until they have. Look at the disk below; do not kill them',
        );
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  #refuseBehindOverdue(): void {
    if (this.#overdue)
      throw new FlockError(
        'Unavailable',
        `volume group ${this.#volumeGroup} waits for \`${this.#overdue.command}\` (process ${this.#overdue.pid}), which does not end: ` +
          'look at the disk below, and do not kill it',
      );
  }

  #late(command: string, of: { child: ChildProcess; ended: Promise<Ended>; patience: number }): FlockError {
    const overdue = { command, pid: of.child.pid };
    this.#overdue = overdue;
    of.child.kill('SIGTERM');
    const over = (): void => {
      if (this.#overdue === overdue) this.#overdue = null;
    };
    of.ended.then(over, over);
    return new FlockError('Unavailable', `\`${command}\` was asked to end after ${of.patience} ms without an answer`);
  }

  async #begin(argv: readonly string[]): Promise<{ child: ChildProcess; ended: Promise<Ended> }> {
    const files = [await namelessFile(), await namelessFile()] as const;
    const group = await cgroups.enter(this.#volumeGroup);
    const [program = '', ...args] = [
      ...(group === null ? [] : ['sh', '-c', JOIN_AND_RUN, join(group, 'cgroup.procs')]),
      ...(this.#tools === 'host' ? INTO_MACHINE : []),
      ...argv,
    ];
    const child = spawn(program, args, {
      detached: true,
      stdio: ['ignore', files[0].fd, files[1].fd],
      env: environmentOf(this.#tools, existsSync(MACHINE_UDEV)),
    });
    return { child, ended: this.#outcome(child, argv, files) };
  }

  async #outcome(...of: Parameters<typeof outcome>): Promise<Ended> {
    try {
      return await outcome(...of);
    } finally {
      await cgroups.leave(this.#volumeGroup);
    }
  }
}

/** The namespaces of the machine's first process but for its cgroup and pids: its programs, its configuration, its devices. */
const INTO_MACHINE = ['nsenter', '--target', '1', '--mount', '--uts', '--ipc', '--net', '--'];

const MACHINE_UDEV = '/proc/1/root/run/udev/control';

/** Of a command: what the container that this process is in says of its own udev does not hold for the machine's. */
export function environmentOf(tools: Tools, machineHasUdev: boolean): NodeJS.ProcessEnv {
  const { DM_DISABLE_UDEV: _ours, ...others } = process.env;
  const always = {
    ...others,
    LC_ALL: 'C',
    LVM_SUPPRESS_FD_WARNINGS: '1',
    PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin:/usr/bin:/bin`,
  };
  // Where there is no udev to wait for, device-mapper makes its own device files.
  return tools === 'host' && machineHasUdev ? always : { ...always, DM_DISABLE_UDEV: '1' };
}

const late = async (ms: number): Promise<'late'> =>
  new Promise((resolve) => {
    setTimeout(() => resolve('late'), ms).unref();
  });

/** How a shell says that there is no such program. */
const NO_PROGRAM = 127;

async function outcome(child: ChildProcess, argv: readonly string[], files: readonly [FileHandle, FileHandle]): Promise<Ended> {
  const missing = `could not be started: there is no program ${argv[0]} on the PATH`;
  try {
    const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
    const [stdout = '', stderr = ''] = await Promise.all(files.map(textOf));
    if (code === NO_PROGRAM) throw new CommandFailed(argv.join(' '), { exitCode: code, stderr: '', why: missing });
    return { exitCode: code ?? -1, signal, stdout, stderr };
  } catch (error) {
    if (error instanceof CommandFailed) throw error;
    const why = isCode(error, 'ENOENT') ? missing : `could not be started (${messageOf(error)})`;
    throw new CommandFailed(argv.join(' '), { exitCode: null, stderr: '', why }, { cause: error });
  } finally {
    await Promise.all(files.map((file) => file.close()));
  }
}

async function textOf(file: FileHandle): Promise<string> {
  const { size } = await file.stat();
  const { buffer } = await file.read(Buffer.alloc(size), 0, size, 0);
  return buffer.toString('utf8');
}

/** A file without a name: it goes with the last who has it open. */
async function namelessFile(): Promise<FileHandle> {
  const folder = await mkdtemp(join(tmpdir(), 'flock-lvm-'));
  try {
    return await open(join(folder, 'output'), 'w+', 0o600);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** The machine's own tree of cgroups, also from a container that sees the machine's processes. */
const TREES = ['/proc/1/root/sys/fs/cgroup', '/sys/fs/cgroup'];
const OURS = 'flock-lvm';

const groupOf = (tree: string, volumeGroup: string): string => join(tree, OURS, `vg-${volumeGroup}`);

/** A cgroup for the commands on each volume group, for as long as one of them runs. */
class CommandGroups {
  readonly #turn = turns();
  readonly #inside = new Map<string, number>();

  /** Null where none can be made: without root, or before cgroup v2. */
  enter(volumeGroup: string): Promise<string | null> {
    return this.#turn('', async () => {
      this.#inside.set(volumeGroup, (this.#inside.get(volumeGroup) ?? 0) + 1);
      for (const tree of TREES) if (await isMade(tree, groupOf(tree, volumeGroup))) return groupOf(tree, volumeGroup);
      return null;
    });
  }

  leave(volumeGroup: string): Promise<void> {
    return this.#turn('', async () => {
      const left = (this.#inside.get(volumeGroup) ?? 1) - 1;
      this.#inside.set(volumeGroup, left);
      if (left > 0) return;
      // One in which somebody still runs, or that was never made, is left alone.
      for (const tree of TREES)
        for (const folder of [groupOf(tree, volumeGroup), join(tree, OURS)]) await rmdir(folder).catch(() => undefined);
    });
  }
}

const cgroups = new CommandGroups();

async function isMade(tree: string, group: string): Promise<boolean> {
  try {
    // Before cgroup v2 an ordinary folder would be made there.
    await readFile(join(tree, 'cgroup.controllers'));
    await mkdir(group, { recursive: true });
    await readFile(join(group, 'cgroup.procs'));
    return true;
  } catch {
    return false;
  }
}

/** What LVM's commands may start to stay: it watches devices, changes nothing that is asked for, and ends for nobody. */
const DAEMON = 'dmeventd';

/** Commands in the volume group's cgroup, whoever began them. */
async function runningOn(volumeGroup: string): Promise<string[]> {
  const read = TREES.map((tree) => readFile(join(groupOf(tree, volumeGroup), 'cgroup.procs'), 'utf8').catch(() => ''));
  const pids = [...new Set((await Promise.all(read)).flatMap((text) => text.split('\n').filter(Boolean)))];
  const names = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '')));
  return pids.filter((_, index) => names[index]?.trim() !== DAEMON);
}
