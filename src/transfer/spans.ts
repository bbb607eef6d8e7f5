// Ranges of a volume in numbers: sorted, without overlaps. Rounding, joining, splitting at leaves, subtracting. Pure.
// Volumes are below 2^53 bytes here, and buffers are addressed by numbers anyway.
import { FlockError } from '../model/errors.ts';
import type { Extent } from '../pools/pool.ts';
import { LEAF } from './leaves.ts';

export const BLOCK = 4096;

export interface Span {
  offset: number;
  length: number;
  /** Reads as zeros. */
  zero: boolean;
}

export const endOf = (span: Span): number => span.offset + span.length;

/** Ranges that are kept apart: above it near ones are joined, for a list of them takes memory on both nodes. */
const MOST = 1024 * 1024;

/** A pool's extents, rounded out to 4096 bytes but for the volume's end, neighbours joined. */
export async function spansOf(extents: AsyncIterable<Extent>, deviceBytes: number): Promise<Span[]> {
  let spans: Span[] = [];
  for await (const extent of extents) {
    const begin = Math.floor(Number(extent.offset) / BLOCK) * BLOCK;
    const stop = Number(extent.offset + extent.length);
    // What grew after the size was read is not this round's.
    const end = Math.min(Math.ceil(stop / BLOCK) * BLOCK, deviceBytes);
    if (end > begin) append(spans, { offset: begin, length: end - begin, zero: extent.kind === 'ZERO' });
    if (spans.length > MOST) spans = fewer(spans);
  }
  return spans;
}

/** At most half as many. */
function fewer(spans: Span[]): Span[] {
  let joined = spans;
  for (let gap = 2 * BLOCK; joined.length > MOST / 2; gap *= 2)
    joined = coalesce(
      joined.map((span) => ({ ...span, zero: false })),
      gap,
    );
  return joined;
}

function append(spans: Span[], next: Span): void {
  const last = spans.at(-1);
  if (!last || endOf(last) < next.offset || (endOf(last) === next.offset && last.zero !== next.zero)) {
    spans.push(next);
    return;
  }
  if (next.offset < last.offset) throw new FlockError('Internal', 'a pool listed its extents out of order');
  // Rounding made two of them overlap: what is not surely zero is data.
  last.zero = last.zero && next.zero;
  last.length = Math.max(endOf(last), endOf(next)) - last.offset;
}

/** Joins data over what lies between and is at most `gap` bytes long, be it zeros: a request costs more than these bytes. */
export function coalesce(spans: readonly Span[], gap: number): Span[] {
  const joined: Span[] = [];
  for (const span of spans) {
    const before = joined.at(-1)?.zero ? joined.at(-2) : joined.at(-1);
    const near = before !== undefined && !before.zero && span.offset - endOf(before) <= gap;
    if (!near || span.zero) {
      joined.push({ ...span });
      continue;
    }
    if (joined.at(-1) !== before) joined.pop();
    before.length = endOf(span) - before.offset;
  }
  return joined;
}

/** What of `spans` is not covered by `by`. */
function subtract(spans: readonly Span[], by: readonly Span[]): Span[] {
  const left: Span[] = [];
  let first = 0;
  for (const span of spans) {
    let at = span.offset;
    while (first < by.length && endOf(by[first] as Span) <= at) first += 1;
    for (let index = first; index < by.length && (by[index] as Span).offset < endOf(span); index += 1) {
      const cut = by[index] as Span;
      if (cut.offset > at) left.push({ offset: at, length: cut.offset - at, zero: span.zero });
      at = Math.max(at, endOf(cut));
    }
    if (at < endOf(span)) left.push({ offset: at, length: endOf(span) - at, zero: span.zero });
  }
  return left;
}

/** `spans`, and what only `also` covers, as data to be asked for. */
export function unite(spans: readonly Span[], also: readonly Span[]): Span[] {
  const extra = subtract(also, spans).map((span) => ({ ...span, zero: false }));
  return [...spans, ...extra].sort((a, b) => a.offset - b.offset);
}

/** Cut at the leaves, so that no piece lies in two of them. */
export function* splitAtLeaves(spans: Iterable<Span>): Generator<Span> {
  for (const span of spans) {
    for (let at = span.offset; at < endOf(span);) {
      const end = Math.min((Math.floor(at / LEAF) + 1) * LEAF, endOf(span));
      yield { offset: at, length: end - at, zero: span.zero };
      at = end;
    }
  }
}

/** The leaves that the spans touch, ascending, each once. */
export function leavesOf(spans: Iterable<Span>): number[] {
  const leaves: number[] = [];
  let last = -1;
  for (const span of spans) {
    const end = Math.ceil(endOf(span) / LEAF);
    for (let leaf = Math.max(Math.floor(span.offset / LEAF), last + 1); leaf < end; leaf += 1) leaves.push((last = leaf));
  }
  return leaves;
}

/** Bytes of data in the spans. */
export const dataBytes = (spans: Iterable<Span>): number => {
  let total = 0;
  for (const span of spans) if (!span.zero) total += span.length;
  return total;
};

/** Answers quickly whether a range meets any of the spans (data ones only). */
export class DataMap {
  readonly #spans: Span[];
  constructor(spans: readonly Span[]) {
    this.#spans = spans.filter((span) => !span.zero);
  }

  meets(offset: number, length: number): boolean {
    let low = 0;
    let high = this.#spans.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (endOf(this.#spans[middle] as Span) <= offset) low = middle + 1;
      else high = middle;
    }
    const found = this.#spans[low];
    return found !== undefined && found.offset < offset + length;
  }
}
