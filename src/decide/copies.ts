// What a node's agent does next about one volume, from what its disks and the records say. Rule 1 (at most one writable copy), rule 2
// (nothing destroyed before its successor stands) and rule 6 (never made again on a guess) are judged here. Pure.
import type { Stored } from '../model/meta.ts';
import type { Move, MovePhase } from '../model/move.ts';
import { isSnapshotPoint, readPoint } from '../model/points.ts';
import { parseSize } from '../model/quantity.ts';
import type { CopyStatus, Volume } from '../model/volume.ts';
import {
  AFTER_MOVE,
  asksToCancel,
  copiesOf,
  hasEnded,
  isCommitted,
  isDeleting,
  isFencing,
  isUnfinished,
  phaseOf,
  servedCopy,
  isRecordBehind,
  orderToName,
  whyRestored,
  type Why,
} from './observed.ts';
import type { CopiesSeen, CopyOnDisk, CopyStep, UnlabelledCopy } from './copies-seen.ts';
import { isTakenElsewhere, snapshotSteps, whyKept } from './copy-snapshots.ts';
import { placeOfSource } from './snapshots.ts';

export type { CopiesSeen, CopyOnDisk, CopyStep, UnlabelledCopy } from './copies-seen.ts';

/** Steps for every copy of the volume that this node has or should have, in the order to take them. */
export function nextCopySteps(seen: CopiesSeen): CopyStep[] {
  const { volume } = seen;
  if (!volume)
    return seen.copies.map(({ id }) =>
      blocked(id, 'Orphan', 'no Volume record speaks of this copy; it is kept. Remove it by hand when it is not needed'),
    );
  const unlabelled = seen.unlabelled ?? [];
  const onDisk = new Set([...seen.copies, ...unlabelled].map(({ id }) => id));
  const mine = Object.entries(copiesOf(volume)).filter(([, entry]) => entry.node === seen.node);
  const missing = mine
    .filter(([id, entry]) => !onDisk.has(id) && seen.pools.has(entry.pool))
    .map(([id, entry]) => absent(seen, volume, id, entry));
  const acts = seen.copies.map((copy) => present(seen, volume, copy));
  // Without a label, only the record says whether it is this node's.
  const nameless = mine.flatMap(([id, entry]) =>
    unlabelled.filter((copy) => copy.id === id).map((copy) => broken(seen, volume, copy, entry.role)),
  );
  // A removed copy took its points along; those of a damaged one may be all that is left of it.
  const kept = seen.copies.filter(({ damage }, index) => acts[index]?.step !== 'remove' && damage === undefined);
  const points = kept.flatMap((copy) =>
    copy.points
      .filter((point) => !isPointNeeded(seen, copy, point))
      .map((point) => ({ step: 'releasePoint', copy: copy.id, point }) as const),
  );
  return [...missing, ...acts, ...nameless, ...points, ...snapshotSteps(seen, volume)].filter((step) => step !== null);
}

/** A round's point serves an unfinished move, a commit's point the scrub. Points of other makers are not ours to judge. */
function isPointNeeded(seen: CopiesSeen, { id }: CopyOnDisk, point: string): boolean {
  if (isSnapshotPoint(point)) return !isTakenElsewhere(seen, id, point);
  const read = readPoint(point);
  if (!read) return true;
  const move = seen.moves.find(({ metadata }) => read.isOf(metadata.uid));
  if (!move) return false;
  return isUnfinished(move) || (read.round === null && !hasEnded(move) && !isScrubbed(move));
}

const blocked = (copy: string, reason: string, message: string): CopyStep => ({ step: 'blocked', copy, why: { reason, message } });

const isNamed = (seen: CopiesSeen, volume: Volume, copy: string): boolean => volume.spec.node === seen.node && volume.spec.copy === copy;

/** The unfinished move that has this copy as its target. */
const fillingMove = (seen: CopiesSeen, copy: string): Stored<Move> | undefined =>
  seen.moves.find(
    (move) =>
      isUnfinished(move) &&
      move.status?.target?.copy === copy &&
      move.status.target.node === seen.node &&
      move.status.volumeUid === seen.uid,
  );

/** The unfinished move that has this copy as its source. */
const leavingMove = (seen: CopiesSeen, copy: string): Stored<Move> | undefined =>
  seen.moves.find(
    (move) =>
      isUnfinished(move) &&
      move.status?.source?.copy === copy &&
      move.status.source.node === seen.node &&
      move.status.volumeUid === seen.uid,
  );

// ---- recorded, but not on the disk ---------------------------------------------------------------------------------------------

function absent(seen: CopiesSeen, volume: Stored<Volume>, id: string, entry: CopyStatus): CopyStep {
  if (isDeleting(volume)) return { step: 'dropEntry', copy: id };
  if (isNamed(seen, volume, id)) return entry.created ? lost(id) : first(seen, volume, { id, entry });
  const filling = fillingMove(seen, id);
  // A superseded copy was removed before the move that wants it for its target began: a new one is ordered.
  if (!filling || phaseOf(filling) === 'Cancelling' || entry.role === 'stale') return { step: 'dropEntry', copy: id };
  return entry.created || phaseOf(filling) !== 'Reserving' ? lost(id) : reservation(id, entry, volume, filling);
}

/** The volume's first copy. Where records were rolled back it may have been made before, and be elsewhere now. */
function first(seen: CopiesSeen, volume: Stored<Volume>, { id, entry }: { id: string; entry: CopyStatus }): CopyStep {
  const doubt = isRecordBehind(volume)
    ? {
        reason: 'RecordBehind',
        message: `another node has a copy of a later epoch than the record: records were rolled back. No empty copy is made; that copy's own entry says how to go on with it (flockctl volume show ${volume.metadata.name})`,
      }
    : whyRestored(volume);
  if (doubt) return { step: 'blocked', copy: id, why: doubt };
  const step = { ...create(id, entry, volume), size: parseSize(volume.spec.size), role: 'active' } as const;
  return volume.spec.source === undefined ? step : begun(seen, volume, step);
}

/** With the bytes of its source; it waits for that as long as it has to. */
function begun({ source = null }: CopiesSeen, volume: Stored<Volume>, step: Extract<CopyStep, { step: 'create' }>): CopyStep {
  const place = placeOfSource(volume, source);
  if ('reason' in place) return { step: 'blocked', copy: step.copy, why: place };
  return source ? { ...step, from: source } : step;
}

function reservation(id: string, entry: CopyStatus, volume: Stored<Volume>, move: Stored<Move>): CopyStep {
  return { ...create(id, entry, volume), size: sourceSize(volume), role: 'incoming', moveUid: move.metadata.uid };
}

const sourceSize = (volume: Volume): bigint => BigInt(servedCopy(volume)?.size ?? 0);

const create = (copy: string, { pool }: CopyStatus, volume: Volume): { step: 'create'; copy: string; pool: string; epoch: number } => ({
  step: 'create',
  copy,
  pool,
  epoch: volume.spec.epoch ?? 0,
});

const lost = (id: string): CopyStep =>
  blocked(
    id,
    'CopyMissing',
    'the record says that this copy was made here, but the pool does not have it; it is not made again. Bring its disk back, or delete the volume',
  );

// ---- on the disk ---------------------------------------------------------------------------------------------------------------

function present(seen: CopiesSeen, volume: Stored<Volume>, copy: CopyOnDisk): CopyStep | null {
  const epoch = volume.spec.epoch ?? 0;
  const other = copiesOf(volume)[copy.id]?.node;
  if (other !== undefined && other !== seen.node)
    return blocked(
      copy.id,
      'OtherNode',
      `the record has this copy on node ${other}, and it lies in a pool of node ${seen.node}: two nodes have one pool, or its disk was moved here. It is neither served nor changed here`,
    );
  if (copy.label.epoch > epoch) return recordBehind(seen, volume, copy);
  if (copy.damage !== undefined) return broken(seen, volume, { ...copy, damage: copy.damage }, copy.label.role);
  if (isDeleting(volume)) return deleting(seen, copy);
  return isNamed(seen, volume, copy.id) ? named(seen, volume, copy) : unnamed(seen, volume, copy);
}

function recordBehind({ node }: CopiesSeen, volume: Stored<Volume>, { id, label }: CopyOnDisk): CopyStep {
  const { name } = volume.metadata;
  const wayOut =
    label.role === 'active' || label.role === 'retired'
      ? `if this is the newest, go on with it by: ${orderToName(volume, { node, copy: id, epoch: label.epoch + 1 })}`
      : `this one is ${label.role}: go on with the newest that is active, as its own entry says`;
  return blocked(
    id,
    'RecordBehind',
    `the copy's own label says epoch ${label.epoch}, the record says ${volume.spec.epoch ?? 0}: records were rolled back, and nothing is activated. With all agents running, compare the copies (flockctl volume show ${name}); ${wayOut}`,
  );
}

/** Left as it is, whatever is asked, but for its end: its volume is deleted, or the move is taken back that was only filling it. */
function broken(seen: CopiesSeen, volume: Stored<Volume>, copy: UnlabelledCopy, role: CopyStatus['role']): CopyStep | null {
  if (isDeleting(volume)) return deleting(seen, copy) ?? damaged(copy);
  const move = fillingMove(seen, copy.id);
  const neverWas = (role === 'incoming' || role === 'ordered') && !isNamed(seen, volume, copy.id);
  return neverWas && move && phaseOf(move) === 'Cancelling' && !mayStillCommit(move, volume) ? discard(copy) : damaged(copy);
}

const damaged = ({ id, damage }: UnlabelledCopy): CopyStep => blocked(id, 'CopyDamaged', damage);

/** The target's copy goes first, then the source's; what is in use stays until it is not. */
function deleting(seen: CopiesSeen, copy: Pick<CopyOnDisk, 'id' | 'published'> & { points?: readonly string[] }): CopyStep | null {
  // One that was never accepted wrote nothing; and nobody here is told when it ends.
  const move = seen.moves.find((each) => isUnfinished(each) && phaseOf(each) !== 'Pending');
  if (move && move.status?.target?.copy !== copy.id) return null;
  if (move && phaseOf(move) !== 'Cancelling' && !isCommitted(move)) return null;
  if (copy.published.length > 0)
    return blocked(copy.id, 'InUse', `the volume is deleted once it is unmounted from ${copy.published.join(', ')}`);
  return removal(seen, copy);
}

function removal(seen: CopiesSeen, { id, points = [] }: { id: string; points?: readonly string[] }): CopyStep {
  const why = whyKept(seen, { points });
  return why ? { step: 'blocked', copy: id, why } : { step: 'remove', copy: id };
}

function named(seen: CopiesSeen, volume: Stored<Volume>, copy: CopyOnDisk): CopyStep | null {
  const epoch = volume.spec.epoch ?? 0;
  switch (copy.label.role) {
    case 'active':
      if (copy.label.epoch === epoch) return unformatted(volume, copy) ?? serving(seen, volume, copy);
      return isPutBack(seen, volume, copy) ? diskBehind(volume, copy) : { step: 'relabel', copy: copy.id, label: { epoch } };
    case 'retired':
      return retired(seen, volume, copy);
    case 'incoming':
      return arriving(volume, copy, epoch);
    case 'standby':
    case 'stale':
      return namedThoughOld(volume, copy);
  }
}

/**
 * Named, and superseded by its own label. No backup of the records can say so at a higher epoch and without a move: that is a person's word
 * that the newer copy is lost, and it is taken unless the newer one is still there.
 */
function namedThoughOld(volume: Stored<Volume>, { id, label }: CopyOnDisk): CopyStep {
  const { epoch = 0, move } = volume.spec;
  const newer = Object.entries(copiesOf(volume)).find(([other, { role }]) => other !== id && role === 'active');
  if (label.role === 'stale' && epoch > label.epoch && move === undefined && newer === undefined)
    return { step: 'relabel', copy: id, label: { role: 'active', epoch } };
  const wayOut = newer ? goOnWith(volume, newer) : goOnWithOld(volume, id);
  return blocked(
    id,
    'RecordNamesOld',
    `the record names this copy, but its label says ${label.role} at epoch ${label.epoch}: a newer one was made after it. It is not served. ${wayOut}`,
  );
}

function goOnWith(volume: Stored<Volume>, [copy, { node, epoch = 0 }]: [string, CopyStatus]): string {
  const order = orderToName(volume, { node, copy, epoch: Math.max(volume.spec.epoch ?? 0, epoch) + 1 });
  return `Copy ${copy} on node ${node} is active: go on with it by: ${order}`;
}

function goOnWithOld(volume: Stored<Volume>, copy: string): string {
  const { node = '', epoch = 0 } = volume.spec;
  return `No node that answers has that one. With all agents running, look for it (flockctl volume show ${volume.metadata.name}); if it is lost for good, go on with this older one, without what was written since, by: ${orderToName(volume, { node, copy, epoch: epoch + 1 })}`;
}

/** The record says that a move brought the volume here, and the label knows nothing of it, or of another: the disk is older than that commit. */
function isPutBack(seen: CopiesSeen, { spec }: Volume, { label }: CopyOnDisk): boolean {
  if (spec.move === undefined) return false;
  const move = seen.moves.find(({ metadata }) => metadata.name === spec.move);
  return label.arrivedBy === undefined || (move !== undefined && move.metadata.uid !== label.arrivedBy);
}

const diskBehind = (volume: Stored<Volume>, copy: CopyOnDisk): CopyStep =>
  blocked(
    copy.id,
    'DiskBehind',
    `the copy's own label says epoch ${copy.label.epoch} and does not know of the move that brought the volume here (epoch ${volume.spec.epoch ?? 0}): the disk was put back to an older state. It is not served: bring the newer disk back; if this copy is the one to go on with, say so by: ${orderToName(volume, { node: volume.spec.node ?? '', copy: copy.id, epoch: (volume.spec.epoch ?? 0) + 1 })}`,
  );

/** Why a copy is not served that its record knows as formatted and its own label does not: it would be formatted again. */
export function whyUnformatted(volume: Stored<Volume>, copy: CopyOnDisk): Why | null {
  if (copiesOf(volume)[copy.id]?.formatted !== true || copy.label.formatted) return null;
  const { name } = volume.metadata;
  return {
    reason: 'DiskBehind',
    message: `the record of volume ${name} says that its copy has a filesystem, the copy's own label that it never had one: the disk was put back to an older state. It is not served, and not formatted again: bring the newer disk back, or delete the volume (flockctl volume delete ${name})`,
  };
}

function unformatted(volume: Stored<Volume>, copy: CopyOnDisk): CopyStep | null {
  const why = whyUnformatted(volume, copy);
  return why && blocked(copy.id, why.reason, why.message);
}

/** Active as the record says: fence it, scrub it or grow it when asked. */
function serving(seen: CopiesSeen, volume: Stored<Volume>, copy: CopyOnDisk): CopyStep | null {
  const leaving = leavingMove(seen, copy.id);
  if (leaving && isToFence(leaving, copy)) return { step: 'fence', copy: copy.id, move: leaving.metadata.name, epoch: copy.label.epoch };
  const arrived = seen.moves.find(
    (move) => phaseOf(move) === 'Retaining' && move.status?.target?.copy === copy.id && volume.spec.move === move.metadata.name,
  );
  if (arrived && !isScrubbed(arrived)) return { step: 'scrub', copy: copy.id, move: arrived.metadata.name };
  const wanted = parseSize(volume.spec.size);
  if (leaving) return wanted > copy.size ? growsLater(copy, leaving, volume) : null;
  if (wanted <= copy.size && !copy.unfilled) return null;
  return { step: 'grow', copy: copy.id, size: wanted > copy.size ? wanted : copy.size };
}

/** The target was booked as large as the source is: both would have to grow, and a full target would take the move back. */
const growsLater = (copy: CopyOnDisk, { metadata, spec }: Stored<Move>, volume: Stored<Volume>): CopyStep =>
  blocked(
    copy.id,
    AFTER_MOVE,
    `volume ${spec.volume} grows to ${volume.spec.size} once move ${metadata.name} is over, on node ${spec.target}; to grow it here, cancel the move: flockctl move cancel ${metadata.name}`,
  );

const isScrubbed = (move: Move): boolean =>
  ['Passed', 'Repaired', 'Impossible', 'Failed'].includes(move.status?.incoming?.scrub?.state ?? '');

/** Ordered for this very epoch: once the source was given back, the old order is void. */
const isOrdered = (move: Stored<Move>, copy: CopyOnDisk): boolean =>
  isFencing(move) && !isCommitted(move) && move.status?.epoch === copy.label.epoch;

/** Who was quick enough to publish it again is seen by the controller, which takes the order back. */
const isToFence = (move: Stored<Move>, copy: CopyOnDisk): boolean =>
  isOrdered(move, copy) && !asksToCancel(move) && copy.published.length === 0;

function retired(seen: CopiesSeen, volume: Stored<Volume>, copy: CopyOnDisk): CopyStep | null {
  const epoch = volume.spec.epoch ?? 0;
  const move = seen.moves.find((candidate) => candidate.metadata.uid === copy.label.moveUid);
  // The abort's swap raised the epoch: a late commit fails, so the copy may be served again.
  if (copy.label.epoch < epoch) return isServedElsewhere(seen, copy, epoch) ?? giveBack(copy, epoch, move);
  if (!isUnderWay(move))
    return blocked(
      copy.id,
      'FencedWithoutMove',
      `the copy is fenced for a move that is not under way. If no other node has a newer copy of the volume, give this one back by: ${orderToName(volume, { node: seen.node, copy: copy.id, epoch: epoch + 1 })}`,
    );
  if (!isOrdered(move, copy) || isFenced(copy, move, epoch)) return null;
  return { step: 'fence', copy: copy.id, move: move.metadata.name, epoch };
}

/** One that is Pending fenced nothing that its record knows of: records were rolled back. */
const isUnderWay = (move: Stored<Move> | undefined): move is Stored<Move> =>
  move !== undefined && !hasEnded(move) && phaseOf(move) !== 'Pending';

/** Rolled-back records may give back what was moved long ago: not while another node says that it serves this epoch or a later one. */
function isServedElsewhere(seen: CopiesSeen, copy: CopyOnDisk, epoch: number): CopyStep | null {
  const others = Object.entries(seen.volume ? copiesOf(seen.volume) : {}).filter(([id]) => id !== copy.id);
  const newer = others.find(([, entry]) => entry.role === 'active' && (entry.epoch ?? 0) >= epoch);
  if (!newer) return null;
  return blocked(
    copy.id,
    'TwoActive',
    `copy ${newer[0]} on node ${newer[1].node} is active at epoch ${newer[1].epoch}; this one is not given back beside it`,
  );
}

const isFenced = (copy: CopyOnDisk, move: Move, epoch: number): boolean => copy.held && move.status?.outgoing?.fencedEpoch === epoch;

function giveBack(copy: CopyOnDisk, epoch: number, move: Stored<Move> | undefined): CopyStep {
  const step = { step: 'relabel', copy: copy.id, label: { role: 'active', epoch } } as const;
  return move ? { ...step, report: { move: move.metadata.name, outgoing: { unfencedEpoch: epoch } } } : step;
}

/** Named by the record, so committed. It is served only if its own journal says that it was verified for this very commit. */
function arriving(volume: Stored<Volume>, copy: CopyOnDisk, epoch: number): CopyStep {
  const { proof } = copy;
  if (proof?.verified && proof.moveUid === copy.label.moveUid && proof.verified.epoch === epoch - 1)
    return { step: 'activate', copy: copy.id, move: volume.spec.move ?? '', epoch };
  return blocked(
    copy.id,
    'NotVerified',
    `the record names this copy, but its journal does not say that it was verified for this commit; it is not served. The copy that it was made from is whole: find it (flockctl volume show ${volume.metadata.name}) and go on with it by: ${orderToName(volume, { node: 'NODE', copy: 'COPY', epoch: epoch + 1 })}`,
  );
}

function unnamed(seen: CopiesSeen, volume: Stored<Volume>, copy: CopyOnDisk): CopyStep | null {
  switch (copy.label.role) {
    case 'incoming':
      return filling(seen, volume, copy);
    case 'active':
    case 'retired':
      return superseded(volume, copy);
    case 'stale':
      return stale(seen, volume, copy);
    case 'standby':
      return null;
  }
}

function superseded(volume: Stored<Volume>, copy: CopyOnDisk): CopyStep | null {
  // Taken back because this node had no room, and it was made just before: the controller hears of it and leaves the volume here.
  if (volume.spec.copy === undefined && copy.label.role === 'active') return null;
  if (copy.label.epoch === volume.spec.epoch)
    return blocked(
      copy.id,
      'TwoActive',
      `the record names copy ${volume.spec.copy} on node ${volume.spec.node} at the same epoch ${copy.label.epoch}; this one is not served`,
    );
  if (copy.published.length > 0)
    return blocked(
      copy.id,
      'Superseded',
      `the volume is served by node ${volume.spec.node} now; what is written here at ${copy.published.join(', ')} is lost. Unmount it`,
    );
  return { step: 'relabel', copy: copy.id, label: { role: 'stale' } };
}

function filling(seen: CopiesSeen, volume: Stored<Volume>, copy: CopyOnDisk): CopyStep | null {
  const move = fillingMove(seen, copy.id);
  if (!move) return discard(copy);
  if (phaseOf(move) === 'Cancelling') return mayStillCommit(move, volume) ? null : discard(copy);
  return outgrown(move, volume, copy) ?? filledBy(move, copy);
}

function filledBy(move: Stored<Move>, copy: CopyOnDisk): CopyStep | null {
  if (phaseOf(move) === 'Reserving')
    return move.status?.incoming?.reserved ? null : { step: 'reserved', copy: copy.id, move: move.metadata.name };
  return PULLED.includes(phaseOf(move)) && !isPulled(move) ? pull(move, copy) : null;
}

/** The source's agent had begun to grow it when the move was accepted. */
function outgrown(move: Move, volume: Volume, copy: CopyOnDisk): CopyStep | null {
  const size = sourceSize(volume);
  return size > copy.size && !isFencing(move) ? { step: 'grow', copy: copy.id, size } : null;
}

/** A controller that does not know of the cancel yet could commit, until the abort's swap: its target must be there then. */
const mayStillCommit = (move: Move, volume: Volume): boolean =>
  move.status?.fencingAt !== undefined && volume.spec.epoch === move.status.epoch;

const PULLED: readonly MovePhase[] = ['Syncing', 'ReadyToCutOver', 'FinalDelta', 'Verifying'];

const isFinal = (move: Move): boolean => phaseOf(move) === 'FinalDelta' || phaseOf(move) === 'Verifying';

function isPulled(move: Move): boolean {
  const { incoming, round = 0, epoch } = move.status ?? {};
  return incoming?.completeRound === round && (!isFinal(move) || incoming.verified?.epoch === epoch);
}

function pull(move: Stored<Move>, copy: CopyOnDisk): CopyStep {
  const { round = 0, reused = false } = move.status ?? {};
  return { step: 'pull', copy: copy.id, move: move.metadata.name, round, final: isFinal(move), fresh: !reused };
}

/** An incoming copy never was the volume: what it came from is. */
const discard = (copy: Pick<CopyOnDisk, 'id'>): CopyStep => ({ step: 'remove', copy: copy.id });

function stale(seen: CopiesSeen, volume: Stored<Volume>, copy: CopyOnDisk): CopyStep | null {
  const next = fillingMove(seen, copy.id);
  if (next && phaseOf(next) === 'Reserving')
    return { step: 'relabel', copy: copy.id, label: { role: 'incoming', epoch: volume.spec.epoch ?? 0, moveUid: next.metadata.uid } };
  if (next) return blocked(copy.id, 'NotIncoming', `move ${next.metadata.name} is to fill this copy, but its label says stale`);
  // The move that superseded it, not the one that once brought it.
  const keeper = seen.moves.find((move) => move.metadata.uid === copy.label.moveUid && move.status?.source?.copy === copy.id);
  if (!keeper?.status?.release) return null;
  return removal(seen, copy);
}
