// What a round copies, as numbered blocks of at most a leaf, with what is known of each: whether it is on the disk, and the hash of its
// bytes. 45 bytes a block. The numbering follows from the extents alone, so that a journal may speak of it. Pure.
import { HASH } from './hashing.ts';
import { splitAtLeaves, type Span } from './spans.ts';

export class BlockPlan {
  readonly count: number;
  /** Bytes of all blocks. */
  readonly bytes: number;
  /** To be zeroed without asking for it. */
  readonly zeros: readonly Span[];
  readonly #offsets: Float64Array;
  readonly #lengths: Uint32Array;
  readonly #hashes: Buffer;
  readonly #done: Uint8Array;

  constructor(spans: readonly Span[]) {
    const blocks = [...splitAtLeaves(spans.filter(({ zero }) => !zero))];
    this.zeros = spans.filter(({ zero }) => zero);
    this.count = blocks.length;
    this.#offsets = Float64Array.from(blocks, ({ offset }) => offset);
    this.#lengths = Uint32Array.from(blocks, ({ length }) => length);
    this.#hashes = Buffer.alloc(this.count * HASH);
    this.#done = new Uint8Array(this.count);
    this.bytes = this.#lengths.reduce((total, length) => total + length, 0);
  }

  offset(block: number): number {
    return this.#offsets[block] as number;
  }

  length(block: number): number {
    return this.#lengths[block] as number;
  }

  hash(block: number): Buffer {
    return this.#hashes.subarray(block * HASH, (block + 1) * HASH);
  }

  isDone(block: number): boolean {
    return this.#done[block] === 1;
  }

  setDone(block: number, hash: Buffer): void {
    hash.copy(this.#hashes, block * HASH, 0, HASH);
    this.#done[block] = 1;
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
