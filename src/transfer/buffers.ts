// The target's blocks between wire and disk: buffers in two sizes, so that many small blocks may be under way without the memory of as many
// large ones. All moves of a process share what one may have, and each has enough to go on. Knows neither end.
import { alignedBuffer, giveBack } from '../host/aligned.ts';
import { LEAF } from './leaves.ts';

const SMALL = 64 * 1024;
/** `count`: of all moves together. `least`: what each may have whatever the others do. */
const SIZES: readonly { size: number; count: number; least: number }[] = [
  { size: SMALL, count: 128, least: 32 },
  { size: LEAF, count: 28, least: 7 },
];

const active = new Set<Buffers>();

export class Buffers {
  readonly #classes = SIZES.map((size) => ({ ...size, made: 0, free: [] as Buffer[] }));

  constructor() {
    active.add(this);
  }

  /** A buffer of at least `length` bytes that begins at a page; null when all of its size that this move may have are under way. */
  take(length: number): Buffer | null {
    const fitting = this.#classes.find(({ size }) => length <= size);
    if (!fitting) return null;
    const free = fitting.free.pop();
    if (free) return free;
    if (fitting.made >= shareOf(fitting)) return null;
    fitting.made += 1;
    return alignedBuffer(fitting.size);
  }

  give(buffer: Buffer): void {
    const fitting = this.#classes.find(({ size }) => size === buffer.length);
    if (!fitting) return;
    if (fitting.made <= shareOf(fitting)) return void fitting.free.push(buffer);
    // Another move began since.
    fitting.made -= 1;
    giveBack(buffer);
  }

  /** Only when none is under way. */
  close(): void {
    active.delete(this);
    for (const { free } of this.#classes) for (const buffer of free.splice(0)) giveBack(buffer);
  }
}

const shareOf = ({ count, least }: { count: number; least: number }): number => Math.max(least, Math.floor(count / active.size));
