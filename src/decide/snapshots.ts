// What the controller's next step of a Snapshot is: adopt, name the copy, tell its state, let it go; and what a new volume that begins with a
// snapshot waits for. The agent's part is in decide/copies.ts. Pure.
import type { Stored } from '../model/meta.ts';
import { shortUid } from '../model/names.ts';
import { humanBytes, parseSize } from '../model/quantity.ts';
import { SNAPSHOT_FINALIZER, type Snapshot, type SnapshotStatus } from '../model/snapshot.ts';
import type { StorageNode } from '../model/storage-node.ts';
import { filesystemOf, type CopyStatus, type Filesystem, type Volume } from '../model/volume.ts';
import { copiesOf, isDeleting, isReady, said, saysSame, servedCopy, type Why } from './observed.ts';

export interface SnapshotSeen {
  snapshot: Stored<Snapshot>;
  /** The volume of that name; another uid than the snapshot's means that its volume is gone. */
  volume: Stored<Volume> | null;
  /** The node whose agent is to act, or the volume's. */
  node: StorageNode | null;
  /** Volumes that are being made of it, by name. */
  makes: readonly string[];
}

type Told = Pick<SnapshotStatus, 'phase' | 'node' | 'pool' | 'copy' | 'volumeUid'>;

export type SnapshotStep = { step: 'adopt' } | { step: 'tell'; status: Told; obstacle: Why | null } | { step: 'letGo' } | { step: 'none' };

const phaseOf = (snapshot: Snapshot): SnapshotStatus['phase'] => snapshot.status?.phase;

export function nextSnapshotStep(seen: SnapshotSeen): SnapshotStep {
  const { snapshot } = seen;
  const isHeld = (snapshot.metadata.finalizers ?? []).includes(SNAPSHOT_FINALIZER);
  if (isDeleting(snapshot)) return isHeld ? leaving(seen) : { step: 'none' };
  if (!isHeld) return { step: 'adopt' };
  return phaseOf(snapshot) === undefined || phaseOf(snapshot) === 'Pending' ? naming(seen) : standing(seen);
}

/** Its volume as long as that is the one it was taken of. */
function ownVolume({ snapshot, volume }: SnapshotSeen): Stored<Volume> | null {
  const uid = snapshot.status?.volumeUid;
  return uid === undefined || volume?.metadata.uid === uid ? volume : null;
}

/** The record still speaks of the copy. One that is not recorded any more is proven gone, with its points. */
function hasCopy(seen: SnapshotSeen): boolean {
  const volume = ownVolume(seen);
  return volume !== null && copiesOf(volume)[seen.snapshot.status?.copy ?? ''] !== undefined;
}

function leaving(seen: SnapshotSeen): SnapshotStep {
  const { snapshot, makes } = seen;
  if (makes.length > 0) return tell(seen, {}, { reason: 'InUse', message: `it is deleted once volume ${makes.join(', ')} is made of it` });
  if (snapshot.status?.copy === undefined || phaseOf(snapshot) === 'Released' || !hasCopy(seen)) return { step: 'letGo' };
  return tell(seen, { phase: 'Deleting' }, silence(seen));
}

function naming(seen: SnapshotSeen): SnapshotStep {
  const { snapshot, volume } = seen;
  const why = whyNotNow(seen);
  if (why) return tell(seen, {}, why);
  const { spec, metadata } = volume as Stored<Volume>;
  const named = { phase: 'Pending', node: spec.node ?? '', pool: spec.pool ?? '', copy: spec.copy ?? '', volumeUid: metadata.uid } as const;
  return tell(seen, named, silence(seen) ?? said(snapshot.status?.copy === spec.copy ? servedCopy(volume as Volume)?.obstacle : undefined));
}

/** A snapshot is of bytes: there has to be a copy that is served, in a pool that can keep points. */
function whyNotNow({ snapshot, volume, node }: SnapshotSeen): Why | null {
  const name = snapshot.spec.volume;
  if (!volume) return { reason: 'VolumeNotFound', message: `there is no volume "${name}"; flockctl volume list shows the volumes` };
  if (isDeleting(volume)) return { reason: 'VolumeDeleted', message: `volume ${name} is being deleted` };
  const copy = servedCopy(volume);
  if (copy?.created) return whyNoPoints(name, copy, node);
  return { reason: 'NotPlaced', message: `volume ${name} has no copy yet: ${volume.status?.obstacle?.message ?? 'wait a moment'}` };
}

function whyNoPoints(volume: string, { pool, node: name }: CopyStatus, node: StorageNode | null): Why | null {
  if (node?.status?.pools?.[pool]?.points !== false) return null;
  return {
    reason: UNSUPPORTED,
    message: `pool ${pool} of node ${name} cannot keep points in time: volume ${volume} has no snapshots and no clones; volumes of other pools have (image on xfs or btrfs, lvm, lvm-thin)`,
  };
}

/** Waiting does not help. */
const UNSUPPORTED = 'Unsupported';

/** Why no snapshot can ever be taken of the volume where it is, and so no clone; null when one can, or when it is not known. */
export function whyNoSnapshots(volume: Stored<Volume>, node: StorageNode | null): Why | null {
  const copy = servedCopy(volume);
  return copy === undefined ? null : whyNoPoints(volume.metadata.name, copy, node);
}

function standing(seen: SnapshotSeen): SnapshotStep {
  if (phaseOf(seen.snapshot) === 'Failed' || hasCopy(seen)) return { step: 'none' };
  const { copy, node } = seen.snapshot.status ?? {};
  return tell(seen, { phase: 'Failed' }, { reason: 'CopyGone', message: `copy ${copy} on node ${node} is gone, and the snapshot with it` });
}

function silence({ snapshot, volume, node }: SnapshotSeen): Why | null {
  const name = snapshot.status?.node ?? volume?.spec.node;
  return isReady(node) ? null : { reason: 'NodeNotReady', message: `the agent of node ${name} does not answer` };
}

/** Only what the record does not say already. */
function tell({ snapshot }: SnapshotSeen, status: Told, obstacle: Why | null): SnapshotStep {
  const before: { [field: string]: unknown } = { ...snapshot.status };
  const isSame = Object.entries(status).every(([field, value]) => before[field] === value) && saysSame(snapshot.status?.obstacle, obstacle);
  return isSame ? { step: 'none' } : { step: 'tell', status, obstacle };
}

// ---- a volume that begins with one ---------------------------------------------------------------------------------------------

/** The Snapshot that a volume begins with: the one it names, or the one that is taken for it of the volume that it names. */
export function sourceSnapshot({ metadata, spec }: Stored<Volume>): string | null {
  if (spec.source === undefined) return null;
  return spec.source.snapshot ?? takenFor(metadata.uid);
}

/** Name of the Snapshot that is taken for a clone, and deleted when that is made. */
const takenFor = (volumeUid: string): string => `clone-${shortUid(volumeUid)}`;

/** Label of such a Snapshot: the uid of the volume that it is taken for. */
export const TAKEN_FOR = 'flock.dev/taken-for';

export const isTakenFor = (snapshot: Stored<Snapshot>, volume: Stored<Volume>): boolean =>
  snapshot.metadata.labels?.[TAKEN_FOR] === volume.metadata.uid && !isDeleting(snapshot);

/** Where the volume has to be made, or what it waits for. */
export function placeOfSource(volume: Stored<Volume>, snapshot: Stored<Snapshot> | null): { node: string; pool: string } | Why {
  if (!snapshot)
    return {
      reason: 'SnapshotNotFound',
      message: `there is no snapshot "${sourceSnapshot(volume)}"; flockctl snapshot list shows the snapshots`,
    };
  const { status = {} } = snapshot;
  // One that is to be deleted waits for who is being made of it.
  if (status.phase !== 'Ready') return whyNotReady(snapshot);
  const { node = '', pool = '' } = status;
  return whyUnlike(volume, snapshot) ?? { node, pool };
}

function whyNotReady({ metadata, status = {} }: Stored<Snapshot>): Why {
  const { reason, message = 'wait a moment' } = status.obstacle ?? {};
  if (reason === UNSUPPORTED) return { reason, message };
  return { reason: 'SnapshotNotReady', message: `snapshot ${metadata.name} is not ready: ${message}` };
}

/** A clone is as large as its source or larger, of the same kind, and in the same pool of the same node. */
function whyUnlike(volume: Stored<Volume>, snapshot: Stored<Snapshot>): Why | null {
  const size = BigInt(snapshot.status?.size ?? 0);
  if (parseSize(volume.spec.size) >= size) return whyOther(volume, snapshot) ?? whyElsewhere(volume, snapshot);
  return {
    reason: 'TooSmall',
    message: `snapshot ${snapshot.metadata.name} has ${humanBytes(size)}: volume ${volume.metadata.name} needs at least that`,
  };
}

function whyOther({ spec, metadata }: Stored<Volume>, { status = {}, metadata: { name } }: Stored<Snapshot>): Why | null {
  const [asked, held] = [filesystemOf(spec), filesystemOf(status)];
  if (asked === held) return null;
  const message = `snapshot ${name} holds ${contentOf(held)}, volume ${metadata.name} asks for ${contentOf(asked)}: delete it and make it alike`;
  return { reason: 'SourceDiffers', message };
}

const contentOf = (filesystem: Filesystem | null): string => filesystem ?? 'a raw block volume';

function whyElsewhere({ spec }: Stored<Volume>, { status = {}, metadata: { name } }: Stored<Snapshot>): Why | null {
  if (spec.pool !== undefined && spec.pool !== status.pool) return elsewhere(name, `in pool ${status.pool}`, `pool ${spec.pool}`);
  return spec.node === undefined || spec.node === status.node ? null : elsewhere(name, `on node ${status.node}`, `node ${spec.node}`);
}

const elsewhere = (snapshot: string, there: string, asked: string): Why => ({
  reason: 'SourceElsewhere',
  message: `snapshot ${snapshot} is ${there}, and a clone shares its bytes: make it there, then move it (${asked} was asked)`,
});
