// Volume: what is stored, how large, and which copy of it may be served where. `spec.{node, epoch, copy, move}` is the only commit
// point of a move: one compare-and-swap of these four moves the volume.
import Type, { type Static } from 'typebox';
import type { Kind, Rule } from './kind.ts';
import { Condition, GROUP, Obstacle, VERSION, type ApiObject } from './meta.ts';
import { DURATION_PATTERN, ID_PATTERN, NAME_PATTERN, POOL_NAME_PATTERN } from './names.ts';
import { QUANTITY_PATTERN } from './quantity.ts';

/**
 * incoming: being filled · active: may be served · retired: fenced, its Move not committed · standby: a verified older generation ·
 * stale: superseded, kept and then wiped.
 */
export const COPY_ROLES = ['incoming', 'active', 'retired', 'standby', 'stale'] as const;

/** One volume's bytes in one pool, as its node reports them. `ordered` is the controller's: room was asked, nothing is on disk yet. */
export const CopyStatus = Type.Object({
  node: Type.String(),
  pool: Type.String(),
  role: Type.Enum(['ordered', ...COPY_ROLES]),
  epoch: Type.Optional(Type.Integer({ minimum: 0 })),
  /** Real size and what of it is allocated, bytes. */
  size: Type.Optional(Type.String()),
  allocated: Type.Optional(Type.String()),
  formatted: Type.Optional(Type.Boolean()),
  /** Once true, an absent copy is an error and is never made again. */
  created: Type.Optional(Type.Boolean()),
  /** Where it is published on its node; empty when nobody uses it. */
  published: Type.Optional(Type.Array(Type.String())),
  /** Its device node while attached. */
  device: Type.Optional(Type.String()),
  /** Points of Snapshots that it holds: it is not removed before they are. */
  snapshots: Type.Optional(Type.Array(Type.String())),
  /** Its filesystem still has the identity of the one that it was cloned from. */
  cloned: Type.Optional(Type.Boolean()),
  obstacle: Type.Optional(Obstacle),
});
export type CopyStatus = Static<typeof CopyStatus>;

export const FILESYSTEMS = ['ext4', 'xfs', 'btrfs'] as const;
export type Filesystem = (typeof FILESYSTEMS)[number];
/** What a volume gets that does not ask for one. */
export const USUAL_FILESYSTEM: Filesystem = 'ext4';

export const MIGRATION_MODES = ['Disabled', 'VolumeTransfer'] as const;

export const VolumeSpec = Type.Object({
  size: Type.String({
    pattern: QUANTITY_PATTERN,
    maxLength: 40,
    description: 'Size asked for, in bytes or with a suffix (10Gi). Grows only; the real size is in status.',
  }),
  pool: Type.Optional(
    Type.String({
      pattern: POOL_NAME_PATTERN,
      maxLength: 63,
      description: 'Name of the pool. Default: the only pool of the cluster, if there is one.',
    }),
  ),
  volumeMode: Type.Optional(Type.Enum(['Filesystem', 'Block'], { default: 'Filesystem' })),
  filesystem: Type.Optional(Type.Enum([...FILESYSTEMS], { default: USUAL_FILESYSTEM })),
  formatOptions: Type.Optional(
    Type.String({
      pattern: '^[-a-zA-Z0-9=. ]*$',
      maxLength: 200,
      description: 'Options of mkfs: -N, -i, -m for ext4, -i maxpct= or size= for xfs, -n, -m for btrfs, each with its value.',
    }),
  ),
  allowedPause: Type.Optional(
    Type.String({ pattern: DURATION_PATTERN, maxLength: 40, description: 'Longest pause of the application that a move may cause (2s).' }),
  ),
  transferBandwidth: Type.Optional(
    Type.String({ pattern: QUANTITY_PATTERN, maxLength: 40, description: 'Bytes a second that a move of this volume may use.' }),
  ),
  retainSource: Type.Optional(
    Type.String({ pattern: DURATION_PATTERN, maxLength: 40, description: 'How long the superseded copy is kept after a move (24h).' }),
  ),
  source: Type.Optional(
    Type.Object(
      {
        snapshot: Type.Optional(Type.String({ pattern: NAME_PATTERN, maxLength: 253 })),
        volume: Type.Optional(Type.String({ pattern: NAME_PATTERN, maxLength: 253 })),
      },
      { description: 'What it begins with: a Snapshot, or another Volume as it is now. Made on the node and in the pool of its source.' },
    ),
  ),
  wipe: Type.Optional(Type.Enum(['none', 'discard', 'zero'], { description: 'What happens to the bytes of a removed copy.' })),
  dataMigrationMode: Type.Optional(
    Type.Enum([...MIGRATION_MODES], {
      description:
        'What happens when the application is started on another node: Disabled (it cannot), or VolumeTransfer (the volume moves).',
    }),
  ),
  node: Type.Optional(Type.String({ pattern: NAME_PATTERN, maxLength: 253, description: 'The node whose copy may be served.' })),
  epoch: Type.Optional(Type.Integer({ minimum: 0, description: 'Counts changes of placement; a copy with another epoch is not served.' })),
  copy: Type.Optional(Type.String({ pattern: ID_PATTERN, maxLength: 32, description: 'The copy that may be served.' })),
  move: Type.Optional(Type.String({ pattern: NAME_PATTERN, maxLength: 253, description: 'The Move that put it there.' })),
});
export type VolumeSpec = Static<typeof VolumeSpec>;

export const VolumeStatus = Type.Object({
  phase: Type.Optional(Type.Enum(['Pending', 'Available', 'Published', 'Blocked', 'Deleting'])),
  /** Real size of the active copy, bytes. */
  capacity: Type.Optional(Type.String({ pattern: QUANTITY_PATTERN, maxLength: 40 })),
  copies: Type.Optional(Type.Record(Type.String(), CopyStatus)),
  obstacle: Type.Optional(Obstacle),
  conditions: Type.Optional(Type.Array(Condition)),
});
export type VolumeStatus = Static<typeof VolumeStatus>;

export interface Volume extends ApiObject {
  spec: VolumeSpec;
  status?: VolumeStatus;
}

/** What is to be on it; null: nothing, it is a raw block device. */
export const filesystemOf = (spec: Pick<VolumeSpec, 'volumeMode' | 'filesystem'>): Filesystem | null =>
  spec.volumeMode === 'Block' ? null : (spec.filesystem ?? USUAL_FILESYSTEM);

/** Annotation: the record was restored from a backup, and whether its disks went on since is not known. A person takes it away. */
export const RESTORED = 'flock.dev/restored';

/**
 * Annotation: the controller chose the node, by the pools' room, and may choose again as long as nothing was made. Says which nodes refused,
 * separated by commas. Without it, who made the volume named the node.
 */
export const REFUSED_BY = 'flock.dev/refused-by';

/** Held until no copy of the volume is reported by any node. */
export const VOLUME_FINALIZER = 'flock.dev/copies';

/** Written so that kube-apiserver's estimate of its cost knows the strings' length: orValue on both sides would lose it. */
const onlyWithEpoch = (field: 'node' | 'copy'): Rule => ({
  path: 'spec',
  rule: `!has(oldSelf.epoch) || self.?epoch.orValue(0) != oldSelf.epoch || (has(oldSelf.${field}) ? self.?${field}.orValue("") == oldSelf.${field} : !has(self.${field}))`,
  message: `${field} changes only together with epoch; to move a volume, create a Move`,
});

export const Volumes: Kind<Volume> = {
  group: GROUP,
  version: VERSION,
  kind: 'Volume',
  plural: 'volumes',
  singular: 'volume',
  shortNames: ['fvol'],
  scope: 'Cluster',
  schema: { spec: VolumeSpec, status: Type.Optional(VolumeStatus) },
  statusSubresource: true,
  rules: [
    { path: 'spec.size', rule: 'isQuantity(self) && quantity(self).isGreaterThan(quantity("0"))', message: 'size must be more than 0' },
    // A quantity above 2^63 - 1 counts as that, so that this one is refused too.
    { path: 'spec.size', rule: 'quantity(self).isLessThan(quantity("8Ei"))', message: 'size must be below 8Ei - 1' },
    {
      path: '',
      fieldPath: '.spec.size',
      // What was asked for and could not be had may be taken back, as far as the real size.
      rule: '!quantity(oldSelf.spec.size).isGreaterThan(quantity(self.spec.size)) || (has(self.status) && has(self.status.capacity) && !quantity(self.status.capacity).isGreaterThan(quantity(self.spec.size)))',
      message: 'a volume cannot shrink below its real size (status.capacity)',
    },
    { path: 'spec', rule: '!oldSelf.?pool.hasValue() || self.?pool.orValue("") == oldSelf.pool', message: 'pool cannot change' },
    { path: 'spec', rule: 'self.volumeMode == oldSelf.volumeMode', message: 'volumeMode cannot change' },
    { path: 'spec', rule: 'self.filesystem == oldSelf.filesystem', message: 'filesystem cannot change' },
    { path: 'spec', rule: '!oldSelf.?epoch.hasValue() || self.?epoch.orValue(0) >= oldSelf.epoch', message: 'epoch cannot go back' },
    { path: 'spec', rule: 'has(self.source) == has(oldSelf.source)', message: 'source cannot change' },
    { path: 'spec', rule: 'has(self.formatOptions) == has(oldSelf.formatOptions)', message: 'formatOptions cannot change' },
    { path: 'spec.formatOptions', rule: 'self == oldSelf', message: 'formatOptions cannot change' },
    { path: 'spec.source', rule: 'self == oldSelf', message: 'source cannot change' },
    { path: 'spec.source', rule: 'has(self.snapshot) != has(self.volume)', message: 'source is either a snapshot or a volume' },
    onlyWithEpoch('node'),
    onlyWithEpoch('copy'),
  ],
  columns: [
    { name: 'Size', type: 'string', jsonPath: '.spec.size' },
    { name: 'Pool', type: 'string', jsonPath: '.spec.pool' },
    { name: 'Node', type: 'string', jsonPath: '.spec.node' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Obstacle', type: 'string', jsonPath: '.status.obstacle.reason' },
    { name: 'Epoch', type: 'integer', jsonPath: '.spec.epoch', priority: 1 },
    { name: 'Copy', type: 'string', jsonPath: '.spec.copy', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
};
