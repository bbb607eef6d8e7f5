// What the controller's next step of a Volume is: adopt, place, order its first copy, tell its state, let it go. Pure.
import type { Stored } from '../model/meta.ts';
import { parseSize } from '../model/quantity.ts';
import type { Snapshot } from '../model/snapshot.ts';
import type { StorageNode } from '../model/storage-node.ts';
import { filesystemOf, REFUSED_BY, VOLUME_FINALIZER, type CopyStatus, type Volume, type VolumeStatus } from '../model/volume.ts';
import { whyTooSmall } from './filesystem-size.ts';
import { copiesOf, copyIdFrom, isDeleting, isPublished, isReady, said, saysSame, servedCopy, type Why, whyRestored } from './observed.ts';
import type { KeptCopy } from './kept.ts';
import { isTakenFor, placeOfSource, sourceSnapshot } from './snapshots.ts';
import { holdsDirectories, place, usualPool, whyNot, type Need } from './placement.ts';

export interface VolumeSeen {
  volume: Stored<Volume>;
  /** With what was promised already taken off their room. */
  nodes: readonly Stored<StorageNode>[];
  /** Old copies that moves keep. */
  kept?: readonly KeptCopy[];
  /** Unfinished moves of it. */
  moves: number;
  /** The Snapshot that it begins with; null: there is none, or none yet. */
  source?: Stored<Snapshot> | null;
}

type Summary = Pick<VolumeStatus, 'phase' | 'capacity'> & { obstacle: Why | null };

export type VolumeStep =
  | { step: 'adopt' }
  /** A compare-and-swap of the spec; the copy is ordered afterwards. */
  | { step: 'place'; node: string; copy: string; pool: string; epoch: number; refusedBy?: readonly string[] }
  /** A compare-and-swap of the spec: no node, and nodes that are not to be asked again. */
  | { step: 'withdraw'; epoch: number; refusedBy: readonly string[] }
  /** A Snapshot of the volume that it is to be a clone of. */
  | { step: 'takeSource'; snapshot: string; volume: string }
  /** That Snapshot has served. */
  | { step: 'dropSource'; snapshot: string }
  | { step: 'order'; copy: string; entry: CopyStatus }
  | { step: 'tell'; summary: Summary }
  | { step: 'letGo' }
  | { step: 'none' };

export function nextVolumeStep(seen: VolumeSeen): VolumeStep {
  const { volume } = seen;
  const finalizers = volume.metadata.finalizers ?? [];
  const served = sourceServed(seen);
  if (served) return served;
  if (isDeleting(volume)) return leaving(seen, finalizers.includes(VOLUME_FINALIZER));
  if (!finalizers.includes(VOLUME_FINALIZER)) return { step: 'adopt' };
  const doubt = isMade(volume) ? null : whyRestored(volume);
  if (doubt) return tell(volume, { phase: 'Blocked', obstacle: doubt });
  if (volume.spec.copy === undefined) return placing(seen);
  return unordered(volume) ?? withdrawing(seen) ?? tell(volume, summaryOf(seen));
}

const isMade = (volume: Volume): boolean => servedCopy(volume)?.created === true;

function leaving(seen: VolumeSeen, held: boolean): VolumeStep {
  if (!held) return { step: 'none' };
  if (Object.keys(copiesOf(seen.volume)).length === 0 && seen.moves === 0) return { step: 'letGo' };
  return tell(seen.volume, { ...capacityOf(seen.volume), phase: 'Deleting', obstacle: worst(seen) });
}

/** Made, or not to be made any more: what was taken for it is not needed. */
function sourceServed({ volume, source }: VolumeSeen): VolumeStep | null {
  if (!source || !isTakenFor(source, volume)) return null;
  return isMade(volume) || isDeleting(volume) ? { step: 'dropSource', snapshot: source.metadata.name } : null;
}

function placing(seen: VolumeSeen): VolumeStep {
  const { volume, source = null } = seen;
  const name = sourceSnapshot(volume);
  const { source: { volume: origin } = {} } = volume.spec;
  if (name !== null && source === null && origin !== undefined) return { step: 'takeSource', snapshot: name, volume: origin };
  const at = name === null ? whereAsked(seen) : placeOfSource(volume, source);
  if ('reason' in at) return tell(volume, { phase: 'Pending', obstacle: at });
  return placingAt(seen, at);
}

function whereAsked({ volume, nodes }: VolumeSeen): { pool: string; node: string | undefined } | Why {
  const { node } = volume.spec;
  const pool = volume.spec.pool ?? usualPool(nodes);
  return typeof pool === 'string' ? { pool, node } : pool;
}

function placingAt(seen: VolumeSeen, { pool, node }: { pool: string; node: string | undefined }): VolumeStep {
  const { volume } = seen;
  const need = { ...needOf(volume, pool), kept: seen.kept ?? [] };
  const small = holdsDirectories(seen.nodes, pool) ? null : tooSmall(volume, need);
  if (small) return tell(volume, { phase: 'Pending', obstacle: small });
  return afterWithdrawal(volume) ?? chosen(seen, need, node);
}

const needOf = ({ spec }: Volume, pool: string): Need => ({ pool, size: parseSize(spec.size), filesystem: filesystemOf(spec) });

/** Placing a volume changes node and copy, and those change only together with the epoch. */
const nextEpoch = ({ spec }: Volume): number => (spec.epoch ?? 0) + 1;

function chosen(seen: VolumeSeen, need: Need, node: string | undefined): VolumeStep {
  const { volume } = seen;
  const refusedBy = refusalsOf(volume) ?? [];
  const found = node === undefined ? place(seen.nodes, need, refusedBy) : pinned(seen, node, need);
  if ('reason' in found) return tell(volume, { phase: 'Pending', obstacle: found });
  const copy = copyIdFrom(volume.metadata.uid);
  const step = { step: 'place', node: found.node, copy, pool: need.pool, epoch: nextEpoch(volume) } as const;
  return node === undefined ? { ...step, refusedBy } : step;
}

/** Nodes that refused a volume whose node the controller chose; null: it was named by who made the volume. */
function refusalsOf({ metadata }: Volume): string[] | null {
  const text = metadata.annotations?.[REFUSED_BY];
  return text === undefined ? null : text.split(',').filter((name) => name !== '');
}

/** The node chosen first says that there is no room, nothing was made, and another has room: it is taken back and waits for that node's word. */
function withdrawing(seen: VolumeSeen): VolumeStep | null {
  const { volume } = seen;
  const ordered = servedCopy(volume);
  const before = refusalsOf(volume);
  if (before === null || ordered?.role !== 'ordered' || ordered.created || ordered.obstacle?.reason !== 'NoSpace') return null;
  const refusedBy = [...before, ordered.node];
  if ('reason' in place(seen.nodes, needOf(volume, ordered.pool), refusedBy)) return null;
  return { step: 'withdraw', epoch: nextEpoch(volume), refusedBy };
}

/** Until the node that refused has seen that it is not asked any more. When it had made the copy after all, the volume stays there. */
function afterWithdrawal(volume: Stored<Volume>): VolumeStep | null {
  const entries = Object.entries(copiesOf(volume));
  const made = entries.find(([, entry]) => entry.created && entry.role === 'active');
  if (made) {
    const [copy, { node, pool }] = made;
    return { step: 'place', node, copy, pool, epoch: nextEpoch(volume) };
  }
  const [asked] = entries.map(([, entry]) => entry);
  if (!asked) return null;
  const message = `node ${asked.node} had no room; it is placed elsewhere once that node says that it made nothing`;
  return tell(volume, { phase: 'Pending', obstacle: { reason: 'Withdrawn', message } });
}

function tooSmall({ metadata }: Volume, { filesystem, size }: Need): Why | null {
  const why = whyTooSmall(filesystem, size);
  if (!why) return null;
  const { name } = metadata;
  return {
    ...why,
    message: `${why.message}; make it larger (flockctl volume grow ${name} SIZE), or delete it (flockctl volume delete ${name})`,
  };
}

/** The agent makes a copy only where an entry orders it. A volume that was served before is never ordered anew: its copy is lost, not absent. */
function unordered({ spec, status }: Volume): VolumeStep | null {
  if (!spec.copy || !spec.node || !spec.pool || status?.capacity !== undefined || status?.copies?.[spec.copy]) return null;
  return { step: 'order', copy: spec.copy, entry: { node: spec.node, pool: spec.pool, role: 'ordered' } };
}

function pinned(seen: VolumeSeen, name: string, need: Need): { node: string } | Why {
  return whyNot(name, seen.nodes.find((node) => node.metadata.name === name) ?? null, need) ?? { node: name };
}

function summaryOf(seen: VolumeSeen): Summary {
  const { volume } = seen;
  const copy = servedCopy(volume);
  const obstacle = worst(seen);
  if (copy?.role !== 'active') return { phase: copy?.created && obstacle ? 'Blocked' : 'Pending', obstacle };
  const phase = isPublished(volume, volume.spec.copy ?? '') ? 'Published' : 'Available';
  return { ...capacityOf(volume), phase: obstacle ? 'Blocked' : phase, obstacle };
}

function capacityOf(volume: Volume): { capacity?: string } {
  const capacity = servedCopy(volume)?.size ?? volume.status?.capacity;
  return capacity === undefined ? {} : { capacity };
}

/** What its own copy says, else that its node does not answer. */
function worst(seen: VolumeSeen): Why | null {
  const { volume } = seen;
  const copies = Object.values(copiesOf(volume));
  const obstacle = servedCopy(volume)?.obstacle ?? (isDeleting(volume) ? copies.find((copy) => copy.obstacle)?.obstacle : undefined);
  if (obstacle) return said(obstacle);
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
