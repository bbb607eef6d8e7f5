// Makers of records and of what is seen of them, with sensible defaults: db lies on node-1 at epoch 1 and is to go to node-2. Only
// *.test.ts import it.
import type { CopiesSeen, CopyOnDisk } from '../decide/copies.ts';
import { DEFAULT_CAPS, type MoveSeen } from '../decide/moves.ts';
import type { CopyLabel } from '../model/label.ts';
import { GROUP_VERSION, type ObjectMeta, type Stored } from '../model/meta.ts';
import { MOVE_FINALIZER, type Move, type MovePhase, type MoveSpec, type MoveStatus } from '../model/move.ts';
import type { PoolStatus, StorageNode, StorageNodeSpec, StorageNodeStatus } from '../model/storage-node.ts';
import { VOLUME_FINALIZER, type CopyStatus, type Volume, type VolumeSpec, type VolumeStatus } from '../model/volume.ts';
import { aLabel, VOLUME_UID } from './labels.ts';

export const MOVE_UID = 'aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee';
export const OTHER_UID = '99999999-8888-4777-8666-555555555555';
/** Copies of db: where it is, and where the move is to bring it. */
export const SOURCE_COPY = 'a1';
export const TARGET_COPY = 'b2';
export const GIBI = String(2 ** 30);
export const NOW = Date.UTC(2026, 0, 1, 12);
export const at = (ms: number): string => new Date(NOW + ms).toISOString();

type Meta = ObjectMeta & { uid: string; resourceVersion: string; creationTimestamp: string };

const meta = (name: string, uid: string, change: Partial<Meta> = {}): Meta => ({
  name,
  uid,
  resourceVersion: '1',
  creationTimestamp: at(-60_000),
  ...change,
});

export const dying = { deletionTimestamp: at(0) };

export const anEntry = (change: Partial<CopyStatus> = {}): CopyStatus => ({
  node: 'node-1',
  pool: 'local',
  role: 'active',
  epoch: 1,
  size: GIBI,
  allocated: '4096',
  formatted: true,
  created: true,
  published: [],
  ...change,
});

export interface VolumeChange {
  meta?: Partial<Meta>;
  spec?: Partial<VolumeSpec>;
  copies?: { [copy: string]: CopyStatus };
  status?: Partial<VolumeStatus>;
}

/** Placed on node-1 at epoch 1, its copy made and idle. */
export const aVolume = ({ meta: changed = {}, spec = {}, copies, status = {} }: VolumeChange = {}): Stored<Volume> => ({
  apiVersion: GROUP_VERSION,
  kind: 'Volume',
  metadata: meta('db', VOLUME_UID, { finalizers: [VOLUME_FINALIZER], ...changed }),
  spec: { size: '1Gi', pool: 'local', node: 'node-1', copy: SOURCE_COPY, epoch: 1, ...spec },
  status: { phase: 'Available', capacity: GIBI, copies: copies ?? { [SOURCE_COPY]: anEntry() }, ...status },
});

/** As its maker wrote it: nothing was decided yet. */
export const aNewVolume = ({ meta: changed = {}, spec = {} }: Pick<VolumeChange, 'meta' | 'spec'> = {}): Stored<Volume> => ({
  apiVersion: GROUP_VERSION,
  kind: 'Volume',
  metadata: meta('db', VOLUME_UID, changed),
  spec: { size: '1Gi', ...spec },
});

export interface MoveChange {
  meta?: Partial<Meta>;
  spec?: Partial<MoveSpec>;
  status?: MoveStatus;
}

/** In this phase: accepted from node-1 to node-2, unless it is Pending. */
export function aMove(phase: MovePhase, { meta: changed = {}, spec = {}, status = {} }: MoveChange = {}): Stored<Move> {
  const accepted: MoveStatus =
    phase === 'Pending'
      ? {}
      : {
          volumeUid: VOLUME_UID,
          epoch: 1,
          pool: 'local',
          source: { node: 'node-1', copy: SOURCE_COPY },
          target: { node: 'node-2', copy: TARGET_COPY },
          reused: false,
        };
  return {
    apiVersion: GROUP_VERSION,
    kind: 'Move',
    metadata: meta('db-move', MOVE_UID, { finalizers: phase === 'Pending' ? [] : [MOVE_FINALIZER], ...changed }),
    spec: { volume: 'db', target: 'node-2', ...spec },
    status: { phase, ...accepted, ...status },
  };
}

export interface NodeChange {
  ready?: boolean;
  spec?: StorageNodeSpec;
  pool?: Partial<PoolStatus>;
  status?: Partial<StorageNodeStatus>;
}

export const aNode = (name: string, { ready = true, spec = {}, pool = {}, status = {} }: NodeChange = {}): Stored<StorageNode> => ({
  apiVersion: GROUP_VERSION,
  kind: 'StorageNode',
  metadata: meta(name, `00000000-0000-4000-8000-${name.replaceAll(/[^0-9]/gu, '').padStart(12, '0')}`),
  spec,
  status: {
    filesystems: ['ext4', 'xfs'],
    canMount: true,
    transfer: { address: '10.1.0.1', port: 9807 },
    pools: { local: { type: 'image', free: String(10 * 2 ** 30), points: true, healthy: true, ...pool } },
    conditions: [{ type: 'Ready', status: ready ? 'True' : 'Unknown', reason: 'Test', message: '', lastTransitionTime: at(-60_000) }],
    ...status,
  },
});

/** What the controller sees: by default all is well and nothing else moves. */
export const moveSeen = (move: Stored<Move>, change: Partial<MoveSeen> = {}): MoveSeen => ({
  move,
  volume: aVolume(),
  source: aNode('node-1'),
  target: aNode('node-2'),
  earlier: null,
  copying: { from: 0, to: 0, all: 0 },
  kept: [],
  caps: DEFAULT_CAPS,
  now: NOW,
  restedMs: 0,
  ...change,
});

/** A copy of db as it lies on a disk. */
export const onDisk = (label: Partial<CopyLabel> = {}, change: Partial<Omit<CopyOnDisk, 'label'>> = {}): CopyOnDisk => {
  const whole = aLabel({ size: GIBI, formatted: true, ...label });
  return {
    id: whole.copy,
    pool: 'local',
    label: whole,
    size: BigInt(whole.size),
    published: [],
    held: false,
    points: [],
    proof: null,
    ...change,
  };
};

/** What the agent of a node sees of db. */
export const copiesSeen = (node: string, change: Partial<CopiesSeen> = {}): CopiesSeen => ({
  node,
  uid: VOLUME_UID,
  volume: aVolume(),
  moves: [],
  copies: [],
  pools: new Set(['local']),
  ...change,
});
