// Reading a copy or a point leaf by leaf, a few at a time, into buffers that direct IO accepts. Knows no wire.
import { alignedBuffer, giveBack, PAGE } from '../host/aligned.ts';
import type { BlockHandle } from '../pools/pool.ts';
import { HASH, hashing } from './hashing.ts';
import { LEAF, leafLength } from './leaves.ts';

/** Reads under way at once: enough to keep a disk busy while the hash is computed. */
const DEPTH = 4;

/** What lies between two pieces is read with them up to this: a request more would cost as much. Bytes. */
const GAP = 32 * 1024;

export interface Block {
  offset: number;
  length: number;
}

export interface Pieced extends Block {
  /** None: the block is one piece. */
  pieces?: readonly Block[];
}

/** Reads every block and hands it on, in no order; the bytes are valid during the call only. Ends at the first error, when nothing is under way any more. */
export async function readEach<B extends Pieced>(
  handle: BlockHandle,
  blocks: Iterable<B>,
  take: (block: B, bytes: Buffer) => void,
  stop?: AbortSignal,
): Promise<void> {
  const rest = blocks[Symbol.iterator]();
  let failed = false;
  const lane = async (): Promise<void> => {
    const buffer = alignedBuffer(LEAF);
    try {
      for (let next = rest.next(); !next.done && !failed; next = rest.next()) {
        stop?.throwIfAborted();
        const bytes = buffer.subarray(0, next.value.length);
        await readPieces(handle, next.value.pieces ?? [next.value], bytes);
        take(next.value, bytes);
      }
    } catch (error) {
      failed = true;
      throw error;
    } finally {
      giveBack(buffer);
    }
  };
  const outcomes = await Promise.allSettled(Array.from({ length: DEPTH }, lane));
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
}

/** Neighbours in one stretch of at most a leaf, with at most `gap` bytes between them, and where the stretch begins in the joined bytes of all. */
function* stretches(pieces: readonly Block[], gap: number): Generator<{ pieces: Block[]; span: Block; at: number }> {
  let at = 0;
  let open: { pieces: Block[]; span: Block; at: number } | null = null;
  for (const piece of pieces) {
    const end: number = open ? open.span.offset + open.span.length : 0;
    const length: number = open ? piece.offset + piece.length - open.span.offset : 0;
    if (open && piece.offset - end <= gap && length <= LEAF) {
      open.pieces.push(piece);
      open.span.length = length;
    } else {
      if (open) yield open;
      open = { pieces: [piece], span: { offset: piece.offset, length: piece.length }, at };
    }
    at += piece.length;
  }
  if (open) yield open;
}

/** Fills `into` with the bytes of these pieces, one after the other. */
export async function readPieces(handle: BlockHandle, pieces: readonly Block[], into: Buffer): Promise<void> {
  const [only] = pieces;
  if (pieces.length === 1 && only) return handle.read(into, BigInt(only.offset));
  await inLanes(stretches(pieces, GAP), async ({ pieces: near, span, at }) => {
    const bytes = near.reduce((total, { length }) => total + length, 0);
    if (bytes === span.length) return handle.read(into.subarray(at, at + bytes), BigInt(span.offset));
    const whole = alignedBuffer(LEAF);
    try {
      await handle.read(whole.subarray(0, span.length), BigInt(span.offset));
      let to = at;
      for (const { offset, length } of near) to += whole.copy(into, to, offset - span.offset, offset - span.offset + length);
    } finally {
      giveBack(whole);
    }
  });
}

/** Writes the bytes of these pieces, given one after the other. `fillGaps`: zeros may be written over what lies between near ones. */
export async function writePieces(handle: BlockHandle, pieces: readonly Block[], bytes: Buffer, fillGaps: boolean): Promise<void> {
  const [only] = pieces;
  if (pieces.length === 1 && only) return handle.write(bytes, BigInt(only.offset));
  await inLanes(stretches(pieces, fillGaps ? GAP : 0), async ({ pieces: near, span, at }) => {
    if (near.length === 1) return handle.write(bytes.subarray(at, at + span.length), BigInt(span.offset));
    const whole = alignedBuffer(LEAF);
    try {
      whole.fill(0, 0, span.length);
      let from = at;
      for (const { offset, length } of near) from += bytes.copy(whole, offset - span.offset, from, from + length);
      await handle.write(whole.subarray(0, span.length), BigInt(span.offset));
    } finally {
      giveBack(whole);
    }
  });
}

/** A few at a time; ends at the first error, when nothing is under way any more. */
export async function inLanes<T>(items: Iterable<T>, act: (item: T) => Promise<void>): Promise<void> {
  const rest = items[Symbol.iterator]();
  let failed = false;
  const lane = async (): Promise<void> => {
    try {
      for (let next = rest.next(); !next.done && !failed; next = rest.next()) await act(next.value);
    } catch (error) {
      failed = true;
      throw error;
    }
  };
  const outcomes = await Promise.allSettled(Array.from({ length: DEPTH }, lane));
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
}

/** The hashes of these leaves, 32 bytes each, in their order. */
export async function hashLeaves(handle: BlockHandle, leaves: readonly number[], deviceBytes: number, stop?: AbortSignal): Promise<Buffer> {
  const hashes = Buffer.alloc(leaves.length * HASH);
  const blocks = leaves.map((leaf, index) => ({ offset: leaf * LEAF, length: leafLength(leaf, deviceBytes), index }));
  await readEach(handle, blocks, ({ index }, bytes) => void hashing.digest(bytes).copy(hashes, index * HASH), stop);
  return hashes;
}

/** Closes it whatever happens inside. */
export async function using<T>(handle: BlockHandle, act: (handle: BlockHandle) => Promise<T>): Promise<T> {
  try {
    return await act(handle);
  } finally {
    await handle.close();
  }
}

/** Room for a header right before a block that begins at a page, so that both leave in one write. */
export const HEADROOM = PAGE;
