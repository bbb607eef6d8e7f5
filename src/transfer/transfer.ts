// What moves data between two agents: the shapes that sender, receiver and their callers share. The target dials the source and pulls;
// the source answers only what its authoriser allows for this peer after a fresh read of the record.
import type { NodeIdentity } from '../api/certificates.ts';
import type { Log } from '../api/log.ts';
import type { Clock } from '../model/clock.ts';
import type { CrashPoint } from '../model/crash.ts';
import type { Verified } from '../model/move.ts';
import type { BlockHandle, CopyName, Pool } from '../pools/pool.ts';
import type { Restraint } from './restraint.ts';

/** The first frame of a connection: for what the target comes. */
export interface Hello {
  protocol: 1;
  /** `measure`: for nothing but how fast bytes come; what follows is not looked at then. */
  purpose: 'round' | 'scrub' | 'measure';
  move: string;
  moveUid: string;
  volumeUid: string;
  /** Id of the source's copy. */
  copy: string;
  epoch: number;
}

/** What the source serves after it looked at the record. */
export interface Offer {
  pool: Pool;
  copy: CopyName;
  /** The copy is fenced: `live` may be served as the final state. */
  fenced: boolean;
  /**
   * What the application has written so far reaches the copy. Asked before a point is frozen and before changes are counted: else the rest
   * would look small while it waits in the page cache, and the application would pay for it at the cut-over.
   */
  flush?: () => Promise<void>;
}

/** Who is at the other end, by the certificate that was shown. */
export interface Peer {
  node: string;
  /** Of the StorageNode that the certificate was signed for; null when it names none. Deleting that record revokes the certificate. */
  uid: string | null;
}

/** Throws a FlockError (Forbidden, Conflict, NotFound) to refuse; the peer is told its reason and message. */
export type Authorize = (hello: Hello, peer: Peer) => Promise<Offer>;

export interface SourceServer {
  address: string;
  port: number;
  /** Drops what this node serves for a move, at once. */
  drop(moveUid: string): void;
  close(): Promise<void>;
}

export interface SourceOptions {
  listen: { host: string; port: number };
  identity: () => NodeIdentity;
  authorize: Authorize;
  /** Whether this peer may measure the wire now; throws Forbidden. Without it nobody may. */
  authorizeMeasuring?: (peer: Peer) => Promise<void>;
  clock: Clock;
  log: Log;
  crash: CrashPoint;
  onBytes?: (bytes: number) => void;
  /** `auto`: blocks are compressed where the wire is slow and it pays. Without it they are not. */
  compression?: 'auto' | 'off';
  /** What this node bears of copying in the background; without it everything. */
  restraint?: Restraint;
}

export interface Progress {
  round: number;
  bytesTotal: bigint;
  bytesDone: bigint;
  /** Payload that crossed the wire in this round, in this process's attempt. */
  bytesSent: bigint;
  /** What an earlier attempt had written and the journal proved. */
  bytesResumed: bigint;
  rate: number;
  /** What it is doing: comparing hashes, copying, reading back. */
  activity: 'preparing' | 'comparing' | 'copying' | 'verifying';
}

export interface PullOptions {
  source: { host: string; port: number; node: string };
  /** Address of this node to dial from: the transfer network's. */
  localAddress?: string;
  identity: () => NodeIdentity;
  hello: Hello;
  target: {
    pool: Pool;
    copy: CopyName;
    /** Made for this move and never written by another: what was not written reads as zeros. */
    fresh: boolean;
    /** Makes reads for hashes wait their turn, where the work is in the background. */
    paced?: (handle: BlockHandle) => BlockHandle;
  };
  /** Bytes a second, null for no limit; asked often, so that it can be changed while a round runs. */
  limit: () => number | null;
  /** What this node bears of copying in the background; without it everything. */
  restraint?: Restraint;
  onProgress: (progress: Progress) => void;
  signal: AbortSignal;
  clock: Clock;
  log: Log;
  crash: CrashPoint;
}

export interface RoundOrder {
  round: number;
  /** The source is fenced: the round ends at its live bytes, and its read-back is the proof. */
  final: boolean;
}

export interface RoundReport {
  round: number;
  bytesTotal: bigint;
  bytesSent: bigint;
  bytesResumed: bigint;
  frames: number;
  /** What the source's copy has allocated, bytes. */
  allocated: bigint;
  /** Changed at the source since this round's point; null: its pool cannot tell. */
  dirty: bigint | null;
  /** Root that both sides computed and that agreed; null for a final round that sent only a delta. */
  root: string | null;
  /** Payload bytes a second, over the copying of this round. */
  rate: number;
  /** Only of a final round. */
  verified: Verified | null;
}

/** What the journal on the target's pool proves of an incoming copy. */
export interface JournalState {
  moveUid: string;
  completeRound: number | null;
  /** Root of the last complete round that compared one. */
  root: string | null;
  verified: Verified | null;
  /** Over all rounds and attempts. */
  bytesSent: bigint;
  bytesResumed: bigint;
  rounds: bigint[];
}

export interface ScrubReport {
  leaves: number;
  /** Leaves that were wrong at the target, by the hash both had agreed on, and were pulled again. */
  repaired: number;
  /** Leaves that were right at the target, by that hash, and are wrong at the source now. */
  rotten: number;
  /** Leaves that differ, and nothing proves which is right: both are left as they are. */
  unproven: number;
  /** Leaves that differed and that the application has overwritten since, so that they could not be judged. */
  overwritten: number;
  root: string;
}
