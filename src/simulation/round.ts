// What rounds of blocks and of directories have in common in the simulation: who takes part, and in which portions they go.
import type { PullOptions, RoundOrder } from '../transfer/transfer.ts';
import type { Journal } from './journal.ts';
import type { Life } from './life.ts';
import { BLOCK } from './blocks.ts';
import type { Machine } from './machine.ts';
import type { Link, Wires } from './wire.ts';

/** Blocks of one answer, and between two syncs. */
export const EXTENT = 2;
export const SYNC = 4;
/** Bytes a second, as a round reports them. */
export const RATE = BLOCK * 100;

export interface PullParts {
  machine: Machine;
  life: Life;
  wires: Wires;
  /** What was committed was shown to be what the source kept; or not. */
  scrubbed: (moveUid: string, same: boolean) => void;
}

export interface Round extends PullParts {
  options: PullOptions;
  order: RoundOrder;
  journal: Journal;
  link: Link;
}
