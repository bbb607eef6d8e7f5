// What is true of each volume, whatever the records and labels say: what applications were told is written, which copy was the one that
// may be served, what was committed and when. Kept beside the world by what happens in it; the rules (rules.ts) are judged against it.
import type { Stored } from '../model/meta.ts';
import type { Volume } from '../model/volume.ts';

export interface Placed {
  node: string;
  copy: string;
  epoch: number;
  move: string | null;
}

export interface Superseded {
  at: number;
  /** ms that the class promises to keep it. */
  retained: number;
  move: string;
}

export interface VolumeTruth {
  uid: string;
  name: string;
  /** As somebody asked for last. */
  size: string;
  /** As its maker named it. */
  pool: string | null;
  placed: Placed | null;
  /** When that was written. */
  placedAt: number;
  /** The copy of each epoch. */
  epochs: Map<number, string>;
  /** Block by block, as the application was told. */
  acknowledged: Map<bigint, string>;
  /** A filesystem was made and used. */
  formatted: boolean;
  /** Copies that were ever on a disk. */
  made: Set<string>;
  /** Copies that the record said are made. */
  reported: Set<string>;
  superseded: Map<string, Superseded>;
  /** Moves (by name) that committed, and those that ended without. */
  committed: Set<string>;
  /** Moves (by UID) whose scrub found no difference. */
  scrubbed: Set<string>;
  deleting: boolean;
  /** Since when, while it is. */
  deletingSince: number;
  /** When records went back that say nothing of its deletion. */
  undeletedAt: number | null;
  gone: boolean;
  /** Copies (by name) that were on a disk that was lost. */
  lostCopies: Set<string>;
  /** Its disk was lost: nothing can be asked of it any more. */
  lost: boolean;
  /** The records went back behind what is true: nothing may be served until a person has decided. */
  behind: boolean;
  /** The records went back, if only once: what they say of moves is of another past. */
  rewritten: boolean;
}

export const newTruth = ({ metadata, spec }: Stored<Volume>): VolumeTruth => ({
  uid: metadata.uid,
  name: metadata.name,
  size: spec.size,
  pool: spec.pool ?? null,
  placed: null,
  placedAt: 0,
  epochs: new Map(),
  acknowledged: new Map(),
  formatted: false,
  made: new Set(),
  reported: new Set(),
  superseded: new Map(),
  committed: new Set(),
  scrubbed: new Set(),
  deleting: false,
  deletingSince: 0,
  undeletedAt: null,
  gone: false,
  lostCopies: new Set(),
  lost: false,
  behind: false,
  rewritten: false,
});

export function placedOf({ spec }: Volume): Placed | null {
  const { node, copy, epoch, move } = spec;
  if (node === undefined || copy === undefined || epoch === undefined) return null;
  return { node, copy, epoch, move: move ?? null };
}
