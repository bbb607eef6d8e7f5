// Snapshot: a point in time of a Volume, held on the copy that was active when it was taken. It stays with that copy when the volume moves.
import Type, { type Static } from 'typebox';
import type { Kind } from './kind.ts';
import { GROUP, Obstacle, VERSION, type ApiObject } from './meta.ts';
import { ID_PATTERN, NAME_PATTERN, POOL_NAME_PATTERN, UID_PATTERN } from './names.ts';
import { FILESYSTEMS } from './volume.ts';

export const SnapshotSpec = Type.Object({ volume: Type.String({ pattern: NAME_PATTERN, maxLength: 253 }) });
export type SnapshotSpec = Static<typeof SnapshotSpec>;

/**
 * Pending: the controller named the copy, its agent is to take it · Ready · Failed: its copy is gone, and it with it · Deleting: the agent
 * is to let it go · Released: it did.
 */
const SNAPSHOT_PHASES = ['Pending', 'Ready', 'Failed', 'Deleting', 'Released'] as const;

export const SnapshotStatus = Type.Object({
  phase: Type.Optional(Type.Enum([...SNAPSHOT_PHASES])),
  // The controller's: which copy it is of.
  node: Type.Optional(Type.String({ pattern: NAME_PATTERN, maxLength: 253 })),
  pool: Type.Optional(Type.String({ pattern: POOL_NAME_PATTERN, maxLength: 63 })),
  copy: Type.Optional(Type.String({ pattern: ID_PATTERN, maxLength: 32 })),
  volumeUid: Type.Optional(Type.String({ pattern: UID_PATTERN })),
  // The agent's: what it holds.
  /** Bytes. */
  size: Type.Optional(Type.String()),
  takenAt: Type.Optional(Type.String({ format: 'date-time' })),
  volumeMode: Type.Optional(Type.Enum(['Filesystem', 'Block'])),
  filesystem: Type.Optional(Type.Enum([...FILESYSTEMS])),
  formatted: Type.Optional(Type.Boolean()),
  obstacle: Type.Optional(Obstacle),
});
export type SnapshotStatus = Static<typeof SnapshotStatus>;

export interface Snapshot extends ApiObject {
  spec: SnapshotSpec;
  status?: SnapshotStatus;
}

/** Held until the point is released, or gone with its copy. */
export const SNAPSHOT_FINALIZER = 'flock.dev/point';

export const Snapshots: Kind<Snapshot> = {
  group: GROUP,
  version: VERSION,
  kind: 'Snapshot',
  plural: 'snapshots',
  singular: 'snapshot',
  shortNames: ['fsnap'],
  scope: 'Cluster',
  schema: { spec: SnapshotSpec, status: Type.Optional(SnapshotStatus) },
  statusSubresource: true,
  rules: [{ path: 'spec.volume', rule: 'self == oldSelf', message: 'volume cannot change' }],
  columns: [
    { name: 'Volume', type: 'string', jsonPath: '.spec.volume' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Node', type: 'string', jsonPath: '.status.node' },
    { name: 'Size', type: 'string', jsonPath: '.status.size' },
    { name: 'Obstacle', type: 'string', jsonPath: '.status.obstacle.reason' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
};
