// The target's blocks between wire and disk: a fixed number of buffers in two sizes, so that many small blocks may be under way without
// the memory of as many large ones. Knows neither end.
import { alignedBuffer, giveBack } from '../host/aligned.ts';
import { LEAF } from './leaves.ts';

const SMALL = 64 * 1024;
const SIZES: readonly { size: number; count: number }[] = [
  { size: SMALL, count: 128 },
  { size: LEAF, count: 32 },
];

export class Buffers {
  readonly #classes = SIZES.map(({ size, count }) => ({ size, left: count, free: [] as Buffer[] }));

  /** A buffer of at least `length` bytes that begins at a page; null when all of its size are under way. */
  take(length: number): Buffer | null {
    const fitting = this.#classes.find(({ size }) => length <= size);
    if (!fitting) return null;
    const free = fitting.free.pop();
    if (free) return free;
    if (fitting.left === 0) return null;
    fitting.left -= 1;
    return alignedBuffer(fitting.size);
  }

  give(buffer: Buffer): void {
    this.#classes.find(({ size }) => size === buffer.length)?.free.push(buffer);
  }

  /** Only when none is under way. */
  close(): void {
    for (const { free } of this.#classes) for (const buffer of free.splice(0)) giveBack(buffer);
  }
}
