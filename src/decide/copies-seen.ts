// What an agent sees of one volume's copies, and the steps that it may take about them: the two ends of decide/copies.ts.
import type { CopyLabel } from '../model/label.ts';
import type { Stored } from '../model/meta.ts';
import type { Move } from '../model/move.ts';
import type { JournalProof } from '../model/proof.ts';
import type { Snapshot } from '../model/snapshot.ts';
import type { Volume } from '../model/volume.ts';
import type { Why } from './observed.ts';

export interface CopyOnDisk {
  id: string;
  pool: string;
  label: CopyLabel;
  size: bigint;
  published: readonly string[];
  /** It is not proven that the filesystem mounted from it fills it. */
  unfilled?: boolean;
  held: boolean;
  /** Names of its points in time, see model/points.ts. */
  points: readonly string[];
  /** What the journal of an incoming copy proves. */
  proof: JournalProof | null;
  /** Why it is not what its label says, and the way out. */
  damage?: string;
}

/** A copy whose label cannot be read: its name alone says whose it is. */
export interface UnlabelledCopy extends Pick<CopyOnDisk, 'id' | 'published'> {
  damage: string;
}

export interface CopiesSeen {
  node: string;
  /** The uid that the copies belong to. */
  uid: string;
  /** A fresh read; null: no such record, or one of another uid. */
  volume: Stored<Volume> | null;
  /** All moves of this volume that are recorded. */
  moves: readonly Stored<Move>[];
  copies: readonly CopyOnDisk[];
  unlabelled?: readonly UnlabelledCopy[];
  /** Pools that could be read just now: what they do not show is not there. */
  pools: ReadonlySet<string>;
  /** Snapshots of volumes of this name, as far as a watch told of them. */
  snapshots?: readonly Stored<Snapshot>[];
  /** What the volume begins with, while its first copy is not made; null: it is not there. */
  source?: Stored<Snapshot> | null;
}

export type CopyStep =
  | {
      step: 'create';
      copy: string;
      pool: string;
      size: bigint;
      role: 'active' | 'incoming';
      epoch: number;
      moveUid?: string;
      from?: Stored<Snapshot>;
    }
  | {
      step: 'relabel';
      copy: string;
      label: Partial<Pick<CopyLabel, 'role' | 'epoch' | 'moveUid'>>;
      report?: { move: string; outgoing: { unfencedEpoch: number } };
    }
  | { step: 'reserved'; copy: string; move: string }
  | { step: 'fence'; copy: string; move: string; epoch: number }
  | { step: 'pull'; copy: string; move: string; round: number; final: boolean; fresh: boolean }
  | { step: 'activate'; copy: string; move: string; epoch: number }
  | { step: 'scrub'; copy: string; move: string }
  | { step: 'grow'; copy: string; size: bigint }
  | { step: 'remove'; copy: string }
  | { step: 'releasePoint'; copy: string; point: string }
  /** Freezes the point if it is not there yet, and reports it. */
  | { step: 'takeSnapshot'; copy: string; snapshot: Stored<Snapshot> }
  /** Releases the point if it is still there, and reports that. */
  | { step: 'dropSnapshot'; copy: string; snapshot: Stored<Snapshot> }
  /** The record's entry of a copy that is proven absent. */
  | { step: 'dropEntry'; copy: string }
  | { step: 'blocked'; copy: string; why: Why };
