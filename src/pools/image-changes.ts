// What differs between two files that share blocks: where both lie on the same blocks they are equal, because shared blocks are never
// overwritten. Everything that cannot be proven equal is reported, to the block. Streams by pages of extents: a file of a million of them
// costs no memory, and each costs no wait of its own.
import type { FileHandle } from 'node:fs/promises';
import { dataRanges, mappedExtents, type Mapped } from '../host/extents.ts';
import { UNIT } from './image-room.ts';
import type { Extent } from './pool.ts';

const BLOCK = Number(UNIT);

/** A piece of the file: where it lies, or that it reads as zeros. */
interface Piece {
  offset: number;
  end: number;
  physical: number | null;
  zero: boolean;
}

interface Range {
  offset: number;
  end: number;
  zero: boolean;
}

interface Sized {
  file: FileHandle;
  size: bigint;
}

/** All that may hold something else than zeros. */
export async function* allData(file: FileHandle, size: bigint): AsyncGenerator<Extent> {
  const joined = new Joined(Number(size));
  for await (const page of mappedExtents(file.fd, Number(size)))
    yield* joined.with(page.filter(({ unwritten }) => !unwritten).map(({ logical, length }) => dataAt(logical, logical + length)));
  yield* joined.rest();
}

/** Like allData, for filesystems whose extents say nothing. */
export async function* allDataSought(file: FileHandle, size: bigint): AsyncGenerator<Extent> {
  const joined = new Joined(Number(size));
  for await (const { offset, length } of dataRanges(file.fd, size)) yield* joined.with([dataAt(Number(offset), Number(offset + length))]);
  yield* joined.rest();
}

const dataAt = (offset: number, end: number): Range => ({ offset, end, zero: false });

/** What `to` has otherwise than `from`; what reads as zeros now and did not is ZERO. */
export async function* difference(from: Sized, to: Sized): AsyncGenerator<Extent> {
  const joined = new Joined(Number(to.size));
  for await (const page of compared(pieces(from, to.size), pieces(to, to.size))) yield* joined.with(page);
  yield* joined.rest();
}

/** The file from 0 to `until` without gaps; holes, unwritten blocks and what is behind its end read as zeros. */
async function* pieces({ file, size }: Sized, until: bigint): AsyncGenerator<Piece[]> {
  let at = 0;
  for await (const page of mappedExtents(file.fd, Number(size))) {
    const found: Piece[] = [];
    for (const extent of page) {
      if (extent.logical > at) found.push(zerosAt(at, extent.logical));
      found.push(pieceOf(extent));
      at = extent.logical + extent.length;
    }
    yield found;
  }
  if (at < until) yield [zerosAt(at, Number(until))];
}

const zerosAt = (offset: number, end: number): Piece => ({ offset, end, physical: null, zero: true });

const pieceOf = ({ logical, length, physical, unwritten }: Mapped): Piece => ({
  offset: logical,
  end: logical + length,
  physical: unwritten ? null : physical,
  zero: unwritten,
});

/** Ranges in which the two are not surely equal, a page for each page of `to`. */
async function* compared(from: AsyncGenerator<Piece[]>, to: AsyncGenerator<Piece[]>): AsyncGenerator<Range[]> {
  const old = new Cursor(from);
  for await (const page of to) {
    const found: Range[] = [];
    for (const now of page) await compareOne(now, old, found);
    yield found;
  }
  await from.return(undefined);
}

async function compareOne(now: Piece, old: Cursor, found: Range[]): Promise<void> {
  for (let at = now.offset; at < now.end;) {
    const before = old.at(at) ?? (await old.from(at));
    const end = before && before.end < now.end ? before.end : now.end;
    if (!isSame(before, now, at)) found.push({ offset: at, end, zero: now.zero });
    at = end;
  }
}

/** Pieces read forwards, one page of them at a time. */
class Cursor {
  readonly #pages: AsyncGenerator<Piece[]>;
  #page: Piece[] = [];
  #next = 0;

  constructor(pages: AsyncGenerator<Piece[]>) {
    this.#pages = pages;
  }

  /** The piece that ends behind `at`, where it is in this page. */
  at(at: number): Piece | null {
    while (this.#next < this.#page.length && (this.#page[this.#next] as Piece).end <= at) this.#next += 1;
    return this.#page[this.#next] ?? null;
  }

  /** The piece that ends behind `at`; null when there is none. */
  async from(at: number): Promise<Piece | null> {
    for (let found = this.at(at); ; found = this.at(at)) {
      if (found) return found;
      const { value, done } = await this.#pages.next();
      if (done) return null;
      this.#page = value as Piece[];
      this.#next = 0;
    }
  }
}

function isSame(old: Piece | null, now: Piece, at: number): boolean {
  if (!old || old.zero || now.zero) return now.zero && (old === null || old.zero);
  if (old.physical === null || now.physical === null) return false;
  return old.physical + (at - old.offset) === now.physical + (at - now.offset);
}

/** Ranges as extents, aligned to blocks, joined where they touch. What is zeros and not aligned is read like data. */
class Joined {
  readonly #size: number;
  #open: Range | null = null;

  constructor(size: number) {
    this.#size = size;
  }

  /** What is complete with these. */
  with(ranges: readonly Range[]): Extent[] {
    const complete: Extent[] = [];
    for (const range of ranges) {
      const next = this.#aligned(range);
      const open = this.#open;
      if (open && open.zero === next.zero && next.offset <= open.end) {
        open.end = Math.max(open.end, next.end);
        continue;
      }
      if (open) complete.push(extentOf(open));
      this.#open = next;
    }
    return complete;
  }

  rest(): Extent[] {
    return this.#open ? [extentOf(this.#open)] : [];
  }

  #aligned({ offset, end, zero }: Range): Range {
    const begin = Math.floor(offset / BLOCK) * BLOCK;
    const stop = Math.min(Math.ceil(end / BLOCK) * BLOCK, this.#size);
    return { offset: begin, end: stop, zero: zero && begin === offset && stop === end };
  }
}

const extentOf = ({ offset, end, zero }: Range): Extent => ({
  offset: BigInt(offset),
  length: BigInt(end - offset),
  kind: zero ? 'ZERO' : 'DATA',
});
