// StorageNode: a machine with pools, as its agent reports it. Its Lease is its heartbeat.
import Type, { type Static } from 'typebox';
import type { Kind } from './kind.ts';
import { NAME_PATTERN } from './names.ts';
import { Condition, GROUP, Obstacle, VERSION, type ApiObject } from './meta.ts';

export const POOL_TYPES = ['lvm', 'lvm-thin', 'image', 'directory'] as const;
export type PoolType = (typeof POOL_TYPES)[number];

/**
 * What keeps a directory within its size: the filesystem's project quota, a quota of its btrfs subvolume, or only that no more is promised
 * than there is.
 */
export const BUDGETS = ['project-quota', 'qgroup', 'booked'] as const;
export type Budget = (typeof BUDGETS)[number];

/** Byte counts are decimal strings. */
export const PoolStatus = Type.Object({
  type: Type.Enum([...POOL_TYPES]),
  uuid: Type.Optional(Type.String()),
  /** What may be booked: the file system's size less the reserve, times the overcommit; absent: unlimited. */
  capacity: Type.Optional(Type.String()),
  /** Sum of the sizes of all copies, stale and incoming ones too. */
  booked: Type.Optional(Type.String()),
  /** What a new copy may be as large as. */
  free: Type.Optional(Type.String()),
  /** Real size and use of what is underneath. */
  size: Type.Optional(Type.String()),
  used: Type.Optional(Type.String()),
  /** Sizes are multiples of this. */
  unit: Type.Optional(Type.String()),
  thin: Type.Optional(Type.Boolean()),
  /** It can hold points in time, so that a move copies while the application writes. */
  points: Type.Optional(Type.Boolean()),
  /** Of pools of directories: what keeps a volume within its size. */
  budget: Type.Optional(Type.Enum([...BUDGETS])),
  healthy: Type.Boolean(),
  obstacle: Type.Optional(Obstacle),
  /** What lies in the pool and is no copy: listed, never touched. */
  foreign: Type.Optional(Type.Array(Type.String())),
  /** Copies that are not what their labels say: neither served nor changed, the pool's others are. */
  damaged: Type.Optional(Type.Array(Type.String())),
  /** Copies without a record of their volume, and its name: kept, booked, never touched. */
  orphaned: Type.Optional(Type.Record(Type.String(), Type.String())),
});
export type PoolStatus = Static<typeof PoolStatus>;

export const StorageNodeSpec = Type.Object({
  unschedulable: Type.Optional(Type.Boolean({ description: 'No new volumes and no moves to this node.' })),
  measure: Type.Optional(
    Type.Object(
      { by: Type.String({ pattern: NAME_PATTERN, maxLength: 253 }), until: Type.String({ format: 'date-time' }) },
      { description: 'That node may measure the wire to this one until then: `flockctl bench` sets it, for a minute.' },
    ),
  ),
  drain: Type.Optional(Type.Boolean({ description: 'Its volumes are moved to other nodes; nothing new comes here meanwhile.' })),
});
export type StorageNodeSpec = Static<typeof StorageNodeSpec>;

/** How far a drain is: volumes that still depend on this node, and how many of them are on their way. */
export const Drain = Type.Object({ left: Type.Integer(), moving: Type.Integer(), message: Type.String() });
export type Drain = Static<typeof Drain>;

export const StorageNodeStatus = Type.Object({
  agentVersion: Type.Optional(Type.String()),
  kernel: Type.Optional(Type.String()),
  /** Where its agent serves volume data to other agents; absent: nowhere now. */
  transfer: Type.Optional(Type.Object({ address: Type.String(), port: Type.Integer() })),
  /** Path of the agent's local socket, for commands on the same machine. */
  socket: Type.Optional(Type.String()),
  /** Kernel and mkfs features that a volume may depend on. */
  filesystems: Type.Optional(Type.Array(Type.String())),
  /** It can attach and mount: runs as root and has loop devices. */
  canMount: Type.Optional(Type.Boolean()),
  pools: Type.Optional(Type.Record(Type.String(), PoolStatus)),
  conditions: Type.Optional(Type.Array(Condition)),
  /** The controller's, while it is drained. */
  drain: Type.Optional(Drain),
});
export type StorageNodeStatus = Static<typeof StorageNodeStatus>;

export interface StorageNode extends ApiObject {
  spec?: StorageNodeSpec;
  status?: StorageNodeStatus;
}

/** Condition: no other node can fetch volume data from this one. Not there when nothing says so. */
export const UNREACHED = 'Unreachable';

/** Condition: volume data goes over another network than the one that was preferred. Not there when it does not. */
export const OUTSIDE = 'OutsideNetwork';

/** Condition: copying in the background is slower than it could be, for others wait on this node. Not there when it is not. */
export const HELD_BACK = 'CopyingHeldBack';

export const StorageNodes: Kind<StorageNode> = {
  group: GROUP,
  version: VERSION,
  kind: 'StorageNode',
  plural: 'storagenodes',
  singular: 'storagenode',
  shortNames: ['fnode'],
  scope: 'Cluster',
  schema: { spec: Type.Optional(StorageNodeSpec), status: Type.Optional(StorageNodeStatus) },
  statusSubresource: true,
  rules: [],
  columns: [
    { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
    { name: 'Reason', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].reason' },
    { name: 'Address', type: 'string', jsonPath: '.status.transfer.address' },
    { name: 'Version', type: 'string', jsonPath: '.status.agentVersion', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
};
