// Whether blocks are compressed on their way: where the wire is slower than one processor compresses, and samples of this volume get smaller by
// it. Measured while it goes on, for each connection. And the codec itself, whose output is bounded whatever the peer says. Knows no sockets.
import { promisify } from 'node:util';
import { constants, zstdCompress, zstdDecompressSync } from 'node:zlib';
import type { Clock } from '../model/clock.ts';
import { FlockError } from '../model/errors.ts';
import { LEAF } from './leaves.ts';

const compressed = promisify(zstdCompress);
const LEVEL = { params: { [constants.ZSTD_c_compressionLevel]: 1 }, chunkSize: LEAF / 4 };
/** Blocks of all connections that are compressed at once: each holds memory of its own in its thread. */
const AT_ONCE = 2;
/** A block needs no larger window; a peer could ask for 128 MiB. */
const WINDOW = { [constants.ZSTD_d_windowLogMax]: Math.log2(LEAF) };

/** Above this no processor compresses as fast as the wire takes it: nothing is even tried. Bytes a second. */
const FAST_WIRE = 600e6;
/** Sent before the wire's rate is believed, bytes. */
const FIRST = 8 * LEAF;
/** Worth it below this part of what it was. */
const WORTH = 0.8;
/** One block of so many is a sample while nothing is compressed: ever fewer while samples do not get smaller. */
const SAMPLE_EVERY = { first: 32, last: 1024 };
/** Weight of what was seen last. */
const LATEST = 0.25;

let busy = 0;
const waiting: (() => void)[] = [];

async function inTurn<T>(act: () => Promise<T>): Promise<T> {
  while (busy >= AT_ONCE) await new Promise<void>((resolve) => waiting.push(resolve));
  busy += 1;
  try {
    return await act();
  } finally {
    busy -= 1;
    waiting.shift()?.();
  }
}

export class Compression {
  readonly #clock: Clock;
  #blocks = 0;
  /** Given to the socket and not taken by it yet. */
  #unsent = 0;
  #unsentSince = 0;
  #sent = 0;
  #sendingMs = 0;
  #sampling = 0;
  #every = SAMPLE_EVERY.first;
  #ratio: number | null = null;
  /** Bytes a second of one thread, with what else the machine does. */
  #speed: number | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A frame of so many bytes goes to the socket; call what is returned when the socket has taken it. */
  sending(bytes: number): () => void {
    if (this.#unsent === 0) this.#unsentSince = this.#clock.monotonic();
    this.#unsent += 1;
    return () => {
      const now = this.#clock.monotonic();
      this.#unsent -= 1;
      this.#sent += bytes;
      this.#sendingMs += now - this.#unsentSince;
      this.#unsentSince = now;
      // What was long ago says little of how the wire is now.
      if (this.#sent > 32 * FIRST) [this.#sent, this.#sendingMs] = [this.#sent / 2, this.#sendingMs / 2];
    };
  }

  /** What the wire takes a second while it has something to take; null: not known yet. */
  get #wire(): number | null {
    return this.#sent < FIRST ? null : (this.#sent * 1000) / Math.max(0.001, this.#sendingMs);
  }

  /** Whether the next block is compressed. */
  get isWorth(): boolean {
    const wire = this.#wire;
    if (wire === null || wire > FAST_WIRE) return false;
    this.#blocks += 1;
    if (this.#ratio !== null && this.#ratio < WORTH && this.#speed !== null && this.#speed > wire) return true;
    return this.#sampling === 0 && (this.#ratio === null || this.#blocks % this.#every === 0);
  }

  /** The bytes compressed into less than `WORTH` of them, or null. */
  async compress(bytes: Buffer): Promise<Buffer | null> {
    this.#sampling += 1;
    try {
      return await inTurn(() => this.#compressed(bytes));
    } finally {
      this.#sampling -= 1;
    }
  }

  async #compressed(bytes: Buffer): Promise<Buffer | null> {
    const began = this.#clock.monotonic();
    const smaller = await compressed(bytes, LEVEL);
    this.saw({ bytes: bytes.length, smaller: smaller.length, ms: this.#clock.monotonic() - began });
    return smaller.length < bytes.length * WORTH ? smaller : null;
  }

  /** What one block became, and in which time. */
  saw({ bytes, smaller, ms }: { bytes: number; smaller: number; ms: number }): void {
    this.#every = smaller < bytes * WORTH ? SAMPLE_EVERY.first : Math.min(SAMPLE_EVERY.last, 2 * this.#every);
    this.#ratio = mixed(this.#ratio, smaller / bytes);
    this.#speed = mixed(this.#speed, (bytes * 1000) / Math.max(0.001, ms));
  }
}

const mixed = (before: number | null, now: number): number => (before === null ? now : before + LATEST * (now - before));

/** Throws Corrupt for what is not compressed, and for what would be more than `most` bytes. */
export function decompressed(bytes: Buffer, most: number): Buffer {
  try {
    return zstdDecompressSync(bytes, { maxOutputLength: most, params: WINDOW });
  } catch (cause) {
    throw new FlockError('Corrupt', `${bytes.length} bytes are not compressed bytes of at most ${most}`, { cause });
  }
}
