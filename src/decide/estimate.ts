// How long copying a volume takes, from what was measured, and what bounds it. Pure.

/** Bytes a second; null: not measured. */
export interface Measured {
  read: number | null;
  write: number | null;
  hash: number;
  wire: number | null;
}

/** What all bytes go through; the slowest of them bounds the copy. */
export type Bound = 'reading at the source' | 'hashing' | 'the wire' | 'writing and reading back at the target';

export interface Estimate {
  bytes: number;
  seconds: number;
  bound: Bound;
  /** Bytes a second of the whole. */
  rate: number;
}

/**
 * The first round of a move of so many allocated bytes, the target's disk being like this one. All parts of a copy go on at the same time, each on
 * other bytes; only the target's disk does two things with each. null: nothing but the hash was measured.
 */
export function estimated(bytes: number, { read, write, hash, wire }: Measured): Estimate | null {
  const parts: [Bound, number | null][] = [
    ['reading at the source', read],
    ['hashing', hash],
    ['the wire', wire],
    ['writing and reading back at the target', read === null || write === null ? null : (read * write) / (read + write)],
  ];
  if (read === null && wire === null) return null;
  const known = parts.filter((part): part is [Bound, number] => part[1] !== null && part[1] > 0);
  const [bound, rate] = known.reduce((slowest, part) => (part[1] < slowest[1] ? part : slowest));
  return { bytes, bound, rate: Math.round(rate), seconds: bytes / rate };
}
