// What a round copies, as numbered blocks of at most a leaf, each of one piece or of many small ones, with what is known of each: whether it
// is on the disk, and the hash of its bytes. 45 bytes a block, 12 a piece. The numbering follows from the extents alone, so that a journal may
// speak of it. Pure.
import { HASH } from './hashing.ts';
import { LEAF } from './leaves.ts';
import { splitAtLeaves, type Span } from './spans.ts';

/** Pieces of one block: as many as a leaf of single blocks of 4096 bytes has. */
const PIECES = 256;

export class BlockPlan {
  readonly count: number;
  /** Bytes of all blocks. */
  readonly bytes: number;
  /** To be zeroed without asking for it. */
  readonly zeros: readonly Span[];
  readonly #offsets: Float64Array;
  readonly #lengths: Uint32Array;
  /** The first piece of each block, and one more. */
  readonly #first: Uint32Array;
  readonly #hashes: Buffer;
  readonly #done: Uint8Array;

  constructor(spans: readonly Span[]) {
    const pieces = [...splitAtLeaves(spans.filter(({ zero }) => !zero))];
    this.zeros = spans.filter(({ zero }) => zero);
    this.#offsets = Float64Array.from(pieces, ({ offset }) => offset);
    this.#lengths = Uint32Array.from(pieces, ({ length }) => length);
    this.#first = Uint32Array.from(firstPieces(pieces));
    this.count = this.#first.length - 1;
    this.#hashes = Buffer.alloc(this.count * HASH);
    this.#done = new Uint8Array(this.count);
    this.bytes = this.#lengths.reduce((total, length) => total + length, 0);
  }

  /** Where its first piece begins. */
  offset(block: number): number {
    return this.#offsets[this.#first[block] as number] as number;
  }

  /** Of all its pieces. */
  length(block: number): number {
    let total = 0;
    for (let piece = this.#first[block] as number; piece < (this.#first[block + 1] as number); piece += 1)
      total += this.#lengths[piece] as number;
    return total;
  }

  /** Its bytes are those of its pieces, one after the other. */
  pieces(block: number): Span[] {
    const pieces: Span[] = [];
    for (let piece = this.#first[block] as number; piece < (this.#first[block + 1] as number); piece += 1)
      pieces.push({ offset: this.#offsets[piece] as number, length: this.#lengths[piece] as number, zero: false });
    return pieces;
  }

  hash(block: number): Buffer {
    return this.#hashes.subarray(block * HASH, (block + 1) * HASH);
  }

  isDone(block: number): boolean {
    return this.#done[block] !== 0;
  }

  /** It was read back from the disk, and is what was sent. */
  isProven(block: number): boolean {
    return this.#done[block] === 2;
  }

  setDone(block: number, hash: Buffer): void {
    hash.copy(this.#hashes, block * HASH, 0, HASH);
    this.#done[block] = 1;
  }

  setProven(block: number): void {
    this.#done[block] = 2;
  }

  setUndone(block: number): void {
    this.#done[block] = 0;
  }

  /** Bytes of the blocks that are done. */
  doneBytes(): number {
    let total = 0;
    for (let block = 0; block < this.count; block += 1) if (this.isDone(block)) total += this.length(block);
    return total;
  }
}

/** Small pieces share a block, for a frame and a journal entry each would cost more than they carry. */
function firstPieces(pieces: readonly Span[]): number[] {
  const first: number[] = [];
  let [bytes, count] = [LEAF, 0];
  pieces.forEach(({ length }, piece) => {
    if (bytes + length > LEAF || count === PIECES) {
      first.push(piece);
      [bytes, count] = [0, 0];
    }
    bytes += length;
    count += 1;
  });
  return [...first, pieces.length];
}
