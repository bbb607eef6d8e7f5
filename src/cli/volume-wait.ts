// Waiting for a volume: each new obstacle is told once, and Ctrl-C ends only the waiting.
import type { Client } from '../api/client.ts';
import type { Stored } from '../model/meta.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import { line, type Context } from './context.ts';
import { Interrupted } from './exit-codes.ts';
import { until } from './follow.ts';
import { harmless } from './format.ts';

export interface Wait<R> {
  judge: (volume: Stored<Volume>) => R | null;
  /** What is said on Ctrl-C: what goes on, and how to see or end it. */
  interrupted: string;
}

export async function waitForVolume<R>(context: Context, client: Client, volume: Stored<Volume>, wait: Wait<R>): Promise<R> {
  let told = '';
  const following = { client, kind: Volumes, clock: context.clock, signal: context.interrupted };
  try {
    return await until(following, volume.metadata.name, (seen) => {
      const result = wait.judge(seen);
      const obstacle = seen.status?.obstacle;
      const text = obstacle === undefined ? '' : `${obstacle.reason}: ${obstacle.message}`;
      if (result === null && text !== '' && text !== told) line(context.err, `waiting: ${harmless(text)}`);
      told = text;
      return result;
    });
  } catch (error) {
    if (!context.interrupted.aborted) throw error;
    throw new Interrupted(wait.interrupted, { cause: error });
  }
}
