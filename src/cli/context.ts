// What a command gets from outside: where it writes, the clock, the environment and the way to the records. Tests give their own.
// Knows no command.
import type { Client } from '../api/client.ts';
import type { Clock } from '../model/clock.ts';
import type { Where } from './connection.ts';

export interface Screen {
  write(text: string): void;
  /** A person sees it now: lines may be redrawn and coloured. */
  isTerminal: boolean;
  columns: number;
}

export interface Context {
  out: Screen;
  /** Where a long-running command logs, when that is a file: never throws. */
  log?: (text: string) => void;
  err: Screen;
  env: { [name: string]: string | undefined };
  clock: Clock;
  /** Aborted by Ctrl-C and SIGTERM. */
  interrupted: AbortSignal;
  connect(where: Where): Promise<Client>;
  /** This process's working folder is the root from now on. */
  leaveFolder(): void;
}

export const line = (screen: Screen, text: string): void => screen.write(`${text}\n`);
