// What the move cost, as a table, and how to try it by hand. Pure but for what this program is called here.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Move } from '../../model/move.ts';
import { bytesOf } from '../format.ts';
import { aligned } from '../print.ts';
import { PACKAGE_ROOT } from '../version.ts';
import type { Proof } from './acknowledged.ts';

export interface Cost {
  /** Of the volume, bytes. */
  size: string;
  /** Commits acknowledged from the order until the rest was small. */
  whileCopying: number;
  /** Of the application: from its last commit before to its first after. */
  pauseMs: number | null;
  proof: Proof;
}

export function summary(move: Move, cost: Cost): string[] {
  const { incoming = {}, pauseMs } = move.status ?? {};
  const rounds = incoming.rounds ?? [];
  const { acknowledged, found, lost, changed } = cost.proof;
  return aligned([
    ['bytes sent', `${bytesOf(incoming.bytesSent)}, of ${bytesOf(incoming.allocated)} allocated in a volume of ${bytesOf(cost.size)}`],
    ['rounds', `${incoming.roundCount ?? rounds.length}: ${rounds.map(bytesOf).join(', ')}`],
    ['resumed', `${bytesOf(incoming.bytesResumed)} were on the target's disk when its agent was killed, and were not sent again`],
    ['pause', `${msOf(cost.pauseMs)} between the application's last commit before and its first after; the move's part ${msOf(pauseMs)}`],
    [
      'commits',
      `${acknowledged} acknowledged, ${found} found, ${lost.length + changed.length} lost; ${cost.whileCopying} while it was copied`,
    ],
  ]);
}

const msOf = (ms: number | null | undefined): string => (ms === null || ms === undefined ? '-' : `${(ms / 1000).toFixed(2)} s`);

/** In a checkout the program is called by its path. */
const flockctl = (): string => (existsSync(join(PACKAGE_ROOT, 'src', 'cli', 'main.ts')) ? 'bin/flockctl' : 'flockctl');

/** Commands, in order: `create` makes the volume, which is mounted at `mount`, if anywhere. */
export function byHand({ create, mount }: { create: string; mount: string | null }): string[] {
  const name = flockctl();
  return [
    'up --nodes 3',
    `volume create db ${create}`,
    ...(mount === null ? [] : [`volume mount db ${mount}`]),
    'move db --to node-2 --wait',
    ...(mount === null ? [] : ['volume unmount db     # in another shell, when the move asks for it']),
    'volume show db',
    'down --delete',
  ].map((words) => `${name} ${words}`);
}
