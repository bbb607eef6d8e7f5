// Names of the points in time that a move holds on its copies. They begin with the move, so that whoever finds one on a disk knows whom it
// serves. Decisions and transfer must agree on them.
import { shortUid } from './names.ts';

const OURS = /^(?<move>[0-9a-f]{12})(?:r(?<round>[0-9]+)|c)$/u;

/** What a round reads at the source. */
export const roundPoint = (moveUid: string, round: number): string => `${shortUid(moveUid)}r${round}`;

/** What the target was at its commit, for the scrub. */
export const commitPoint = (moveUid: string): string => `${shortUid(moveUid)}c`;

export interface MovePoint {
  isOf: (moveUid: string) => boolean;
  /** null: the commit's. */
  round: number | null;
}

/** Null for a point that another made. */
export function readPoint(point: string): MovePoint | null {
  const { move, round } = OURS.exec(point)?.groups ?? {};
  if (move === undefined) return null;
  return { isOf: (moveUid) => shortUid(moveUid) === move, round: round === undefined ? null : Number(round) };
}
