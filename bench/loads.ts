// The contents that are moved: dense, like a database's, nearly empty, full of holes. Made from a seed, written by direct IO into a copy
// of a pool. Knows no transfers.
import { createCipheriv, randomInt } from 'node:crypto';
import { alignedBuffer } from '../src/host/aligned.ts';
import type { BlockHandle, Pool } from '../src/pools/pool.ts';

const MIB = 1024 * 1024;
const PAGE = 8192;
const LANES = 8;

export interface Load {
  /** Also the copy's id. */
  name: string;
  /** Bytes of the volume. */
  size: number;
  /** Bytes in it that are not zero. */
  data: number;
  fill(handle: BlockHandle): Promise<void>;
}

/** Bytes that no program can compress: a key stream. */
function randomBytes(): (into: Buffer) => void {
  const cipher = createCipheriv('aes-128-ctr', Buffer.alloc(16, 1), Buffer.alloc(16));
  const zeros = Buffer.alloc(4 * MIB);
  return (into) => void cipher.update(zeros.subarray(0, into.length)).copy(into);
}

export const denseLoad = (size: number): Load => ({
  name: 'dense',
  size,
  data: size,
  fill: (handle) => stream(handle, { from: 0, to: size }, randomBytes()),
});

/** Pages of 8 KiB: a header, rows that resemble each other, free space; every eighth page was never used. */
export function databaseLoad(size: number): Load {
  const random = randomBytes();
  const salt = Buffer.alloc(MIB);
  const page = (into: Buffer, at: number): void => {
    into.fill(0);
    if ((at / PAGE) % 8 === 7) return;
    salt.copy(into, 0, at % MIB, (at % MIB) + 24);
    for (let row = 24; row < 6400; row += 128) {
      into.write(`customer-${at + row};street 1, some town;active;2026-01-`, row, 'latin1');
      salt.copy(into, row + 64, (at + row) % (MIB - 128), ((at + row) % (MIB - 128)) + 24);
    }
  };
  const fill = (into: Buffer, at: number): void => {
    random(salt);
    for (let offset = 0; offset < into.length; offset += PAGE) page(into.subarray(offset, offset + PAGE), at + offset);
  };
  return { name: 'database', size, data: (size / 8) * 7, fill: (handle) => stream(handle, { from: 0, to: size }, fill) };
}

/** 10 GiB with 5 MiB of data, one at each tenth. */
export function sparseLoad(): Load {
  const size = 10 * 1024 * MIB;
  const fill = async (handle: BlockHandle): Promise<void> => {
    const random = randomBytes();
    for (let at = 0; at < 5; at += 1) await stream(handle, { from: at * 2048 * MIB, to: at * 2048 * MIB + MIB }, random);
  };
  return { name: 'sparse', size, data: 5 * MIB, fill };
}

/** 4 KiB of data, 4 KiB of nothing, and so on. */
export function holesLoad(size: number): Load {
  const fill = (handle: BlockHandle): Promise<void> => {
    const offsets = Array.from({ length: size / 8192 }, (_, index) => index * 8192);
    return scatter(handle, offsets);
  };
  return { name: 'holes', size, data: size / 2, fill };
}

async function stream(
  handle: BlockHandle,
  { from, to }: { from: number; to: number },
  fill: (into: Buffer, at: number) => void,
): Promise<void> {
  const buffer = alignedBuffer(4 * MIB);
  for (let at = from; at < to; at += buffer.length) {
    const piece = buffer.subarray(0, Math.min(buffer.length, to - at));
    fill(piece, at);
    await handle.write(piece, BigInt(at));
  }
  await handle.sync();
}

/** 4096 random bytes at each of these offsets. */
async function scatter(handle: BlockHandle, offsets: readonly number[]): Promise<void> {
  const random = randomBytes();
  const rest = offsets[Symbol.iterator]();
  const lane = async (): Promise<void> => {
    const block = alignedBuffer(4096);
    for (let next = rest.next(); !next.done; next = rest.next()) {
      random(block);
      await handle.write(block, BigInt(next.value));
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  await handle.sync();
}

/** Writes `count` random blocks of 4096 bytes of a volume anew. */
export async function overwriteRandomly(pool: Pool, copy: string, count: number): Promise<void> {
  const handle = await pool.open(copy, 'live', 'write');
  try {
    const blocks = Number(handle.size) / 4096;
    const chosen = new Set<number>();
    while (chosen.size < count) chosen.add(randomInt(blocks));
    await scatter(
      handle,
      [...chosen].map((block) => block * 4096),
    );
  } finally {
    await handle.close();
  }
}
