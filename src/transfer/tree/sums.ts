// The hashes of a file's leaves, in a form that a hole of any size costs a few bytes: runs of leaves that are zeros, and of leaves with a
// hash each. One content has one form, for digests are made over it. No I/O.
import { FlockError } from '../../model/errors.ts';
import { HASH } from '../hashing.ts';
import { VarintReader, VarintWriter } from '../varint.ts';

const SMALLEST_LEAF = 64 * 1024;
/** What is read and sent at once, and held in memory. */
export const LARGEST_LEAF = 16 * 1024 * 1024;
const MOST_LEAVES = 2 ** 18;
/** Of one file, holes included: 4 TiB. Beyond it no list of hashes below 8 MiB tells all of it. */
export const LARGEST_FILE = LARGEST_LEAF * MOST_LEAVES;

/** Bytes of a leaf of a file of this size: 64 KiB up to 16 GiB, 1 MiB up to 256 GiB, then 16 MiB, so that no list is above 8 MiB. */
export function leafOf(size: number): number {
  let leaf = SMALLEST_LEAF;
  while (leaf < LARGEST_LEAF && size > leaf * MOST_LEAVES) leaf *= 16;
  return leaf;
}

const leavesOf = (size: number, leaf = leafOf(size)): number => Math.ceil(size / leaf);

/** Takes the hashes in order. */
export class SumsWriter {
  readonly #parts: Buffer[] = [];
  #zeros = 0;
  #hashes: Buffer[] = [];

  put(hash: Buffer): void {
    this.#hashes.push(hash);
  }

  zeros(count: number): void {
    if (count === 0) return;
    if (this.#hashes.length > 0) this.#flush();
    this.#zeros += count;
  }

  bytes(): Buffer {
    if (this.#zeros > 0 || this.#hashes.length > 0) this.#flush();
    return Buffer.concat(this.#parts.splice(0));
  }

  #flush(): void {
    const counts = new VarintWriter();
    counts.put(this.#zeros);
    counts.put(this.#hashes.length);
    this.#parts.push(Buffer.from(counts.bytes()), ...this.#hashes);
    this.#zeros = 0;
    this.#hashes = [];
  }
}

export interface Run {
  first: number;
  count: number;
  /** null: zeros. */
  hashes: Buffer | null;
}

/** Of unknown origin. Throws Corrupt unless it has exactly the leaves of a file of this size. */
export function runsOf(sums: Buffer, size: number, leaf = leafOf(size)): Run[] {
  const runs: Run[] = [];
  let first = 0;
  for (let at = 0; at < sums.length;) {
    const reader = new VarintReader(sums.subarray(at, at + 16));
    const [zeros, hashed] = [reader.take(), reader.take()];
    const begin = at + reader.at;
    at = begin + hashed * HASH;
    if (zeros + hashed === 0 || at > sums.length) throw new FlockError('Corrupt', 'the hashes of a file are cut off');
    if (zeros > 0) runs.push({ first, count: zeros, hashes: null });
    if (hashed > 0) runs.push({ first: first + zeros, count: hashed, hashes: sums.subarray(begin, at) });
    first += zeros + hashed;
  }
  if (first !== leavesOf(size, leaf)) throw new FlockError('Corrupt', `hashes of ${first} leaves for a file of ${size} bytes`);
  return runs;
}

export interface Difference {
  first: number;
  count: number;
  zero: boolean;
}

/** Leaves of `wanted` that `there` has not, in order; both have leaves of one size. */
export function differences(wanted: readonly Run[], there: readonly Run[]): Difference[] {
  const found: Difference[] = [];
  const known = new Lookup(there);
  for (const { first, count, hashes } of wanted) {
    if (hashes === null) zerosLacking({ first, count }, known, found);
    else dataLacking({ first, count, hashes }, known, found);
  }
  return found;
}

function dataLacking({ first, count, hashes }: Run & { hashes: Buffer }, known: Lookup, found: Difference[]): void {
  for (let index = 0; index < count; index += 1) {
    const hash = hashes.subarray(index * HASH, (index + 1) * HASH);
    if (!known.has(first + index, hash)) add(found, { first: first + index, count: 1, zero: false });
  }
}

function zerosLacking({ first, count }: { first: number; count: number }, known: Lookup, found: Difference[]): void {
  for (let leaf = first; leaf < first + count;) {
    const run = known.runAt(leaf);
    const end = run ? Math.min(first + count, run.first + run.count) : first + count;
    if (run?.hashes !== null) add(found, { first: leaf, count: end - leaf, zero: true });
    leaf = end;
  }
}

function add(found: Difference[], one: Difference): void {
  const last = found.at(-1);
  if (last && last.zero === one.zero && last.first + last.count === one.first) last.count += one.count;
  else found.push(one);
}

/** Asked in ascending order. */
class Lookup {
  readonly #runs: readonly Run[];
  #at = 0;

  constructor(runs: readonly Run[]) {
    this.#runs = runs;
  }

  runAt(leaf: number): Run | undefined {
    for (let run = this.#runs[this.#at]; run && run.first + run.count <= leaf; run = this.#runs[this.#at]) this.#at += 1;
    return this.#runs[this.#at];
  }

  has(leaf: number, hash: Buffer): boolean {
    const run = this.runAt(leaf);
    if (!run?.hashes) return false;
    return run.hashes.subarray((leaf - run.first) * HASH, (leaf - run.first + 1) * HASH).equals(hash);
  }
}
