// One table: what a program that called flockctl learns from its exit code.
import { CommanderError } from 'commander';
import { FlockError, type Reason } from '../model/errors.ts';

export const DONE = 0;
const FAILED = 1;
const USAGE = 2;
const NOT_FOUND = 3;
const REFUSED = 4;
const UNREACHABLE = 5;
/** As shells say it: ended by SIGINT. */
const INTERRUPTED = 130;

const CODES: { [R in Reason]: number } = {
  Invalid: USAGE,
  NotFound: NOT_FOUND,
  AlreadyExists: REFUSED,
  Conflict: REFUSED,
  Forbidden: REFUSED,
  Unauthorized: REFUSED,
  NoSpace: REFUSED,
  InUse: REFUSED,
  NotPermitted: REFUSED,
  Unsupported: REFUSED,
  Unavailable: UNREACHABLE,
  Expired: FAILED,
  Corrupt: FAILED,
  Internal: FAILED,
};

/** A person ended it; what goes on without them was told. */
export class Interrupted extends Error {}

export function exitCodeOf(error: unknown): number {
  if (error instanceof Interrupted) return INTERRUPTED;
  if (error instanceof CommanderError) return error.exitCode === 0 ? DONE : USAGE;
  return error instanceof FlockError ? CODES[error.reason] : FAILED;
}

export const EXIT_CODE_HELP = `
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found,
4 refused or in conflict, 5 server unreachable, 130 ended by Ctrl-C.`;
