// Waiting for an object: each new obstacle is told once, and Ctrl-C ends only the waiting. Knows no kind.
import type { Client } from '../api/client.ts';
import type { Kind } from '../model/kind.ts';
import type { ApiObject, Obstacle, Stored } from '../model/meta.ts';
import { line, type Context } from './context.ts';
import { Interrupted } from './exit-codes.ts';
import { until } from './follow.ts';
import { harmless } from './format.ts';

export interface Wait<T extends ApiObject, R> {
  judge: (object: Stored<T>) => R | null;
  /** What is told while it is not judged, each time it is another; '': nothing. By default, its obstacle. */
  says?: (object: Stored<T>) => string;
  /** What is said on Ctrl-C: what goes on, and how to see or end it. */
  interrupted: string;
}

/** Anything that may say what stands in its way. */
export type Hindered = ApiObject & { status?: { obstacle?: Obstacle; [field: string]: unknown } };

const obstacleOf = ({ status }: Hindered): string =>
  status?.obstacle ? `waiting: ${status.obstacle.reason}: ${status.obstacle.message}` : '';

/** Throws NotFound when it is gone before it is judged. */
export async function waitFor<T extends Hindered, R>(
  context: Context,
  of: { client: Client; kind: Kind<T>; name: string },
  wait: Wait<T, R>,
): Promise<R> {
  let told = '';
  const following = { client: of.client, kind: of.kind, clock: context.clock, signal: context.interrupted };
  try {
    return await until(following, of.name, (seen) => {
      const result = wait.judge(seen);
      const text = (wait.says ?? obstacleOf)(seen);
      if (result === null && text !== '' && text !== told) line(context.err, harmless(text));
      told = text;
      return result;
    });
  } catch (error) {
    if (!context.interrupted.aborted) throw error;
    throw new Interrupted(wait.interrupted, { cause: error });
  }
}
