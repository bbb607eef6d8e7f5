// Processes that outlive the command that started them: each is known by its id together with the time it began, so that a later process
// with the same id is never taken for it. Knows nothing of what they do.
import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { basename, join } from 'node:path';
import type { Clock } from '../../model/clock.ts';
import { FlockError } from '../../model/errors.ts';

export interface Child {
  name: string;
  pid: number;
}

interface Kept {
  pid: number;
  /** When it began, in the kernel's ticks since its boot. */
  began: string;
  boot: string;
}

const bootId = (): string => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();

/** null when there is no such process, or only its remains. */
function beganAt(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The command's name may hold blanks and brackets; what follows the last bracket does not.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? null : (fields[19] ?? null);
  } catch {
    return null;
  }
}

export interface Order {
  /** Folder where it is remembered, and the name by which. */
  running: string;
  name: string;
  log: string;
  /** Arguments of this very node. */
  words: readonly string[];
  env?: { [name: string]: string };
  /** It is to end when this process ends: its standard input is a pipe that only this process holds, and it is told so. */
  tied?: boolean;
}

/** Set for a process that is to end when its standard input does. */
const TIED = 'FLOCK_TIED';

/** Starts one and remembers it; its output goes to the end of `log`. */
export function begin({ running, name, log, words, env = {}, tied = false }: Order): Child {
  const output = openSync(log, 'a', 0o600);
  try {
    const child = spawn(process.execPath, words, {
      detached: true,
      stdio: [tied ? 'pipe' : 'ignore', output, output],
      env: { ...process.env, ...env, ...(tied ? { [TIED]: '1' } : {}) },
      cwd: '/',
    });
    child.on('error', () => {});
    child.unref();
    if (child.stdin) letGo(child.stdin as Socket);
    const started = child.pid === undefined ? null : { name, pid: child.pid };
    if (started === null || !rememberChild(running, started))
      throw new FlockError('Internal', `${name} could not be started; ${log} may tell why`);
    return started;
  } finally {
    closeSync(output);
  }
}

/** False when there is no such process. */
export function rememberChild(running: string, { name, pid }: Child): boolean {
  const began = beganAt(pid);
  if (began === null) return false;
  mkdirSync(running, { recursive: true });
  writeFileSync(join(running, `${name}.json`), JSON.stringify({ pid, began, boot: bootId() } satisfies Kept));
  return true;
}

/** The pipe stays open as long as this process lives, and does not keep it alive. */
function letGo(pipe: Socket): void {
  pipe.on('error', () => {});
  pipe.unref();
}

/** In a tied process: called when whoever started it has ended. */
export function whenUntied(end: () => void): void {
  if (process.env[TIED] !== '1') return;
  // Its own children have another input, and are nobody's tied ones.
  delete process.env[TIED];
  process.stdin.on('error', end).on('end', end).resume().unref();
}

/** The one of this name that runs now. */
export function found(running: string, name: string): Child | null {
  const kept = read(join(running, `${name}.json`));
  return kept !== null && kept.boot === bootId() && beganAt(kept.pid) === kept.began ? { name, pid: kept.pid } : null;
}

function read(file: string): Kept | null {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Kept;
  } catch {
    return null;
  }
}

/** All that run now. */
export function allFound(running: string): Child[] {
  let names: string[] = [];
  try {
    names = readdirSync(running).filter((file) => file.endsWith('.json'));
  } catch {
    return [];
  }
  return names.flatMap((file) => found(running, basename(file, '.json')) ?? []);
}

const PATIENCE_MS = 20_000;
const LOOK_MS = 25;

/** Asks it to end, waits, and after 20 s makes it; afterwards it is gone and forgotten. */
export async function end(running: string, name: string, clock: Clock): Promise<void> {
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const child = found(running, name);
    if (child === null) break;
    tell(child.pid, signal);
    const until = clock.monotonic() + PATIENCE_MS;
    while (found(running, name) !== null && clock.monotonic() < until) await clock.sleep(LOOK_MS);
  }
  if (found(running, name) !== null) throw new FlockError('InUse', `${name} does not end, not even by SIGKILL: it waits for a disk`);
  rmSync(join(running, `${name}.json`), { force: true });
}

function tell(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
