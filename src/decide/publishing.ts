// May this node serve a volume now? Asked before each mount, of what was read afresh. Pure; knows nothing of how a volume is mounted.
import type { Stored } from '../model/meta.ts';
import type { Move } from '../model/move.ts';
import type { Volume } from '../model/volume.ts';
import { whyUnformatted, type CopyOnDisk } from './copies.ts';
import { isCommitted, isDeleting, isFencing, type Why } from './observed.ts';

export interface PublishSeen {
  node: string;
  volume: Stored<Volume> | null;
  moves: readonly Stored<Move>[];
  /** The copy that the record names, as it lies on this node's disk. */
  copy: CopyOnDisk | null;
  /** The agent renewed its Lease within its duration. */
  leaseFresh: boolean;
}

/** Rule 1: why this node may not serve the volume now, or null when it may. */
export function whyNotPublish(seen: PublishSeen): Why | null {
  const { volume, node, copy } = seen;
  if (!volume) return { reason: 'VolumeNotFound', message: 'there is no such volume; flockctl volume list shows the volumes' };
  const name = volume.metadata.name;
  if (isDeleting(volume)) return { reason: 'VolumeDeleted', message: `volume ${name} is being deleted` };
  if (volume.spec.node === undefined)
    return { reason: 'NotPlaced', message: `volume ${name} has no node yet: ${volume.status?.obstacle?.message ?? 'wait a moment'}` };
  if (volume.spec.node !== node)
    return {
      reason: 'OtherNode',
      message: `volume ${name} is on node ${volume.spec.node}; mount it there, or move it: flockctl move ${name} --to ${node}`,
    };
  if (!seen.leaseFresh)
    return {
      reason: 'LeaseLost',
      message: `node ${node} has not reached the server within its Lease's duration; it starts nothing new until it does`,
    };
  return whyMoving(seen, volume) ?? whyNotCopy(volume, copy);
}

function whyMoving(seen: PublishSeen, volume: Stored<Volume>): Why | null {
  const move = seen.moves.find((each) => isFencing(each) && !isCommitted(each) && each.status?.volumeUid === volume.metadata.uid);
  if (!move) return null;
  return {
    reason: 'Moving',
    message: `volume ${volume.metadata.name} is being cut over to node ${move.spec.target} (move ${move.metadata.name}); mount it there in a moment`,
  };
}

function whyNotCopy(volume: Stored<Volume>, copy: CopyOnDisk | null): Why | null {
  const name = volume.metadata.name;
  if (!copy)
    return {
      reason: 'CopyMissing',
      message: `the pool has no copy ${volume.spec.copy} of volume ${name}${volume.status?.obstacle ? `: ${volume.status.obstacle.message}` : ' yet'}`,
    };
  if (copy.damage !== undefined) return { reason: 'CopyDamaged', message: copy.damage };
  const { role, epoch } = copy.label;
  if (epoch > (volume.spec.epoch ?? 0))
    return {
      reason: 'RecordBehind',
      message: `the copy's label says epoch ${epoch}, the record of ${name} ${volume.spec.epoch}: records were rolled back; flockctl volume show ${name} says how to go on`,
    };
  if (role !== 'active')
    return {
      reason: 'NotActive',
      message: `the copy of ${name} on this node is ${role}, not active; flockctl volume show ${name} says what it waits for`,
    };
  if (epoch !== volume.spec.epoch)
    return {
      reason: 'EpochBehind',
      message: `the copy of ${name} is at epoch ${epoch}, the record at ${volume.spec.epoch}; try again in a moment`,
    };
  return whyUnformatted(volume, copy);
}
