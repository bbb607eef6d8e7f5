// The real programs that Flock's API is measured against: built when missing, run, and ended by their own pid.
// Must not know Flock.
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { once } from 'node:events';
import { promisify } from 'node:util';

export interface Programs {
  etcd: string;
  apiserver: string;
  kubectl: string;
}

/** Paths of the programs, built first when they are missing (minutes). Throws with the build's own words, as when Go is missing. */
export async function programs(): Promise<Programs> {
  const { stdout } = await promisify(execFile)('nice', ['sh', `${import.meta.dirname}/build`]);
  const [etcd, apiserver, kubectl] = stdout.trim().split('\n');
  if (!etcd || !apiserver || !kubectl) throw new Error(`e2e/kube/build printed no three paths: ${stdout}`);
  return { etcd, apiserver, kubectl };
}

export interface Running {
  /** Null while it runs. */
  ended(): string | null;
  /** Kills it and returns when it is gone. */
  kill(): Promise<void>;
}

/** Of util-linux. */
const LEASH = 'setpriv';

/** Runs a server in the background; its output goes to `log`. It dies with this one, however that ends: the kernel sees to it. */
export function run(program: string, flags: readonly string[], log: string): Running {
  const output = openSync(log, 'a');
  const child = spawn(LEASH, ['--pdeathsig', 'KILL', '--', program, ...flags], { stdio: ['ignore', output, output] });
  closeSync(output);
  const exit = once(child, 'exit');
  // A spawn that fails has no exit: `ended` tells it.
  let failure: string | null = null;
  exit.catch((error: Error) => (failure = error.message));
  return { ended: () => failure ?? endOf(child), kill: () => kill(child, exit) };
}

const endOf = (child: ChildProcess): string | null => {
  if (child.exitCode !== null) return `exit status ${child.exitCode}`;
  return child.signalCode;
};

async function kill(child: ChildProcess, exit: Promise<unknown>): Promise<void> {
  if (child.pid === undefined || endOf(child) !== null) return;
  child.kill('SIGKILL');
  await exit;
}

/** The end of a log, for an error's text. */
export const tail = async (log: string): Promise<string> => (await readFile(log, 'utf8').catch(() => '')).split('\n').slice(-15).join('\n');

export interface Answer {
  code: number;
  stdout: string;
  stderr: string;
}

/** Also a watch ends after this, seconds: a test that waits for what never comes fails and leaves no kubectl behind. */
const LONGEST_REQUEST = 30;

/** kubectl against one server, with a cache of its own: what it learned of another server must not matter. */
export class Kubectl {
  readonly program: string;
  readonly config: string;
  readonly cache: string;

  constructor(program: string, config: string, cache: string) {
    this.program = program;
    this.config = config;
    this.cache = cache;
  }

  #argv(words: readonly string[]): string[] {
    return ['--kubeconfig', this.config, '--cache-dir', this.cache, '--request-timeout', `${LONGEST_REQUEST}s`, ...words];
  }

  /** Whatever the exit status is. `input` is its stdin. */
  async answer(words: readonly string[], input = ''): Promise<Answer> {
    const child = this.start(words);
    child.stdin?.end(input);
    const texts = Promise.all([text(child.stdout), text(child.stderr)]);
    const [code] = (await once(child, 'close')) as [number];
    const [stdout, stderr] = await texts;
    return { code, stdout, stderr };
  }

  /** Its stdout; throws with its stderr when it fails. */
  async ok(words: readonly string[], input = ''): Promise<string> {
    const { code, stdout, stderr } = await this.answer(words, input);
    if (code !== 0) throw new Error(`kubectl ${words.join(' ')} ended with ${code}: ${stderr}`);
    return stdout;
  }

  /** Its stderr; throws when it does not fail. */
  async refused(words: readonly string[], input = ''): Promise<string> {
    const { code, stdout, stderr } = await this.answer(words, input);
    if (code === 0) throw new Error(`kubectl ${words.join(' ')} was not refused: ${stdout}`);
    return stderr;
  }

  /** In the background, as for `get -w`. */
  start(words: readonly string[]): ChildProcess {
    return spawn(this.program, this.#argv(words), { stdio: 'pipe', env: { PATH: process.env['PATH'] } });
  }
}

async function text(stream: NodeJS.ReadableStream | null): Promise<string> {
  let all = '';
  for await (const part of stream ?? []) all += String(part);
  return all;
}
