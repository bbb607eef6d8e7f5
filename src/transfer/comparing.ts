// Finds the leaves in which two copies differ, by their hashes: the way when nothing tells what changed. The source hashes one stretch
// while the target hashes its own. Knows no journal.
import { HASH } from './hashing.ts';
import { LEAF, leafLength, zeroHash, type LeafTable } from './leaves.ts';
import type { SourceLink } from './source-link.ts';
import type { Span } from './spans.ts';

/** Leaves of one stretch. */
const STRETCH = 512;

export interface Difference {
  leaf: number;
  /** The source's leaf is zeros. */
  zero: boolean;
  /** The source's hash. */
  theirs: Buffer;
}

interface Comparison {
  link: SourceLink;
  /** The target's own hashes, found out by `hash` before they are looked at. */
  table: LeafTable;
  hash: (leaves: readonly number[]) => Promise<void>;
  /** Leaves compared so far. */
  onLeaves: (count: number) => void;
}

/** Compares these leaves, ascending. */
export async function differences(leaves: readonly number[], { link, table, hash, onLeaves }: Comparison): Promise<Difference[]> {
  const different: Difference[] = [];
  for (let at = 0; at < leaves.length; at += STRETCH) {
    const stretch = leaves.slice(at, at + STRETCH);
    // Both are waited for: the caller closes what is being read as soon as this ends.
    const [theirHashes, ours] = await Promise.allSettled([link.leaves(stretch), hash(stretch)]);
    if (theirHashes.status === 'rejected') throw theirHashes.reason;
    if (ours.status === 'rejected') throw ours.reason;
    const remote = theirHashes.value;
    stretch.forEach((leaf, index) => {
      const theirs = remote.subarray(index * HASH, (index + 1) * HASH);
      if (table.get(leaf).equals(theirs)) return;
      different.push({ leaf, zero: theirs.equals(zeroHash(leafLength(leaf, table.deviceBytes))), theirs: Buffer.from(theirs) });
    });
    onLeaves(stretch.length);
  }
  return different;
}

/** Whole leaves as ranges to copy or to zero. */
export const spansOfLeaves = (different: readonly Difference[], deviceBytes: number): Span[] =>
  different.map(({ leaf, zero }) => ({ offset: leaf * LEAF, length: leafLength(leaf, deviceBytes), zero }));

export const everyLeaf = (table: LeafTable): number[] => Array.from({ length: table.count }, (_, leaf) => leaf);
