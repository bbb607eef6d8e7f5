// Programs that run in a cluster's namespace and outlive who started them: each leads a process group of its own, with its pid in a file.
// A pid counts only while its process is a member of the namespace, so nothing else is ever signalled. Must not know what the programs are.
import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { isMember, members } from './network.ts';
import { inside, type Place } from './place.ts';

export const logOf = (place: Place, name: string): string => join(place.logs, `${name}.log`);
const pidFile = (place: Place, name: string): string => join(place.pids, name);

/** Starts it; its output goes to its log, after what is there. Throws when one of this name runs. */
export async function launch(place: Place, name: string, argv: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<void> {
  if ((await pidOf(place, name)) !== null) throw new Error(`${name} of cluster ${place.name} runs already`);
  const [program, ...words] = inside(place);
  const log = openSync(logOf(place, name), 'a');
  const child = spawn(program, [...words, ...argv], { detached: true, stdio: ['ignore', log, log], env: { ...process.env, ...env } });
  closeSync(log);
  await entered(place, name, child);
  child.unref();
  await writeFile(pidFile(place, name), String(child.pid));
}

/** Only in the namespace it is a member, and found by its pid; nsenter takes a moment. */
async function entered(place: Place, name: string, child: ChildProcess): Promise<void> {
  let failure = '';
  child.once('error', (error) => (failure = error.message));
  child.once('exit', (code, signal) => (failure = `ended at once with ${code ?? signal}: see ${logOf(place, name)}`));
  while (failure === '' && (child.pid === undefined || !(await isMember(place, child.pid)))) await pause(2);
  if (failure !== '') throw new Error(`${name}: ${failure}`);
}

/** Null: it does not run. */
export async function pidOf(place: Place, name: string): Promise<number | null> {
  const pid = Number(await readFile(pidFile(place, name), 'utf8').catch(() => '0'));
  return pid > 0 && (await isMember(place, pid)) ? pid : null;
}

/** Kills it and whatever it started, and returns when they are gone. Not running is fine. */
export async function kill(place: Place, name: string): Promise<void> {
  const pid = await pidOf(place, name);
  if (pid !== null) await killAll(() => groupOf(place, pid));
  await rm(pidFile(place, name), { force: true });
}

/** Kills all members of the namespace but this process. */
export const killMembers = (place: Place): Promise<void> =>
  killAll(async () => (await members(place)).filter((pid) => pid !== process.pid));

const LONGEST_END = 20_000;

/** Those who appear meanwhile are killed too. */
async function killAll(who: () => Promise<number[]>): Promise<void> {
  const until = Date.now() + LONGEST_END;
  for (let left = await who(); left.length > 0; left = await who()) {
    if (Date.now() > until) throw new Error(`processes ${left.join(', ')} do not end, although they were killed`);
    for (const pid of left) signal(pid);
    await pause(20);
  }
}

function signal(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function groupOf(place: Place, leader: number): Promise<number[]> {
  const pids = await members(place);
  const groups = await Promise.all(pids.map(processGroup));
  return pids.filter((_, index) => groups[index] === leader);
}

/** The fifth word of /proc/PID/stat; the second one, a name in parentheses, may hold blanks. */
async function processGroup(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[2] ?? 0);
}
