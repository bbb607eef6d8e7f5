// What the agent needs of the world, as parameters: the simulation and the tests give their own.
import type { Client } from '../api/client.ts';
import type { Clock } from '../model/clock.ts';
import type { CrashPoint } from '../model/crash.ts';
import type { CopyLabel } from '../model/label.ts';
import type { ApiObject, Stored } from '../model/meta.ts';
import type { Move } from '../model/move.ts';
import type { Snapshot } from '../model/snapshot.ts';
import type { StorageNode } from '../model/storage-node.ts';
import type { Filesystem, Volume } from '../model/volume.ts';
import type { CopyName, Pool } from '../pools/pool.ts';
import type { Log } from '../api/log.ts';
import type { JournalState, PullOptions, RoundOrder, RoundReport, ScrubReport } from '../transfer/transfer.ts';

/** The machine's mounts and filesystems. Every verb looks, acts only if needed, and looks again. */
export interface Mounts {
  /** Never on a guess: `formatted` is what label and record say. Throws Corrupt when they disagree with the device. */
  beFormatted(device: string, filesystem: Filesystem, formatted: boolean, options?: string): Promise<void>;
  /** A cloned filesystem has an identity of its own: two of one UUID cannot be mounted beside each other. Of one that is not mounted. */
  beDistinct(device: string, filesystem: Filesystem): Promise<void>;
  beMounted(device: string, target: string, filesystem: Filesystem, readOnly: boolean): Promise<void>;
  beUnmounted(target: string): Promise<void>;
  /** The device node itself at `target`, for raw block volumes. */
  beBound(device: string, target: string): Promise<void>;
  /** A volume that is a directory of this machine, at `target`. */
  beFolderBound(folder: string, target: string, readOnly: boolean): Promise<void>;
  /** The mounted filesystem fills its device. */
  beGrown(device: string, target: string, filesystem: Filesystem): Promise<void>;
  /** Before it is mounted: a filesystem that this machine could not grow once it is. */
  beGrownUnmounted(device: string, filesystem: Filesystem): Promise<void>;
  isMounted(target: string): Promise<boolean>;
  /** The path by the real name of its folder, so that one place has one name. */
  realPlace(target: string): Promise<string>;
  isLink(target: string): Promise<boolean>;
  /** Throws Invalid or InUse when the volume must not be mounted there: something would be hidden. */
  checkTarget(target: string, volumeMode: CopyLabel['volumeMode']): Promise<void>;
  /** What was written at `target` so far is on its device. */
  beFlushed(target: string): Promise<void>;
}

/** The transfer's target side, and what a source is asked before it is fenced. */
export interface Transfer {
  pullRound(options: PullOptions, order: RoundOrder): Promise<RoundReport>;
  scrub(options: PullOptions, point: string): Promise<ScrubReport>;
  /** Throws Unsupported for a source that no round could take over. */
  checkCarried(pool: Pool, copy: CopyName): Promise<void>;
  readJournal(pool: Pool, copy: CopyName): Promise<JournalState | null>;
  dropJournal(pool: Pool, copy: CopyName): Promise<void>;
}

/** Tells people and programs what happened: an Event on the object, and a count. Never throws, never waits. */
export type Tell = (about: ApiObject, type: 'Normal' | 'Warning', reason: string, message: string) => void;

/** What is known of the records without asking: kept up to date by watches. */
export interface Known {
  movesOf(volume: string): Stored<Move>[];
  /** Snapshots of volumes of this name. */
  snapshotsOf(volume: string): Stored<Snapshot>[];
  node(name: string): Stored<StorageNode> | null;
  volume(name: string): Stored<Volume> | null;
}

export interface AgentPorts {
  node: string;
  client: Client;
  known: Known;
  pools: ReadonlyMap<string, Pool>;
  mounts: Mounts;
  transfer: Transfer;
  clock: Clock;
  crash: CrashPoint;
  log: Log;
  tell: Tell;
  /** The node's Lease was renewed within its duration. */
  isLeaseFresh: () => boolean;
}
