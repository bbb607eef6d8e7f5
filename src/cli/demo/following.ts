// Following the demo's move: its record, and between two writes of it what the target's agent itself says of its progress.
import { phaseOf } from '../../decide/observed.ts';
import { FlockError } from '../../model/errors.ts';
import type { Stored } from '../../model/meta.ts';
import { Moves, type Move, type MovePhase } from '../../model/move.ts';
import type { Fetching } from '../agent-socket.ts';
import type { Context } from '../context.ts';
import { bytesOf, humanRate, humanSeconds } from '../format.ts';
import { activityText, obstacleText } from '../move-progress.ts';
import type { Step } from '../progress.ts';
import type { Stage } from './stage.ts';
import type { Telling } from './telling.ts';

const LOOK_MS = 100;
/** Longer than any step takes here: what is not there by then does not come. */
const PATIENCE_MS = 300_000;

export interface Play {
  context: Context;
  stage: Stage;
  telling: Telling;
}

/** Looks again and again until the answer is not null. Throws Internal after some minutes, and when the application ends by itself. */
export async function eventually<T>({ context, stage }: Play, what: () => string, look: () => Promise<T | null>): Promise<T> {
  const until = context.clock.monotonic() + PATIENCE_MS;
  for (;;) {
    const answer = await look();
    if (answer !== null) return answer;
    stage.checkApplication();
    if (context.clock.monotonic() > until) throw new FlockError('Internal', what());
    await context.clock.sleep(LOOK_MS, context.interrupted);
  }
}

/** The answer of `judge` once it is not null. Throws Internal also when the move was cancelled or failed. */
export async function followMove<R>(
  play: Play,
  { metadata, spec }: Stored<Move>,
  judge: (move: Stored<Move>, live: Fetching | null) => R | null,
): Promise<R> {
  const { stage, telling } = play;
  let standsAt = '';
  return eventually(
    play,
    () => `the move stands still: ${standsAt}`,
    async () => {
      const [move, live] = await Promise.all([stage.client.get(Moves, metadata.name), stage.fetching(spec.target, metadata.uid)]);
      standsAt = `${phaseOf(move)}, ${obstacleText(move) ?? 'and nobody says why'}`;
      refuseEnded(move);
      telling.progress(live ? fetchingStep(phaseOf(move), live) : { key: phaseOf(move), text: activityText(move), share: null });
      return judge(move, live);
    },
  );
}

/** Short enough for a terminal of 80 columns with a bar. */
function fetchingStep(phase: MovePhase, live: Fetching): Step {
  const [done, total] = [Number(live.bytesDone), Number(live.bytesTotal)];
  const what = isCommitted(phase) ? 'comparing both copies once more' : `round ${live.round}`;
  if (total === 0) return { key: phase, text: `${what}: asking the source what there is`, share: null };
  const pace = live.activity === 'copying' ? paceOf(live.rate, total - done) : live.activity;
  const text = `${what}: ${bytesOf(live.bytesDone)} of ${bytesOf(live.bytesTotal)}, ${pace}`;
  // Where lines are not redrawn, one for each quarter.
  return { key: `${phase} ${what} ${Math.floor((done / total) * 4)}`, text, share: done / total };
}

const isCommitted = (phase: MovePhase): boolean => phase === 'Published' || phase === 'Retaining';

const paceOf = (rate: number, left: number): string =>
  rate === 0 ? 'beginning' : `${humanRate(rate)}, ${humanSeconds(Math.ceil(left / rate))} left`;

function refuseEnded(move: Move): void {
  if (phaseOf(move) !== 'Failed' && phaseOf(move) !== 'Cancelled') return;
  throw new FlockError('Internal', `the move ended as ${phaseOf(move)}: ${obstacleText(move) ?? 'nobody says why'}`);
}
