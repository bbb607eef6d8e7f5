// A Move in words: what it does, how far it is, what it waits for, how it ended. Pure.
import { hasEnded, phaseOf } from '../decide/observed.ts';
import type { Move, MovePhase } from '../model/move.ts';
import { counted } from '../model/quantity.ts';
import { bytesOf, humanRate, humanSeconds, type Paint } from './format.ts';

/** What a person waits for is over: the volume may be used at the target, or the move has ended without that. */
export const isOver = (move: Move): boolean => hasEnded(move) || phaseOf(move) === 'Published' || phaseOf(move) === 'Retaining';
export const hasSucceeded = (move: Move): boolean => isOver(move) && phaseOf(move) !== 'Cancelled' && phaseOf(move) !== 'Failed';

/** 0 to 1 of the round that runs, or null when nothing is being copied. */
export function doneShare(move: Move): number | null {
  const { bytesDone, bytesTotal } = move.status?.incoming ?? {};
  if (bytesDone === undefined || bytesTotal === undefined || !copies(move)) return null;
  const total = Number(bytesTotal);
  // Nothing was counted yet.
  return total === 0 ? null : Math.min(1, Number(bytesDone) / total);
}

const copies = (move: Move): boolean => phaseOf(move) === 'Syncing' || phaseOf(move) === 'FinalDelta';

const ACTIVITY: { [P in MovePhase]: (move: Move) => string } = {
  Pending: () => 'waiting to begin',
  Reserving: (move) => `reserving room on ${move.spec.target}`,
  Syncing: (move) => (move.status?.round ? `copying what changed (round ${move.status.round})` : 'copying (round 0, everything)'),
  ReadyToCutOver: () => 'ready: the rest fits into the allowed pause',
  Fencing: () => 'fencing the source',
  FinalDelta: () => 'copying the last changes',
  Verifying: () => 'verifying',
  Committed: (move) => `committed; activating on ${move.spec.target}`,
  Activating: (move) => `committed; activating on ${move.spec.target}`,
  Published: (move) => `moved: the volume may be used on ${move.spec.target}; the old copy is kept for now`,
  Retaining: (move) => `moved: the volume may be used on ${move.spec.target}; the old copy is kept for now`,
  Done: (move) => `moved to ${move.spec.target}; the old copy is gone`,
  Cancelling: () => 'taking it back',
  Cancelled: () => 'cancelled; the volume stays where it was',
  Failed: () => 'failed; the volume stays where it was',
};

export const activityText = (move: Move): string => ACTIVITY[phaseOf(move)](move);

/** `Syncing: copying (round 0, everything), 1.20 GiB of 2.00 GiB, 310 MiB/s, 3s left`. */
export function progressText(move: Move, paint: Paint): string {
  const parts = [activityText(move)];
  const { bytesDone, bytesTotal, rate, etaSeconds } = move.status?.incoming ?? {};
  if (copies(move) && bytesTotal !== undefined && bytesTotal !== '0') {
    parts.push(`${bytesOf(bytesDone ?? '0')} of ${bytesOf(bytesTotal)}`);
    if (rate !== undefined) parts.push(humanRate(rate));
    if (etaSeconds !== undefined) parts.push(`${humanSeconds(etaSeconds)} left`);
  }
  return `${paint(colourOf(move), phaseOf(move))}: ${parts.join(', ')}`;
}

function colourOf(move: Move): Parameters<Paint>[0] {
  if (phaseOf(move) === 'Failed' || phaseOf(move) === 'Cancelled') return 'red';
  return isOver(move) ? 'green' : 'bold';
}

/** What stands in the way now, or why it ended as it did; null when nothing. */
export function obstacleText(move: Move): string | null {
  const why = move.status?.ending ?? move.status?.obstacle;
  return why === undefined ? null : `${why.reason}: ${why.message}`;
}

/** After a success: what it cost. */
export function summaryText(move: Move): string {
  const { incoming = {}, pauseMs } = move.status ?? {};
  const parts = [counted(incoming.roundCount ?? 0, 'round'), `${bytesOf(incoming.bytesSent ?? '0')} sent`];
  if (incoming.allocated !== undefined) parts.push(`${bytesOf(incoming.allocated)} allocated`);
  if (incoming.bytesResumed !== undefined && incoming.bytesResumed !== '0') parts.push(`${bytesOf(incoming.bytesResumed)} resumed`);
  if (pauseMs !== undefined) parts.push(`pause ${pauseMs} ms`);
  return parts.join(', ');
}
