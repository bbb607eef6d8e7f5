// All kinds that the API serves.
import type { Kind } from './kind.ts';
import { Moves } from './move.ts';
import { Snapshots } from './snapshot.ts';
import { StorageNodes } from './storage-node.ts';
import { Events, Leases } from './system.ts';
import { Volumes } from './volume.ts';

/** Ours: these get a CRD in a cluster. */
export const FLOCK_KINDS: readonly Kind[] = [StorageNodes, Volumes, Moves, Snapshots];
export const KINDS: readonly Kind[] = [...FLOCK_KINDS, Leases, Events];
