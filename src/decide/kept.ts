// Old copies that moves keep: how much room they take, for how long, and how to end that. Pure.
import type { Stored } from '../model/meta.ts';
import type { Move } from '../model/move.ts';
import { durationMs } from '../model/names.ts';
import { humanBytes } from '../model/quantity.ts';
import type { Volume } from '../model/volume.ts';
import { DEFAULTS } from './defaults.ts';
import { copiesOf, phaseOf } from './observed.ts';

export interface KeptCopy {
  volume: string;
  copy: string;
  node: string;
  pool: string;
  /** Bytes. */
  size: bigint;
  /** Who keeps it. */
  move: string;
  /** When it may go at the earliest, ms since 1970. */
  until: number;
}

/** How long the superseded copy is kept after the commit, ms. */
export const retainMs = (move: Move, volume: Volume): number =>
  durationMs(move.spec.retainSource ?? volume.spec.retainSource ?? DEFAULTS.retainSource);

/** Those that nobody has let go yet. */
export function keptCopies(volumes: readonly Stored<Volume>[], moves: readonly Stored<Move>[]): KeptCopy[] {
  const byName = new Map(volumes.map((volume) => [volume.metadata.name, volume]));
  return moves.flatMap((move) => {
    const volume = byName.get(move.spec.volume);
    return volume === undefined ? [] : keptBy(move, volume);
  });
}

function keptBy(move: Stored<Move>, volume: Stored<Volume>): KeptCopy[] {
  const { source, committedAt = '' } = move.status ?? {};
  const entry = copiesOf(volume)[source?.copy ?? ''];
  if (!source || entry?.role !== 'stale' || !isKeeping(move, volume)) return [];
  const { node, pool, size = '0' } = entry;
  const until = Date.parse(committedAt) + retainMs(move, volume);
  return [{ volume: volume.metadata.name, copy: source.copy, node, pool, size: BigInt(size), move: move.metadata.name, until }];
}

/** What was let go already is on its way out. */
const isKeeping = (move: Move, { metadata }: Stored<Volume>): boolean =>
  phaseOf(move) === 'Retaining' && move.status?.release !== true && move.status?.volumeUid === metadata.uid;

/** More than a person reads. */
const MOST_MOVES = 3;

/** How much of a pool they are, and the way to have it sooner; null when there are none. */
export function keptIn(kept: readonly KeptCopy[], node: string, pool: string): string | null {
  const here = kept.filter((each) => each.node === node && each.pool === pool);
  if (here.length === 0) return null;
  const size = here.reduce((sum, each) => sum + each.size, 0n);
  const ways = here.slice(0, MOST_MOVES).map(({ move }) => `flockctl move release ${move}`);
  const more = here.length - ways.length;
  return `node ${node} keeps ${humanBytes(size)} of old copies there, which end sooner by: ${ways.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
