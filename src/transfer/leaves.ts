// A volume cut into leaves of 1 MiB, and the table of their hashes: 32 bytes a leaf in one buffer. The root stands for all of them and
// for the volume's size. Knows no disk and no wire.
import { FlockError } from '../model/errors.ts';
import { HASH, hashing } from './hashing.ts';

/** Bytes of a leaf; only the last one of a volume is shorter. Also the largest block on the wire. */
export const LEAF = 1024 * 1024;
/** A leaf of zeros, or a part of one; never written. */
const ZEROS = Buffer.alloc(LEAF);

const zeroHashes = new Map<number, Buffer>();

/** The hash of `length` zeros, at most a leaf. */
export function zeroHash(length: number): Buffer {
  const known = zeroHashes.get(length);
  if (known) return known;
  const hash = hashing.digest(ZEROS.subarray(0, length));
  // Lengths are multiples of a page but for a volume's end: a few hundred at most.
  if (zeroHashes.size < 1024) zeroHashes.set(length, hash);
  return hash;
}

export const isZero = (bytes: Buffer): boolean => bytes.equals(ZEROS.subarray(0, bytes.length));

export const leafCount = (deviceBytes: number): number => Math.ceil(deviceBytes / LEAF);
export const leafLength = (leaf: number, deviceBytes: number): number => Math.min(LEAF, deviceBytes - leaf * LEAF);

export class LeafTable {
  readonly deviceBytes: number;
  readonly count: number;
  readonly hashes: Buffer;
  readonly #known: Uint8Array;

  /** A table that knows no leaf yet. */
  constructor(deviceBytes: number, hashes?: Buffer) {
    this.deviceBytes = deviceBytes;
    this.count = leafCount(deviceBytes);
    this.hashes = hashes ?? Buffer.alloc(this.count * HASH);
    this.#known = new Uint8Array(this.count).fill(hashes ? 1 : 0);
    if (this.hashes.length !== this.count * HASH)
      throw new FlockError('Corrupt', `a leaf table of ${this.hashes.length} bytes does not fit a volume of ${deviceBytes} bytes`);
  }

  isKnown(leaf: number): boolean {
    return this.#known[leaf] === 1;
  }

  forget(leaf: number): void {
    this.#known[leaf] = 0;
  }

  set(leaf: number, hash: Buffer): void {
    hash.copy(this.hashes, leaf * HASH, 0, HASH);
    this.#known[leaf] = 1;
  }

  get(leaf: number): Buffer {
    return this.hashes.subarray(leaf * HASH, (leaf + 1) * HASH);
  }

  unknown(): number[] {
    const leaves: number[] = [];
    for (let leaf = 0; leaf < this.count; leaf += 1) if (this.#known[leaf] === 0) leaves.push(leaf);
    return leaves;
  }

  /** BLAKE3(leaves || size as 8 bytes, little end first), as hex. Every leaf must be known. */
  root(): string {
    if (this.#known.includes(0)) throw new FlockError('Internal', 'the root of a leaf table was asked for before every leaf was hashed');
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(this.deviceBytes));
    return hashing.digest(Buffer.concat([this.hashes, size])).toString('hex');
  }

  copy(): LeafTable {
    const copy = new LeafTable(this.deviceBytes, Buffer.from(this.hashes));
    copy.#known.set(this.#known);
    return copy;
  }
}
