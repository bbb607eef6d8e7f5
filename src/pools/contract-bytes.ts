// Bytes for the contract suite: patterns that tell where they were written, and whole copies read.
import { alignedBuffer } from '../host/aligned.ts';
import type { Pool } from './pool.ts';

/** Every 8 bytes differ within a buffer, and between seeds; never zeros. */
export function written(length: number, seed: number): Buffer {
  const buffer = alignedBuffer(length);
  for (let at = 0; at + 8 <= length; at += 8) {
    buffer.writeUInt32LE(seed + 1, at);
    buffer.writeUInt32LE(at, at + 4);
  }
  return buffer;
}

/** All bytes of a copy or point, read a MiB at a time. */
export async function readAll(pool: Pool, name: string, point: string): Promise<Buffer> {
  const blocks = await pool.open(name, point, 'read');
  const all = alignedBuffer(Number(blocks.size));
  try {
    for (let at = 0; at < all.length; at += 1 << 20) await blocks.read(all.subarray(at, Math.min(all.length, at + (1 << 20))), BigInt(at));
  } finally {
    await blocks.close();
  }
  return all;
}
