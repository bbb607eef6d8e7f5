// What the controller's next step of a Volume is: adopt, place, order its first copy, tell its state, let it go. Pure.
import type { Stored } from '../model/meta.ts';
import { parseSize } from '../model/quantity.ts';
import type { StorageNode } from '../model/storage-node.ts';
import { VOLUME_FINALIZER, type CopyStatus, type Volume, type VolumeStatus } from '../model/volume.ts';
import { copiesOf, copyIdFrom, isDeleting, isPublished, isReady, saysSame, type Why, whyRestored } from './observed.ts';
import { onlyPool, place, whyNot } from './placement.ts';

export interface VolumeSeen {
  volume: Stored<Volume>;
  nodes: readonly Stored<StorageNode>[];
  /** Unfinished moves of it. */
  moves: number;
}

type Summary = Pick<VolumeStatus, 'phase' | 'capacity'> & { obstacle: Why | null };

export type VolumeStep =
  | { step: 'adopt' }
  /** A compare-and-swap of the spec; the copy is ordered afterwards. */
  | { step: 'place'; node: string; copy: string; pool: string; epoch: number }
  | { step: 'order'; copy: string; entry: CopyStatus }
  | { step: 'tell'; summary: Summary }
  | { step: 'letGo' }
  | { step: 'none' };

export function nextVolumeStep(seen: VolumeSeen): VolumeStep {
  const { volume } = seen;
  const finalizers = volume.metadata.finalizers ?? [];
  if (isDeleting(volume)) return leaving(seen, finalizers.includes(VOLUME_FINALIZER));
  if (!finalizers.includes(VOLUME_FINALIZER)) return { step: 'adopt' };
  const doubt = isMade(volume) ? null : whyRestored(volume);
  if (doubt) return tell(volume, { phase: 'Blocked', obstacle: doubt });
  if (volume.spec.copy === undefined) return placing(seen);
  return unordered(volume) ?? tell(volume, summaryOf(seen));
}

const isMade = (volume: Volume): boolean => copiesOf(volume)[volume.spec.copy ?? '']?.created === true;

function leaving(seen: VolumeSeen, held: boolean): VolumeStep {
  if (!held) return { step: 'none' };
  if (Object.keys(copiesOf(seen.volume)).length === 0 && seen.moves === 0) return { step: 'letGo' };
  return tell(seen.volume, { ...capacityOf(seen.volume), phase: 'Deleting', obstacle: worst(seen) });
}

function placing(seen: VolumeSeen): VolumeStep {
  const { volume } = seen;
  const pool = volume.spec.pool ?? onlyPool(seen.nodes);
  if (typeof pool !== 'string') return tell(volume, { phase: 'Pending', obstacle: pool });
  const copy = copyIdFrom(volume.metadata.uid);
  const filesystem = volume.spec.volumeMode === 'Block' ? null : (volume.spec.filesystem ?? 'ext4');
  const need = { pool, size: parseSize(volume.spec.size), filesystem };
  const chosen = volume.spec.node === undefined ? place(seen.nodes, need) : pinned(seen, volume.spec.node, need);
  if ('reason' in chosen) return tell(volume, { phase: 'Pending', obstacle: chosen });
  return { step: 'place', node: chosen.node, copy, pool, epoch: Math.max(1, volume.spec.epoch ?? 0) };
}

/** The agent makes a copy only where an entry orders it. A volume that was served before is never ordered anew: its copy is lost, not absent. */
function unordered({ spec, status }: Volume): VolumeStep | null {
  if (!spec.copy || !spec.node || !spec.pool || status?.capacity !== undefined || status?.copies?.[spec.copy]) return null;
  return { step: 'order', copy: spec.copy, entry: { node: spec.node, pool: spec.pool, role: 'ordered' } };
}

function pinned(seen: VolumeSeen, name: string, need: Parameters<typeof whyNot>[2]): { node: string } | Why {
  return whyNot(name, seen.nodes.find((node) => node.metadata.name === name) ?? null, need) ?? { node: name };
}

function summaryOf(seen: VolumeSeen): Summary {
  const { volume } = seen;
  const copy = copiesOf(volume)[volume.spec.copy ?? ''];
  const obstacle = worst(seen);
  if (copy?.role !== 'active') return { phase: copy?.created && obstacle ? 'Blocked' : 'Pending', obstacle };
  const phase = isPublished(volume, volume.spec.copy ?? '') ? 'Published' : 'Available';
  return { ...capacityOf(volume), phase: obstacle ? 'Blocked' : phase, obstacle };
}

function capacityOf(volume: Volume): { capacity?: string } {
  const capacity = copiesOf(volume)[volume.spec.copy ?? '']?.size ?? volume.status?.capacity;
  return capacity === undefined ? {} : { capacity };
}

/** What its own copy says, else that its node does not answer. */
function worst(seen: VolumeSeen): Why | null {
  const { volume } = seen;
  const copies = Object.values(copiesOf(volume));
  const said =
    copiesOf(volume)[volume.spec.copy ?? '']?.obstacle ?? (isDeleting(volume) ? copies.find((copy) => copy.obstacle)?.obstacle : undefined);
  if (said) return { reason: said.reason, message: said.message };
  const concerned = isDeleting(volume) ? copies : copies.filter(({ node }) => node === volume.spec.node);
  const silent = concerned.find((copy) => !isReady(seen.nodes.find((node) => node.metadata.name === copy.node) ?? null));
  return silent ? { reason: 'NodeNotReady', message: `the agent of node ${silent.node} does not answer` } : null;
}

/** Only when it says something else than the record already does: an unchanged volume costs no write. */
function tell(volume: Volume, summary: Summary): VolumeStep {
  const { phase, capacity, obstacle } = volume.status ?? {};
  const same = phase === summary.phase && capacity === (summary.capacity ?? capacity) && saysSame(obstacle, summary.obstacle);
  return same ? { step: 'none' } : { step: 'tell', summary };
}
