// Names of the points in time that moves and snapshots hold on copies. They begin with whom they serve, so that whoever finds one on a disk
// knows it. Decisions, pools and transfer must agree on them.
import { shortUid } from './names.ts';

const OURS = /^(?<move>[0-9a-f]{12})(?:r(?<round>[0-9]+)|c)$/u;

/** What a round reads at the source. */
export const roundPoint = (moveUid: string, round: number): string => `${shortUid(moveUid)}r${round}`;

/** What the target was at its commit, for the scrub. */
export const commitPoint = (moveUid: string): string => `${shortUid(moveUid)}c`;

/** What a Snapshot holds. */
export const snapshotPoint = (snapshotUid: string): string => `s${shortUid(snapshotUid)}`;

/** Kept until a person deletes its Snapshot, and booked like a copy where nothing is promised twice. */
export const isSnapshotPoint = (point: string): boolean => /^s[0-9a-f]{12}$/u.test(point);

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
