// What a node's agent does about the Snapshots of one volume: take, let go, and keep the copies that hold them. What lies on the disk counts,
// not what the records say of it: a copy with a snapshot's point is not removed. Pure.
import type { Stored } from '../model/meta.ts';
import { isSnapshotPoint, snapshotPoint } from '../model/points.ts';
import type { Snapshot } from '../model/snapshot.ts';
import type { Volume } from '../model/volume.ts';
import type { CopiesSeen, CopyOnDisk, CopyStep } from './copies-seen.ts';
import { isDeleting, type Why } from './observed.ts';

const heldBy = (seen: CopiesSeen, point: string): Stored<Snapshot> | undefined =>
  (seen.snapshots ?? []).find(({ metadata }) => snapshotPoint(metadata.uid) === point);

/** The point is left over: its Snapshot was taken of another copy in the end. */
export function isTakenElsewhere(seen: CopiesSeen, copy: string, point: string): boolean {
  const { status } = heldBy(seen, point) ?? {};
  return status?.copy !== undefined && (status.copy !== copy || status.node !== seen.node);
}

/** Why a copy that is to go has to stay; null when nothing is held on it. */
export function whyKept(seen: CopiesSeen, { points }: Pick<CopyOnDisk, 'points'>): Why | null {
  const kept = points.filter((point) => isSnapshotPoint(point));
  if (kept.length === 0) return null;
  const unknown = kept.filter((point) => heldBy(seen, point) === undefined);
  const names = kept.map((point) => heldBy(seen, point)?.metadata.name ?? point).toSorted();
  // Whoever deletes the volume deletes what no record speaks of.
  if (unknown.length === kept.length && seen.volume && isDeleting(seen.volume)) return null;
  const message =
    unknown.length > 0
      ? `it holds points that no Snapshot record speaks of (${unknown.join(', ')}): it is kept; delete the volume, or remove them by hand`
      : `it holds ${names.length === 1 ? 'snapshot' : 'snapshots'} ${names.join(', ')}: it is removed once they are deleted (flockctl snapshot delete)`;
  return { reason: 'HasSnapshots', message };
}

/** Steps for the Snapshots whose copy is on this node, or was. */
export function snapshotSteps(seen: CopiesSeen, volume: Stored<Volume>): (CopyStep | null)[] {
  const mine = (seen.snapshots ?? []).filter(({ status }) => status?.node === seen.node && status.volumeUid === seen.uid);
  return mine.map((snapshot) => stepOf(seen, volume, snapshot));
}

function stepOf(seen: CopiesSeen, volume: Stored<Volume>, snapshot: Stored<Snapshot>): CopyStep | null {
  const { phase, copy: id = '', pool = '' } = snapshot.status ?? {};
  const copy = seen.copies.find((each) => each.id === id);
  if (phase === 'Deleting' && (copy !== undefined || seen.pools.has(pool))) return { step: 'dropSnapshot', copy: id, snapshot };
  if (phase !== 'Pending' || copy === undefined || !mayTake(seen, volume, copy)) return null;
  return { step: 'takeSnapshot', copy: id, snapshot };
}

/** Of what is served: the copy that the record names, active at its epoch. */
function mayTake(seen: CopiesSeen, { spec, ...volume }: Stored<Volume>, { id, label, damage }: CopyOnDisk): boolean {
  const isServed = spec.node === seen.node && spec.copy === id && label.role === 'active' && label.epoch === spec.epoch;
  return isServed && damage === undefined && !isDeleting(volume);
}
