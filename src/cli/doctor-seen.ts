// What the doctor looked at: the records of one moment, from which each check draws its findings.
import type { Stored } from '../model/meta.ts';
import type { Move } from '../model/move.ts';
import type { StorageNode } from '../model/storage-node.ts';
import type { Lease } from '../model/system.ts';
import type { Volume } from '../model/volume.ts';

export interface Seen {
  /** This machine's clock, ms since 1970. */
  now: number;
  nodes: readonly Stored<StorageNode>[];
  volumes: readonly Stored<Volume>[];
  moves: readonly Stored<Move>[];
  leases: readonly Stored<Lease>[];
  /** Names of Leases that somebody renewed while they were looked at, whatever the times in them say. */
  renewed: ReadonlySet<string>;
}
