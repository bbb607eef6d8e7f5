// Snapshot: a point in time of a Volume, on the Volume's node.
import Type, { type Static } from 'typebox';
import type { Kind } from './kind.ts';
import { GROUP, Obstacle, VERSION, type ApiObject } from './meta.ts';
import { NAME_PATTERN } from './names.ts';

export const SnapshotSpec = Type.Object({ volume: Type.String({ pattern: NAME_PATTERN, maxLength: 253 }) });
export type SnapshotSpec = Static<typeof SnapshotSpec>;

export const SnapshotStatus = Type.Object({
  phase: Type.Optional(Type.Enum(['Pending', 'Ready', 'Deleting'])),
  node: Type.Optional(Type.String()),
  copy: Type.Optional(Type.String()),
  size: Type.Optional(Type.String()),
  takenAt: Type.Optional(Type.String({ format: 'date-time' })),
  obstacle: Type.Optional(Obstacle),
});
export type SnapshotStatus = Static<typeof SnapshotStatus>;

export interface Snapshot extends ApiObject {
  spec: SnapshotSpec;
  status?: SnapshotStatus;
}

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
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
};
