// What the simulated transfer keeps on the target's disk: the shapes of the shipped journal, without its bytes. Knows no wire.
import type { Verified } from '../model/move.ts';
import type { JournalState, RoundOrder, RoundReport } from '../transfer/transfer.ts';
import type { MemoryCopy } from './blocks.ts';

export interface Begun extends RoundOrder {
  /** What the source listed; the same text means the same bytes. */
  manifest: string;
  mode: 'full' | 'delta' | 'hash';
  blocks: bigint[];
  /** Blocks that were synced. */
  done: Set<bigint>;
}

export interface Journal {
  moveUid: string;
  epoch: number;
  /** The copy was empty when its filling began. */
  pristine: boolean;
  begun: Begun | null;
  completed: { report: RoundReport; final: boolean } | null;
  bytesSent: bigint;
  bytesResumed: bigint;
  rounds: bigint[];
  verified: Verified | null;
  /** Of a directory: what both sides agreed on last. */
  committed: MemoryCopy['live'];
}

export const newJournal = (moveUid: string, epoch: number, pristine: boolean): Journal => ({
  moveUid,
  epoch,
  pristine,
  begun: null,
  completed: null,
  bytesSent: 0n,
  bytesResumed: 0n,
  rounds: [],
  verified: null,
  committed: new Map(),
});

export const stateOf = (journal: Journal): JournalState => ({
  moveUid: journal.moveUid,
  completeRound: journal.completed?.report.round ?? null,
  root: journal.completed?.report.root ?? null,
  verified: journal.verified,
  bytesSent: journal.bytesSent,
  bytesResumed: journal.bytesResumed,
  rounds: [...journal.rounds],
});
