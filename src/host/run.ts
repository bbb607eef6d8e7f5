// The one way to run another program: argv and never a shell, and a failed program is an exception.
import { execFile, type ExecFileException } from 'node:child_process';
import { FlockError } from '../model/errors.ts';
import { wayToGet } from './programs.ts';

export interface Output {
  stdout: string;
  stderr: string;
  exitCode: number;
}

export interface RunOptions {
  /** ms; then the program gets SIGTERM and the call throws. Default 60 s. */
  timeout?: number;
  /** Exit codes besides 0 that are an answer and no failure. */
  allow?: readonly number[];
}

/** A program that failed, could not be started, or was stopped because it took too long. */
export class CommandFailed extends FlockError {
  readonly command: string;
  /** null: it never ran, or a signal ended it. */
  readonly exitCode: number | null;
  readonly stderr: string;

  constructor(command: string, outcome: { exitCode: number | null; stderr: string; why: string }, options?: ErrorOptions) {
    super('Internal', `\`${command}\` ${outcome.why}${outcome.stderr === '' ? '' : `: ${outcome.stderr}`}`, options);
    this.command = command;
    this.exitCode = outcome.exitCode;
    this.stderr = outcome.stderr;
  }
}

/** Runs to the end. Throws CommandFailed unless it exits with 0 or an allowed code. */
export function run(program: string, args: readonly string[], options: RunOptions = {}): Promise<Output> {
  const timeout = options.timeout ?? 60_000;
  const env = { ...process.env, LC_ALL: 'C' };
  return new Promise((resolve, reject) => {
    execFile(program, args, { timeout, env, killSignal: 'SIGTERM', maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      const exitCode = error === null ? 0 : typeof error.code === 'number' ? error.code : null;
      if (exitCode !== null && (exitCode === 0 || options.allow?.includes(exitCode))) return resolve({ stdout, stderr, exitCode });
      const why = whyOf(program, { error, exitCode, timeout });
      reject(new CommandFailed([program, ...args].join(' '), { exitCode, stderr: stderr.trim(), why }, { cause: error }));
    });
  });
}

interface Ending {
  error: ExecFileException | null;
  exitCode: number | null;
  timeout: number;
}

function whyOf(program: string, { error, exitCode, timeout }: Ending): string {
  if (exitCode !== null) return `failed with exit code ${exitCode}`;
  if (error?.code === ('ENOENT' as unknown)) return `could not be started: there is no such program on the PATH${wayToGet(program)}`;
  if (error?.killed) return `was stopped after ${timeout} ms without an answer`;
  return error?.signal ? `was ended by ${error.signal}` : `could not be started (${error?.message ?? 'unknown'})`;
}
