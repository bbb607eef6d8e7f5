// Following a Move until the volume may be used at its target: progress, each new obstacle once, Ctrl-C ends only the following.
import type { Client } from '../api/client.ts';
import { phaseOf } from '../decide/observed.ts';
import { FlockError } from '../model/errors.ts';
import type { Stored } from '../model/meta.ts';
import { Moves, type Move } from '../model/move.ts';
import { line, type Context } from './context.ts';
import { Interrupted } from './exit-codes.ts';
import { until } from './follow.ts';
import { paintFor, type Paint } from './format.ts';
import { doneShare, hasSucceeded, isOver, obstacleText, progressText, summaryText } from './move-progress.ts';
import { progressOn, type Progress } from './progress.ts';

/** Throws Internal when the move was cancelled or failed, Interrupted on Ctrl-C. */
export async function waitForMove(context: Context, client: Client, move: Stored<Move>): Promise<void> {
  const { name } = move.metadata;
  const progress = progressOn(context.out, context.clock);
  const told = teller(progress, paintFor(context.out, context.env));
  const following = { client, kind: Moves, clock: context.clock, signal: context.interrupted };
  try {
    const ended = await until(following, name, (seen) => {
      told(seen);
      return isOver(seen) ? seen : null;
    });
    progress.end();
    conclude(context, ended);
  } catch (error) {
    progress.end();
    if (!context.interrupted.aborted) throw error;
    throw new Interrupted(
      `move ${name} goes on without you; flockctl move show ${name} --watch shows it, flockctl move cancel ${name} ends it`,
      { cause: error },
    );
  }
}

function teller(progress: Progress, paint: Paint): (move: Move) => void {
  let told: string | null = null;
  return (move) => {
    const obstacle = isOver(move) ? null : obstacleText(move);
    if (obstacle !== null && obstacle !== told) progress.note(`waiting: ${obstacle}`);
    told = obstacle;
    progress.show({ key: `${phaseOf(move)} ${move.status?.round}`, text: progressText(move, paint), share: doneShare(move) });
  };
}

function conclude(context: Context, move: Stored<Move>): void {
  const { name } = move.metadata;
  if (!hasSucceeded(move)) {
    const why = obstacleText(move);
    throw new FlockError(
      'Internal',
      `move ${name} ${phaseOf(move) === 'Failed' ? 'failed' : 'was cancelled'}${why === null ? '' : `: ${why}`}`,
    );
  }
  line(context.out, `volume ${move.spec.volume} is on node ${move.spec.target} now: ${summaryText(move)}`);
}
