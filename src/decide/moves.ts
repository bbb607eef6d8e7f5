// What the controller's next step of a Move is, from one observation. Total: every phase has its function; docs/moves.md tells the same as
// a table. Pure: no I/O, no clock of its own.
import type { Stored } from '../model/meta.ts';
import type { Move, MovePhase, MoveStatus } from '../model/move.ts';
import { durationMs } from '../model/names.ts';
import { counted, humanBytes, parseQuantity } from '../model/quantity.ts';
import type { StorageNode } from '../model/storage-node.ts';
import type { CopyStatus, Volume } from '../model/volume.ts';
import { DEFAULTS } from './defaults.ts';
import { retainMs, type KeptCopy } from './kept.ts';
import {
  AFTER_MOVE,
  asksToCancel,
  copiesOf,
  copyIdFrom,
  isDeleting,
  isFencing,
  isPublished,
  isReady,
  isRecordBehind,
  whyRestored,
  phaseOf,
  said,
  servedCopy,
  type Why,
} from './observed.ts';
import { needToMove, reusableCopy, whyNot } from './placement.ts';

export interface MoveSeen {
  move: Stored<Move>;
  /** The volume of that name; another uid than the move's means that the move's volume is gone. */
  volume: Stored<Volume> | null;
  source: StorageNode | null;
  target: StorageNode | null;
  /** Another unfinished Move of this volume that came first. */
  earlier: string | null;
  /** Moves that copy now, from the source, to the target, in all; without this one. */
  copying: { from: number; to: number; all: number };
  /** Old copies that moves keep. */
  kept: readonly KeptCopy[];
  caps: Caps;
  now: number;
  /** For how long this controller has seen the last complete round as it is, by its own clock: nodes' clocks differ. */
  restedMs: number;
}

export interface Caps {
  perNode: number;
  all: number;
  maxRounds: number;
  maxAttempts: number;
  /** Pause between idle rounds, and how long a source may stay fenced without a proof, ms. */
  idleRoundMs: number;
  fencedMs: number;
}

export const DEFAULT_CAPS: Caps = { perNode: 1, all: 16, maxRounds: 8, maxAttempts: 3, idleRoundMs: 10_000, fencedMs: 600_000 };

export type MoveStep =
  | { step: 'wait'; why: Why | null; againMs?: number }
  | { step: 'accept'; status: Required<Pick<MoveStatus, 'volumeUid' | 'epoch' | 'pool' | 'source' | 'target' | 'reused'>> }
  /** The target's entry in the volume's record, which its agent makes the copy by. */
  | { step: 'order'; copy: string; entry: CopyStatus }
  /** `why`: it only keeps the rest small, and the move waits for this as before. */
  | { step: 'round'; phase: 'Syncing' | 'ReadyToCutOver'; round: number; why?: Why }
  | { step: 'phase'; phase: Exclude<MovePhase, 'Fencing' | 'Done' | 'Cancelled' | 'Failed'>; why?: Why }
  | { step: 'fence' }
  | { step: 'finalDelta'; round: number }
  | { step: 'commit' }
  | { step: 'published'; pauseMs: number }
  | { step: 'release' }
  | { step: 'cancel'; ending: NonNullable<MoveStatus['ending']> }
  /** Swap the volume's epoch at the same copy, so that a late commit fails and the source may be used again. */
  | { step: 'unfence' }
  /** The source was given back at this epoch; go on from there. */
  | { step: 'resume'; epoch: number; round: number }
  | { step: 'end'; phase: 'Done' | 'Cancelled' | 'Failed'; why: Why | null }
  | { step: 'forget' };

export function nextMoveStep(seen: MoveSeen): MoveStep {
  return STEPS[phaseOf(seen.move)](seen);
}

const wait = (why: Why | null = null, againMs?: number): MoveStep => ({ step: 'wait', why, ...(againMs === undefined ? {} : { againMs }) });
const statusOf = (seen: MoveSeen): MoveStatus => seen.move.status ?? {};
const incomingOf = (seen: MoveSeen): NonNullable<MoveStatus['incoming']> => statusOf(seen).incoming ?? {};
const ownVolume = (seen: MoveSeen): Stored<Volume> | null =>
  seen.volume && (statusOf(seen).volumeUid === undefined || seen.volume.metadata.uid === statusOf(seen).volumeUid) ? seen.volume : null;

const STEPS: { [P in MovePhase]: (seen: MoveSeen) => MoveStep } = {
  Pending: pending,
  Reserving: (seen) => beforeCommit(seen) ?? reserving(seen),
  Syncing: (seen) => beforeCommit(seen) ?? syncing(seen),
  ReadyToCutOver: (seen) => beforeCommit(seen) ?? readyToCutOver(seen),
  Fencing: (seen) => beforeCommit(seen) ?? fencing(seen),
  FinalDelta: (seen) => beforeCommit(seen) ?? finalDelta(seen),
  Verifying: (seen) => beforeCommit(seen) ?? verifying(seen),
  Committed: () => ({ step: 'phase', phase: 'Activating' }),
  Activating: activating,
  Published: () => ({ step: 'phase', phase: 'Retaining' }),
  Retaining: retaining,
  Cancelling: cancelling,
  Done: ended,
  Cancelled: ended,
  Failed: ended,
};

function ended(seen: MoveSeen): MoveStep {
  // Why it ended stays to be read.
  return isDeleting(seen.move) ? { step: 'forget' } : wait(said(statusOf(seen).obstacle));
}

// ---- before anything is written ------------------------------------------------------------------------------------------------

function pending(seen: MoveSeen): MoveStep {
  const { move, volume } = seen;
  if (asksToCancel(move)) return { step: 'end', phase: 'Cancelled', why: { reason: 'CancelAsked', message: 'cancelled before it began' } };
  if (!volume)
    return wait({ reason: 'VolumeNotFound', message: `there is no volume "${move.spec.volume}"; flockctl volume list shows the volumes` });
  if (isDeleting(volume))
    return { step: 'end', phase: 'Cancelled', why: { reason: 'VolumeDeleted', message: `volume ${move.spec.volume} is being deleted` } };
  const at = placeOf(volume);
  if (!at) return wait({ reason: 'VolumeNotReady', message: `volume ${move.spec.volume} has no usable copy yet` });
  if (at.node === move.spec.target) {
    const why = { reason: 'TargetIsSource', message: `volume ${move.spec.volume} is on node ${at.node} already` };
    return { step: 'end', phase: 'Failed', why };
  }
  return pendingOn(seen, volume) ?? { step: 'accept', status: accepted(seen, volume, at) };
}

/** Where the volume is served from; null while it is not. */
function placeOf(volume: Volume): { node: string; copy: string; epoch: number; pool: string } | null {
  const { node, copy, epoch, pool } = volume.spec;
  if (!node || !copy || epoch === undefined || !pool) return null;
  return servedCopy(volume)?.role === 'active' ? { node, copy, epoch, pool } : null;
}

function pendingOn(seen: MoveSeen, volume: Stored<Volume>): MoveStep | null {
  const { move, copying, caps } = seen;
  const behind = whyBehind(seen, volume);
  if (behind) return wait(behind);
  if (seen.earlier) return wait({ reason: 'Queued', message: `move ${seen.earlier} of the same volume comes first` });
  const from = volume.spec.node ?? '';
  const refusal =
    whyNotReachable('Source', from, seen.source) ?? whyNot(move.spec.target, seen.target, needToMove(volume, move.spec.target, seen.kept));
  if (refusal) return wait(refusal);
  if (copying.from >= caps.perNode)
    return wait({
      reason: 'Queued',
      message: `node ${from} is sending ${counted(copying.from, 'other volume')}; at most ${caps.perNode} at once`,
    });
  if (copying.to >= caps.perNode)
    return wait({
      reason: 'Queued',
      message: `node ${move.spec.target} is receiving ${counted(copying.to, 'other volume')}; at most ${caps.perNode} at once`,
    });
  if (copying.all >= caps.all)
    return wait({ reason: 'Queued', message: `${counted(copying.all, 'move is', 'moves are')} copying; at most ${caps.all} at once` });
  return null;
}

function accepted(
  seen: MoveSeen,
  volume: Stored<Volume>,
  at: { node: string; copy: string; epoch: number; pool: string },
): Extract<MoveStep, { step: 'accept' }>['status'] {
  const reused = reusableCopy(volume, seen.move.spec.target);
  return {
    volumeUid: volume.metadata.uid,
    epoch: at.epoch,
    pool: at.pool,
    source: { node: at.node, copy: at.copy },
    target: { node: seen.move.spec.target, copy: reused ?? copyIdFrom(seen.move.metadata.uid) },
    reused: reused !== null,
  };
}

// ---- between the first write and the commit ------------------------------------------------------------------------------------

/** What ends or turns any phase before the commit. */
function beforeCommit(seen: MoveSeen): MoveStep | null {
  const volume = ownVolume(seen);
  if (!volume || isDeleting(volume))
    return cancel('Cancelled', 'VolumeDeleted', `volume ${seen.move.spec.volume} was deleted during the move`);
  const behind = whyBehind(seen, volume);
  if (behind) return wait(behind);
  if (asksToCancel(seen.move)) return cancel('Cancelled', 'CancelAsked', 'cancelled by request');
  if (volume.spec.epoch === statusOf(seen).epoch) return whyNotCarried(seen);
  // Somebody swapped the volume: this move did (its answer was lost), or a takeover or an earlier abort did.
  if (isOurs(seen, volume)) return { step: 'phase', phase: 'Committed' };
  if (wasGivenBack(seen, volume)) return resuming(seen, volume);
  return cancel(
    'Failed',
    'Superseded',
    `the volume's placement changed during the move: it is at epoch ${volume.spec.epoch}, the move began at ${statusOf(seen).epoch}`,
  );
}

/** A directory that holds what cannot be carried stays so, however often it is tried: its source is given back at once. */
function whyNotCarried(seen: MoveSeen): MoveStep | null {
  const { pool = '', outgoing, incoming } = statusOf(seen);
  if (![seen.source, seen.target].some((node) => node?.status?.pools?.[pool]?.type === 'directory')) return null;
  const why = [outgoing?.obstacle, incoming?.obstacle].find((obstacle) => obstacle?.reason === 'Unsupported');
  return why ? cancel('Failed', why.reason, why.message) : null;
}

/** The records are older than the disks: neither a commit nor an abort of this move may be what the disks went on from. */
const rolledBack = (seen: MoveSeen): Why => ({
  reason: 'RecordBehind',
  message: `a copy of volume ${seen.move.spec.volume} has a later epoch on its disk than the record: records were rolled back. The move stands still until a person names the copy to go on with: flockctl volume show ${seen.move.spec.volume} says how`,
});

const whyBehind = (seen: MoveSeen, volume: Volume): Why | null => (isRecordBehind(volume) ? rolledBack(seen) : whyRestored(volume));

const isOurs = (seen: MoveSeen, volume: Volume): boolean =>
  volume.spec.move === seen.move.metadata.name &&
  volume.spec.copy === statusOf(seen).target?.copy &&
  volume.spec.epoch === (statusOf(seen).epoch ?? 0) + 1;

/** By `overdue`: the source was fenced for too long. */
const wasGivenBack = (seen: MoveSeen, volume: Volume): boolean =>
  isFencing(seen.move) && volume.spec.copy === statusOf(seen).source?.copy && volume.spec.epoch === (statusOf(seen).epoch ?? 0) + 1;

/** Only when the source may be used again: until then its agent still has the old fence to take down. */
function resuming(seen: MoveSeen, volume: Volume): MoveStep {
  const { epoch = 0 } = volume.spec;
  const copy = sourceEntry(seen);
  if (!copy || !isServing(copy, epoch)) return wait(unreachableSource(seen));
  // A number that no round had: what was begun for the final one was read from a fenced source.
  return { step: 'resume', epoch, round: Math.max(statusOf(seen).round ?? -1, incomingOf(seen).completeRound ?? -1) + 1 };
}

const cancel = (phase: 'Cancelled' | 'Failed', reason: string, message: string): MoveStep => ({
  step: 'cancel',
  ending: { phase, reason, message },
});

function reserving(seen: MoveSeen): MoveStep {
  const { target, pool = '' } = statusOf(seen);
  if (target && !copiesOf(seen.volume as Volume)[target.copy])
    return { step: 'order', copy: target.copy, entry: { node: target.node, pool, role: 'ordered' } };
  if (!incomingOf(seen).reserved) return wait(obstacleOf(seen));
  const unheard = sourceUnheard(seen);
  if (unheard) return unheard;
  return coldWithoutPoints(seen) ? { step: 'fence' } : { step: 'round', phase: 'Syncing', round: 0 };
}

/** A living agent opens its listener, and says where, within this time of learning of the move, ms. */
const HEARD_MS = 5_000;

/** The bytes have to come from somewhere: an agent that has just fallen silent is not known to be, but does not open its listener. */
function sourceUnheard(seen: MoveSeen): MoveStep | null {
  const silent = unreachableSource(seen);
  if (silent) return wait(silent);
  if (seen.source?.status?.transfer) return null;
  const left = Date.parse(statusOf(seen).startedAt ?? '') + HEARD_MS - seen.now;
  return left > 0 ? wait(null, left) : wait(unheardSource(seen));
}

function unheardSource({ move }: MoveSeen): Why {
  const node = move.status?.source?.node;
  const message = `node ${node} does not say where it serves volume data, so its agent may have ended: look at that agent's log, or cancel the move`;
  return { reason: 'SourceUnreachable', message };
}

/** A pool without points would have to read everything twice; with nobody using the volume, once is enough. */
function coldWithoutPoints(seen: MoveSeen): boolean {
  const { pool, source } = statusOf(seen);
  const points = seen.source?.status?.pools?.[pool ?? '']?.points ?? false;
  return !points && !isPublished(seen.volume as Volume, source?.copy ?? '');
}

function syncing(seen: MoveSeen): MoveStep {
  const round = statusOf(seen).round ?? 0;
  if (incomingOf(seen).completeRound !== round) return wait(obstacleOf(seen) ?? waitedFor(seen));
  if (!sourcePublished(seen)) return { step: 'fence' };
  if (fits(seen)) return { step: 'phase', phase: 'ReadyToCutOver' };
  return hasStalled(seen, round) ? stalled(seen, round) : { step: 'round', phase: 'Syncing', round: round + 1 };
}

const sourcePublished = (seen: MoveSeen): boolean => isPublished(seen.volume as Volume, statusOf(seen).source?.copy ?? '');

const sourceEntry = (seen: MoveSeen): CopyStatus | undefined =>
  seen.volume ? copiesOf(seen.volume)[statusOf(seen).source?.copy ?? ''] : undefined;
const targetEntry = (seen: MoveSeen): CopyStatus | undefined =>
  seen.volume ? copiesOf(seen.volume)[statusOf(seen).target?.copy ?? ''] : undefined;

const allowedPauseMs = (seen: MoveSeen): number =>
  durationMs(seen.move.spec.allowedPause ?? seen.volume?.spec.allowedPause ?? DEFAULTS.allowedPause);

/** How long the rest would take at the rate just seen, ms. A source that cannot tell what changed has to compare everything. */
export function restMs(incoming: NonNullable<MoveStatus['incoming']>): number {
  const rest = BigInt(incoming.dirty ?? incoming.allocated ?? 0);
  const rate = BigInt(Math.max(1, incoming.rate ?? 1));
  return Number((rest * 1000n) / rate);
}

const fits = (seen: MoveSeen): boolean => restMs(incomingOf(seen)) <= allowedPauseMs(seen);

/** Too many rounds, or the last one shrank by less than a fifth. */
function hasStalled(seen: MoveSeen, round: number): boolean {
  const sizes = (incomingOf(seen).rounds ?? []).map(BigInt);
  const [before, last] = [sizes.at(-2), sizes.at(-1)];
  if (incomingOf(seen).dirty === undefined) return true;
  return round + 1 >= seen.caps.maxRounds || (sizes.length >= 3 && before !== undefined && last !== undefined && last * 5n > before * 4n);
}

function stalled(seen: MoveSeen, round: number): MoveStep {
  const rest = humanBytes(BigInt(incomingOf(seen).dirty ?? incomingOf(seen).allocated ?? 0));
  const message = `the rest (${rest}) would stop the application for about ${Math.ceil(restMs(incomingOf(seen)) / 1000)} s, ${allowedPauseMs(seen) / 1000} s are allowed; allow more (spec.allowedPause, --pause), choose spec.stallPolicy CutOver, or stop the application`;
  const policy = seen.move.spec.stallPolicy ?? DEFAULTS.stallPolicy;
  if (policy === 'CutOver') return { step: 'phase', phase: 'ReadyToCutOver' };
  if (policy === 'Abort') return cancel('Failed', 'Stalled', message);
  // Nothing that cannot tell its changes gets better by another round.
  if (incomingOf(seen).dirty === undefined) return wait({ reason: 'PauseTooLong', message });
  return idleDue(seen)
    ? { step: 'round', phase: 'Syncing', round: round + 1, why: { reason: 'PauseTooLong', message } }
    : wait({ reason: 'PauseTooLong', message }, seen.caps.idleRoundMs);
}

/** What the move waits for is not over because an idle round runs: it is neither written nor told again after each. */
function waitedFor(seen: MoveSeen): Why | null {
  const { obstacle } = statusOf(seen);
  return obstacle !== undefined && IDLE.includes(obstacle.reason) && sourcePublished(seen) ? said(obstacle) : null;
}

const IDLE: readonly string[] = ['PauseTooLong', 'WaitingForUnpublish'];

function readyToCutOver(seen: MoveSeen): MoveStep {
  const round = statusOf(seen).round ?? 0;
  // A half-written round is finished first: the final delta starts from a whole one.
  if (incomingOf(seen).completeRound !== round) return wait(obstacleOf(seen) ?? waitedFor(seen));
  if (!sourcePublished(seen)) return { step: 'fence' };
  const why = waitingForUnpublish(seen);
  if (incomingOf(seen).dirty !== undefined && idleDue(seen)) return { step: 'round', phase: 'ReadyToCutOver', round: round + 1, why };
  return wait(why, seen.caps.idleRoundMs);
}

function waitingForUnpublish(seen: MoveSeen): Why {
  const copy = sourceEntry(seen);
  const where = (copy?.published ?? []).join(', ');
  const message = `ready: stop the application and unmount the volume at ${where} on node ${copy?.node} (flockctl volume unmount ${seen.move.spec.volume})`;
  return { reason: 'WaitingForUnpublish', message };
}

const idleDue = ({ restedMs, caps }: MoveSeen): boolean => restedMs >= caps.idleRoundMs;

function fencing(seen: MoveSeen): MoveStep {
  const { outgoing, epoch, round } = statusOf(seen);
  if (outgoing?.fencedEpoch === epoch) return { step: 'finalDelta', round: round === undefined ? 0 : round + 1 };
  // Somebody published it again before the fence stood.
  if (sourcePublished(seen))
    return round === undefined ? { step: 'round', phase: 'Syncing', round: 0 } : { step: 'phase', phase: 'ReadyToCutOver' };
  return overdue(seen) ?? wait(obstacleOf(seen), seen.caps.fencedMs);
}

function finalDelta(seen: MoveSeen): MoveStep {
  if (incomingOf(seen).completeRound === statusOf(seen).round) return { step: 'phase', phase: 'Verifying' };
  return overdue(seen) ?? wait(obstacleOf(seen), seen.caps.fencedMs);
}

function verifying(seen: MoveSeen): MoveStep {
  const { verified } = incomingOf(seen);
  if (verified && verified.round === statusOf(seen).round && verified.epoch === statusOf(seen).epoch) return { step: 'commit' };
  return overdue(seen) ?? wait(obstacleOf(seen), seen.caps.fencedMs);
}

/** The source does not stay fenced for ever: it is given back and the move tries again, a bounded number of times. */
function overdue(seen: MoveSeen): MoveStep | null {
  const { fencingAt, attempts = 0 } = statusOf(seen);
  if (fencingAt === undefined || seen.now - Date.parse(fencingAt) < seen.caps.fencedMs) return null;
  if (attempts + 1 < seen.caps.maxAttempts) return { step: 'unfence' };
  const why = obstacleOf(seen);
  return cancel(
    'Failed',
    'FencedTooLong',
    `the last delta was not proven within ${seen.caps.fencedMs / 1000} s, ${attempts + 1} times${why ? `: ${why.message}` : ''}`,
  );
}

// ---- what stands in the way ----------------------------------------------------------------------------------------------------

/** The most telling obstacle: what an agent says, else that one does not answer. */
function obstacleOf(seen: MoveSeen): Why | null {
  const { source, outgoing, incoming } = statusOf(seen);
  return (
    whyNotReachable('Source', source?.node ?? '', seen.source) ??
    whyNotReachable('Target', seen.move.spec.target, seen.target) ??
    said(outgoing?.obstacle) ??
    said(incoming?.obstacle) ??
    obstacleOfCopies(seen)
  );
}

const obstacleOfCopies = (seen: MoveSeen): Why | null => hindering(sourceEntry(seen)) ?? hindering(targetEntry(seen));

/** A copy that waits for the end of the move is not in its way. */
const hindering = (copy: CopyStatus | undefined): Why | null => (copy?.obstacle?.reason === AFTER_MOVE ? null : said(copy?.obstacle));

function whyNotReachable(side: 'Source' | 'Target', name: string, node: StorageNode | null): Why | null {
  if (isReady(node)) return null;
  return {
    reason: `${side}Unreachable`,
    message: `the agent of the ${side.toLowerCase()} node ${name} does not answer; the move goes on by itself when it is back, or cancel it`,
  };
}

// ---- after the commit: only forward --------------------------------------------------------------------------------------------

function activating(seen: MoveSeen): MoveStep {
  const volume = ownVolume(seen);
  if (!volume || isDeleting(volume)) return { step: 'phase', phase: 'Retaining' };
  const { epoch = 0, fencingAt } = statusOf(seen);
  const copy = targetEntry(seen);
  if (!copy || !isServing(copy, epoch + 1)) return wait(obstacleOf(seen) ?? said(copy?.obstacle));
  return { step: 'published', pauseMs: fencingAt === undefined ? 0 : Math.max(0, seen.now - Date.parse(fencingAt)) };
}

const isServing = (copy: CopyStatus, epoch: number): boolean => copy.role === 'active' && (copy.epoch ?? 0) >= epoch;

function retaining(seen: MoveSeen): MoveStep {
  const volume = ownVolume(seen);
  const kept = sourceEntry(seen);
  const { epoch = 0, release = false } = statusOf(seen);
  // Gone, or a later move filled it anew: then its label has a later epoch.
  if (!volume || !kept || (kept.epoch ?? 0) > epoch) return { step: 'end', phase: 'Done', why: null };
  if (isDeleting(volume) || release) return wait(whyKept(seen, kept));
  return keeping(seen, retainMs(seen.move, volume));
}

const whyKept = (seen: MoveSeen, kept: CopyStatus): Why | null => unreachableSource(seen) ?? said(kept.obstacle);

/** The superseded copy is let go when its time is over and the scrub found nothing. */
function keeping(seen: MoveSeen, keptMs: number): MoveStep {
  const scrub = incomingOf(seen).scrub;
  // A person looked at both and deletes the move: the target is accepted.
  if (scrub?.state === 'Failed')
    return isDeleting(seen.move)
      ? { step: 'release' }
      : wait({ reason: 'ScrubFailed', message: scrub.message ?? 'the moved volume could not be verified; the source is kept' });
  const left = Date.parse(statusOf(seen).committedAt ?? '') + keptMs - seen.now;
  if (left > 0) return wait(null, left);
  return isJudged(seen) ? { step: 'release' } : wait(obstacleOf(seen));
}

/** The scrub is over; or the copy that it would read went after a later move, whose own scrub passed before. */
const isJudged = (seen: MoveSeen): boolean => {
  const { scrub } = incomingOf(seen);
  return scrub === undefined ? targetEntry(seen) === undefined : scrub.state !== 'Running';
};

const unreachableSource = (seen: MoveSeen): Why | null => whyNotReachable('Source', statusOf(seen).source?.node ?? '', seen.source);

// ---- taken back ----------------------------------------------------------------------------------------------------------------

function cancelling(seen: MoveSeen): MoveStep {
  const volume = ownVolume(seen);
  // Whoever deletes a volume whose records went back has decided: nothing of it is swapped any more.
  const behind = volume && !isDeleting(volume) && whyBehind(seen, volume);
  if (behind) return wait(behind);
  if (volume && isOurs(seen, volume)) return { step: 'phase', phase: 'Committed' };
  const back = volume && !isDeleting(volume) ? sourceBack(seen, volume) : null;
  return back ?? targetGone(seen, volume);
}

/** The source may be used again only after a swap that makes every late commit fail. */
function sourceBack(seen: MoveSeen, volume: Volume): MoveStep | null {
  const { source, epoch = 0, fencingAt } = statusOf(seen);
  if (fencingAt === undefined || volume.spec.copy !== source?.copy) return null;
  if (volume.spec.epoch === epoch) return { step: 'unfence' };
  const copy = sourceEntry(seen);
  return copy && isServing(copy, epoch + 1) ? null : wait(unreachableSource(seen));
}

function targetGone(seen: MoveSeen, volume: Volume | null): MoveStep {
  const { ending } = statusOf(seen);
  const copy = volume ? targetEntry(seen) : undefined;
  const end = ending ?? { phase: 'Cancelled', reason: 'CancelAsked', message: 'cancelled by request' };
  // An agent that is away removes its incoming copy when it is back: nobody has to wait for that.
  if (copy && copy.role !== 'stale' && !isVolume(seen, volume) && isReady(seen.target)) return wait(null);
  return { step: 'end', phase: end.phase, why: { reason: end.reason, message: end.message } };
}

/** A person named the target's copy after the records were rolled back: it stays. */
const isVolume = (seen: MoveSeen, volume: Volume | null): boolean => volume?.spec.copy === statusOf(seen).target?.copy;

/** Bytes a second that the move may use now, or null: the move's own limit, else the volume's. */
export function bandwidthOf(move: Move, volume: Volume | null): number | null {
  const text = move.spec.bandwidth ?? volume?.spec.transferBandwidth;
  if (text === undefined) return null;
  const limit = Number(parseQuantity(text));
  return limit === 0 ? null : limit;
}
