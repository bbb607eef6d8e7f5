// Asks the source for parts of one file and writes them where they belong: two requests under way at once, every piece checked against the
// hash it came with. Never writes outside of what was asked for.
import { FlockError } from '../../model/errors.ts';
import { FRAME, type Header } from '../frame.ts';
import { hashing } from '../hashing.ts';
import { LEAF, zeroHash } from '../leaves.ts';
import type { FrameSink } from '../parser.ts';
import type { SourceLink } from '../source-link.ts';
import { punch, writeAll } from './filling.ts';
import { encodeFetch, MOST_RANGES } from './messages.ts';
import type { Difference } from './sums.ts';

/** Of one request. */
const BATCH = 8 * LEAF;

interface Part {
  fd: number;
  path: string;
  size: number;
  leaf: number;
}

interface Range {
  first: number;
  count: number;
}

/** The bytes of these leaves that came, and what of them had a payload. */
export async function fetchLeaves(
  link: SourceLink,
  of: Part,
  differences: readonly Difference[],
): Promise<{ bytes: number; frames: number }> {
  const fetched = new Fetched(of);
  link.blocks = fetched;
  try {
    const ask = (ranges: Range[]): Promise<Buffer> => {
      fetched.expect(ranges);
      return link.ask(FRAME.TREE_FETCH, encodeFetch({ ...of, ranges }));
    };
    let asked: Promise<Buffer> | null = null;
    for (const ranges of batches(differences, of.leaf)) {
      const next = ask(ranges);
      // Waited for in its turn.
      next.catch(() => undefined);
      await asked;
      await fetched.written();
      asked = next;
    }
    await asked;
    await fetched.written();
    fetched.checkAll();
    for (const { first, count, zero } of differences)
      if (zero) await punch(of.fd, { offset: first * of.leaf, length: Math.min(of.size, (first + count) * of.leaf) - first * of.leaf });
    return { bytes: fetched.bytes, frames: fetched.frames };
  } finally {
    link.blocks = null;
    await fetched.settled();
  }
}

/** What is not zeros, in requests of a bounded answer. */
function* batches(differences: readonly Difference[], leaf: number): Generator<Range[]> {
  const most = Math.max(1, Math.floor(BATCH / leaf));
  let ranges: Range[] = [];
  let leaves = 0;
  for (const { first, count, zero } of differences) {
    if (zero) continue;
    for (let at = first; at < first + count;) {
      const taken = Math.min(most - leaves, first + count - at);
      ranges.push({ first: at, count: taken });
      at += taken;
      leaves += taken;
      if (leaves < most && ranges.length < MOST_RANGES) continue;
      yield ranges;
      [ranges, leaves] = [[], 0];
    }
  }
  if (ranges.length > 0) yield ranges;
}

class Fetched implements FrameSink {
  bytes = 0;
  frames = 0;
  readonly #of: Part;
  /** Pieces that are to come, in order. */
  readonly #expected: { offset: number; length: number }[] = [];
  #writing: Promise<void>[] = [];

  constructor(of: Part) {
    this.#of = of;
  }

  expect(ranges: readonly Range[]): void {
    const { leaf, size } = this.#of;
    for (const { first, count } of ranges)
      for (let offset = first * leaf, end = Math.min(size, (first + count) * leaf); offset < end; offset += LEAF)
        this.#expected.push({ offset, length: Math.min(LEAF, end - offset) });
  }

  place(of: Header): Buffer {
    const [next] = this.#expected;
    if (next?.offset !== of.offset || next.length !== of.rawLen)
      throw new FlockError('Corrupt', `the source sent ${of.rawLen} bytes at ${of.offset}, which nobody asked for`);
    return Buffer.allocUnsafe(of.wireLen);
  }

  frame(of: Header, payload: Buffer): void {
    this.#expected.shift();
    const zero = of.type === FRAME.ZERO;
    const hash = zero ? zeroHash(of.rawLen) : hashing.digest(payload);
    if (!hash.equals(of.hash))
      throw new FlockError('Corrupt', `${of.rawLen} bytes at ${of.offset} came with bytes that do not match their hash`);
    this.bytes += of.wireLen;
    this.frames += 1;
    const { fd } = this.#of;
    const writing = zero ? punch(fd, { offset: of.offset, length: of.rawLen }) : writeAll(fd, payload, of.offset);
    writing.catch(() => undefined);
    this.#writing.push(writing);
  }

  async written(): Promise<void> {
    const writing = this.#writing;
    this.#writing = [];
    await Promise.all(writing);
  }

  async settled(): Promise<void> {
    await Promise.allSettled(this.#writing);
  }

  checkAll(): void {
    if (this.#expected.length > 0) throw new FlockError('Corrupt', `${this.#expected.length} pieces that were asked for did not come`);
  }
}
