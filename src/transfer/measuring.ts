// How fast this node hashes, and how fast bytes come from another node's agent by the same listener and the same TLS that volumes come by. No
// volume is read: the source sends the same megabyte of noise again and again. Knows no records.
import { randomBytes } from 'node:crypto';
import type { Clock } from '../model/clock.ts';
import { FRAME } from './frame.ts';
import { hashing } from './hashing.ts';
import { LEAF } from './leaves.ts';
import { SourceLink, type DialOptions } from './source-link.ts';
import type { Hello } from './transfer.ts';

/** Asked for and not yet here, as a round has it. */
const WINDOW = 16;
const NONE = '00000000-0000-4000-8000-000000000000';

/** For nothing of any volume. */
const MEASURE: Hello = { protocol: 1, purpose: 'measure', move: 'none', moveUid: NONE, volumeUid: NONE, copy: 'none', epoch: 0 };

let kept: Buffer | null = null;
/** What is sent: it can be neither packed nor guessed. */
export const noise = (): Buffer => (kept ??= randomBytes(LEAF));

/** Payload bytes a second. Throws what dialling throws, and what the source refuses with. */
export async function measureWire(options: Omit<DialOptions, 'hello' | 'limit'>, ms: number): Promise<number> {
  const link = await SourceLink.dial({ ...options, hello: MEASURE, limit: () => null });
  try {
    const { clock } = options;
    const began = clock.monotonic();
    let bytes = 0;
    const lane = async (): Promise<void> => {
      while (clock.monotonic() - began < ms) bytes += (await link.ask(FRAME.MEASURE, Buffer.alloc(0))).length;
    };
    await Promise.all(Array.from({ length: WINDOW }, lane));
    return rate(bytes, clock.monotonic() - began);
  } finally {
    await link.close();
  }
}

/** Bytes a second on one processor, hashed as they are in a round. */
export async function measureHash(clock: Clock, ms: number): Promise<number> {
  const bytes = noise();
  const began = clock.monotonic();
  let hashed = 0;
  while (clock.monotonic() - began < ms) {
    hashing.digest(bytes);
    hashed += bytes.length;
    // Others have their turn.
    if (hashed % (16 * LEAF) === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  return rate(hashed, clock.monotonic() - began);
}

const rate = (bytes: number, ms: number): number => Math.round((bytes * 1000) / Math.max(1, ms));
