// Reading a copy or a point leaf by leaf, a few at a time, into buffers that direct IO accepts. Knows no wire.
import { alignedBuffer, giveBack, PAGE } from '../host/aligned.ts';
import type { BlockHandle } from '../pools/pool.ts';
import { HASH, hashing } from './hashing.ts';
import { LEAF, leafLength } from './leaves.ts';

/** Reads under way at once: enough to keep a disk busy while the hash is computed. */
const DEPTH = 4;

export interface Block {
  offset: number;
  length: number;
}

/** Reads every block and hands it on, in no order; the bytes are valid during the call only. Ends at the first error, when nothing is under way any more. */
export async function readEach<B extends Block>(
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
        await handle.read(bytes, BigInt(next.value.offset));
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
