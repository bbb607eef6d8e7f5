// What differs between two files that share blocks: where both lie on the same blocks they are equal, because shared blocks are never
// overwritten. Everything that cannot be proven equal is reported. Streams: a file of a million extents costs no memory.
import type { FileHandle } from 'node:fs/promises';
import { dataRanges, mappedExtents, type Mapped } from '../host/extents.ts';
import { roundUp } from '../model/quantity.ts';
import { UNIT } from './image-room.ts';
import type { Extent } from './pool.ts';

/** Changes closer than this are one extent: reading over a small gap is cheaper than another request. */
const MERGED_GAP = 32n * 1024n;

/** A piece of the file: where it lies, or that it reads as zeros. */
interface Piece {
  offset: bigint;
  end: bigint;
  physical: bigint | null;
  zero: boolean;
}

/** All that may hold something else than zeros. */
export async function* allData(file: FileHandle, size: bigint): AsyncGenerator<Extent> {
  yield* merged(written(file.fd, size), size);
}

/** Like allData, for filesystems whose extents say nothing. */
export async function* allDataSought(file: FileHandle, size: bigint): AsyncGenerator<Extent> {
  yield* merged(sought(file.fd, size), size);
}

/** What `to` has otherwise than `from`; what reads as zeros now and did not is ZERO. */
export async function* difference(
  from: { file: FileHandle; size: bigint },
  to: { file: FileHandle; size: bigint },
): AsyncGenerator<Extent> {
  yield* merged(compared(pieces(from, to.size), pieces(to, to.size)), to.size);
}

async function* written(fd: number, size: bigint): AsyncGenerator<Extent> {
  for await (const { logical: offset, length, unwritten } of mappedExtents(fd, size)) {
    if (!unwritten) yield { offset, length, kind: 'DATA' };
  }
}

async function* sought(fd: number, size: bigint): AsyncGenerator<Extent> {
  for await (const range of dataRanges(fd, size)) yield { ...range, kind: 'DATA' };
}

/** The file from 0 to `until` without gaps; holes, unwritten blocks and what is behind its end read as zeros. */
async function* pieces(of: { file: FileHandle; size: bigint }, until: bigint): AsyncGenerator<Piece> {
  let at = 0n;
  for await (const extent of mappedExtents(of.file.fd, of.size)) {
    if (extent.logical > at) yield { offset: at, end: extent.logical, physical: null, zero: true };
    yield pieceOf(extent);
    at = extent.logical + extent.length;
  }
  if (at < until) yield { offset: at, end: until, physical: null, zero: true };
}

const pieceOf = ({ logical, length, physical, unwritten }: Mapped): Piece => ({
  offset: logical,
  end: logical + length,
  physical: unwritten ? null : physical,
  zero: unwritten,
});

async function* compared(from: AsyncGenerator<Piece>, to: AsyncGenerator<Piece>): AsyncGenerator<Extent> {
  let old = await nextOf(from);
  for await (const now of to) {
    let at = now.offset;
    while (at < now.end) {
      while (old && old.end <= at) old = await nextOf(from);
      const end: bigint = old && old.end < now.end ? old.end : now.end;
      if (!isSame(old, now, at)) yield { offset: at, length: end - at, kind: now.zero ? 'ZERO' : 'DATA' };
      at = end;
    }
  }
  await from.return(undefined);
}

async function nextOf(pieces: AsyncGenerator<Piece>): Promise<Piece | null> {
  const { value, done } = await pieces.next();
  return done ? null : (value as Piece);
}

function isSame(old: Piece | null, now: Piece, at: bigint): boolean {
  if (!old || old.zero || now.zero) return now.zero && (old === null || old.zero);
  if (old.physical === null || now.physical === null) return false;
  return old.physical + (at - old.offset) === now.physical + (at - now.offset);
}

/** Aligned to the unit and merged. A ZERO that is not aligned is read like data; ZEROs are joined only where they touch. */
async function* merged(extents: AsyncIterable<Extent>, size: bigint): AsyncGenerator<Extent> {
  let open = null as Extent | null;
  for await (const raw of extents) {
    const extent = aligned(raw, size);
    const end: bigint = open ? open.offset + open.length : 0n;
    if (open && joins(open, extent, end)) {
      const stop = extent.offset + extent.length;
      open = { ...open, length: (stop > end ? stop : end) - open.offset };
      continue;
    }
    if (open) yield open;
    open = extent;
  }
  if (open) yield open;
}

const joins = (open: Extent, next: Extent, end: bigint): boolean =>
  open.kind === next.kind && next.offset - end <= (open.kind === 'DATA' ? MERGED_GAP : 0n);

function aligned({ offset, length, kind }: Extent, size: bigint): Extent {
  const end = offset + length;
  const begin = offset - (offset % UNIT);
  const up = roundUp(end, UNIT);
  const stop = up > size ? size : up;
  const whole = begin === offset && stop === end;
  return { offset: begin, length: stop - begin, kind: kind === 'ZERO' && whole ? 'ZERO' : 'DATA' };
}
