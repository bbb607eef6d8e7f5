// Small questions about records that several decisions ask. Pure; a clock's reading is an argument.
import type { Condition, Obstacle, Stored } from '../model/meta.ts';
import type { Move, MovePhase } from '../model/move.ts';
import { shortUid } from '../model/names.ts';
import type { StorageNode } from '../model/storage-node.ts';
import { RESTORED, type CopyStatus, type Volume } from '../model/volume.ts';

/** A reason and a sentence; without the time, which the writer adds. */
export interface Why {
  reason: string;
  message: string;
}

/** The condition with the time since when it is so: only a change of its status makes that a new one. */
export const conditionSince = (
  before: readonly Condition[] | undefined,
  now: Omit<Condition, 'lastTransitionTime'>,
  at: string,
): Condition => {
  const same = before?.find(({ type, status }) => type === now.type && status === now.status);
  return { ...now, lastTransitionTime: same?.lastTransitionTime ?? at };
};

const ENDED: readonly MovePhase[] = ['Done', 'Cancelled', 'Failed'];
const COMMITTED: readonly MovePhase[] = ['Committed', 'Activating', 'Published', 'Retaining', 'Done'];
const COPYING: readonly MovePhase[] = ['Reserving', 'Syncing', 'Fencing', 'FinalDelta', 'Verifying'];
const FENCED: readonly MovePhase[] = ['Fencing', 'FinalDelta', 'Verifying', 'Committed', 'Activating'];

export const phaseOf = (move: Move): MovePhase => move.status?.phase ?? 'Pending';
export const hasEnded = (move: Move): boolean => ENDED.includes(phaseOf(move));
export const isCommitted = (move: Move): boolean => COMMITTED.includes(phaseOf(move));
/** The volume has one at most: from the order to the target's activation. A retained source does not count. */
export const isUnfinished = (move: Move): boolean => !hasEnded(move) && phaseOf(move) !== 'Retaining' && phaseOf(move) !== 'Published';
/**
 * What the caps count: it uses disks and wires now. One that waits for room uses neither, and must not keep others from theirs; one that is
 * ready uses them for a moment now and then, and may stay so for days.
 */
export const isCopying = (move: Move): boolean =>
  COPYING.includes(phaseOf(move)) && !(phaseOf(move) === 'Reserving' && move.status?.obstacle !== undefined);
/** At or past Fencing: nothing of the source may be activated. */
export const isFencing = (move: Move): boolean => FENCED.includes(phaseOf(move));

export const copiesOf = (volume: Volume): { [copy: string]: CopyStatus } => volume.status?.copies ?? {};
/** What is reported of the copy that may be served. */
export const servedCopy = (volume: Volume): CopyStatus | undefined => copiesOf(volume)[volume.spec.copy ?? ''];
/**
 * A node reports a copy whose own label is of a later epoch than the record: the record was rolled back, and what it names may not be the
 * newest. No swap may build on it.
 */
export const isRecordBehind = (volume: Volume): boolean =>
  Object.values(copiesOf(volume)).some((copy) => (copy.epoch ?? 0) > (volume.spec.epoch ?? 0));

/** How a person says which copy to go on with, where only a person can know. */
export const orderToName = (volume: Stored<Volume>, { node, copy, epoch }: { node: string; copy: string; epoch: number }): string =>
  `kubectl patch volume ${volume.metadata.name} --type merge -p '${JSON.stringify({ spec: { node, copy, epoch, move: null } })}'`;

/** Why nothing of a restored volume is made or swapped; null when nobody marked it. */
export function whyRestored(volume: Volume): Why | null {
  if (volume.metadata.annotations?.[RESTORED] === undefined) return null;
  const name = volume.metadata.name;
  return {
    reason: 'RecordsRestored',
    message: `the records were restored from a backup, and volume ${name} may have been made or moved since. With all agents running, look at its copies (flockctl volume show ${name}); if the record is right, go on by: kubectl annotate volume ${name} ${RESTORED}-`,
  };
}

/** Reason of a copy's obstacle: what was asked of it is done once the move that is under way is over. */
export const AFTER_MOVE = 'Moving';

export const isPublished = (volume: Volume, copy: string): boolean => (copiesOf(volume)[copy]?.published?.length ?? 0) > 0;
export const isDeleting = (object: { metadata: { deletionTimestamp?: string } }): boolean =>
  object.metadata.deletionTimestamp !== undefined;
export const asksToCancel = (move: Stored<Move>): boolean => move.spec.cancel === true || isDeleting(move);

export const isReady = (node: StorageNode | null): node is StorageNode =>
  node?.status?.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True') ?? false;

/** Ids of copies are made from the object that ordered them, so that a repeated order makes the same copy. */
export const copyIdFrom = (uid: string): string => shortUid(uid);

/** An obstacle that stands in a record, as a decision passes it on. */
export const said = (obstacle: Obstacle | undefined): Why | null =>
  obstacle ? { reason: obstacle.reason, message: obstacle.message } : null;

/** Two obstacles are one, whenever it began. */
export const saysSame = (one: Why | null | undefined, other: Why | null | undefined): boolean =>
  one?.reason === other?.reason && one?.message === other?.message;

/** Obstacles keep the time since when they stand, so that a repeated look writes nothing. */
export function withSince(why: Why | null, before: Obstacle | undefined, now: string): Obstacle | null {
  if (!why) return null;
  return { ...why, since: before?.reason === why.reason ? (before.since ?? now) : now };
}

/** Worth telling: another reason than before. */
export const isNew = (why: Why | null, before: Obstacle | undefined): why is Why => why !== null && why.reason !== before?.reason;
