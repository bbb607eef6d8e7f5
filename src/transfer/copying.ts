// The target's pipeline: asks for blocks up to a window, checks each hash before a byte is written, writes behind, and lets the journal
// follow the device's sync. It never has more than 64 MiB that a crash would send again. What was synced
// is read back whenever the disk has nothing to write. Knows no rounds.
import type { Clock } from '../model/clock.ts';
import type { CrashPoint } from '../model/crash.ts';
import { FlockError } from '../model/errors.ts';
import type { BlockHandle } from '../pools/pool.ts';
import type { BlockPlan } from './block-plan.ts';
import { Buffers } from './buffers.ts';
import { inLanes, readPieces, writePieces } from './disk.ts';
import { FRAME, type Header } from './frame.ts';
import { HASH, hashing } from './hashing.ts';
import type { Journal } from './journal.ts';
import type { Proven } from './journal-records.ts';
import { LEAF, zeroHash } from './leaves.ts';
import type { Meter } from './meter.ts';
import type { FrameSink } from './parser.ts';
import { rawBytes } from './payload.ts';
import type { SourceLink } from './source-link.ts';
import type { Span } from './spans.ts';

/** Asked for and not yet here. */
const WINDOW = 16 * LEAF;
const WINDOW_BLOCKS = 256;
/** Asked for and not yet proven by the journal. */
const AT_RISK = 64 * LEAF;
const SYNC_BYTES = 24 * LEAF;
const SYNC_EVERY = 1000;
/** How often one block is asked for again because its bytes did not match their hash. */
const TRIES = 3;

export interface CopyingParts {
  link: SourceLink;
  handle: BlockHandle;
  plan: BlockPlan;
  /** null: nothing is recorded, the caller proves what is copied by reading it back. */
  journal: Journal | null;
  meter: Meter;
  /** Where a block is all zeros the target may hold something else. */
  explicitZeros: boolean;
  /** What lies between two near pieces is zeros and has its blocks: it may be written with them. */
  fillGaps: boolean;
  clock: Clock;
  crash: CrashPoint;
}

interface UnderWay {
  block: number;
  buffer: Buffer;
}

/** Copies what the plan has and is not done; resolves when all of it is on the disk. Whatever was written before an error is recorded. */
export async function copyBlocks(parts: CopyingParts): Promise<void> {
  const copying = new Copying(parts);
  await copying.run();
}

class Copying implements FrameSink {
  readonly #parts: CopyingParts;
  readonly #buffers = new Buffers();
  readonly #underWay = new Map<number, UnderWay>();
  #windowBytes = 0;
  #atRisk = 0;
  #next = 0;
  readonly #again: number[] = [];
  readonly #tries = new Map<number, number>();
  readonly #writing = new Set<Promise<void>>();
  /** Written, not yet synced and recorded. */
  #written: number[] = [];
  #writtenBytes = 0;
  #syncing: Promise<void> | null = null;
  /** On the disk and not read back. */
  readonly #unproven: number[] = [];
  #provingOne: Promise<void> | null = null;
  #syncedAt: number;
  readonly #outcome = Promise.withResolvers<void>();
  #over = false;

  constructor(parts: CopyingParts) {
    this.#parts = parts;
    this.#syncedAt = parts.clock.monotonic();
    // The connection may end before anybody waits for the outcome: a failure that nobody has heard of yet ends no process.
    this.#outcome.promise.catch(() => undefined);
  }

  async run(): Promise<void> {
    const { link } = this.#parts;
    const stop = (): void => this.#fail(link.ended.reason);
    link.ended.addEventListener('abort', stop, { once: true });
    link.blocks = this;
    try {
      await this.#zeroExtents();
      if (link.ended.aborted) stop();
      this.#advance();
      await this.#outcome.promise;
    } finally {
      this.#over = true;
      link.ended.removeEventListener('abort', stop);
      link.blocks = null;
      // The handle is the caller's to close: nothing may be writing then.
      await Promise.allSettled([...this.#writing, this.#syncing, this.#provingOne]);
      this.#buffers.close();
    }
  }

  place(of: Header): Buffer {
    const asked = this.#underWay.get(of.req);
    const { plan } = this.#parts;
    if (!asked || plan.offset(asked.block) !== of.offset || plan.length(asked.block) !== of.rawLen)
      throw new FlockError('Corrupt', `the source sent ${of.rawLen} bytes at ${of.offset}, which nobody asked for`);
    return asked.buffer.subarray(0, of.wireLen);
  }

  frame(of: Header): void {
    const { meter } = this.#parts;
    const asked = this.#underWay.get(of.req) as UnderWay;
    this.#underWay.delete(of.req);
    this.#windowBytes -= of.rawLen;
    meter.frames += 1;
    meter.sent += of.wireLen;
    const bytes = rawBytes(of, asked.buffer);
    const hash = of.type === FRAME.ZERO ? zeroHash(of.rawLen) : hashing.digest(bytes);
    if (hash.equals(of.hash)) this.#store(asked, bytes, hash);
    else this.#askAgain(asked, of);
    this.#advance();
  }

  /** What the manifest says is zeros is not asked for. */
  async #zeroExtents(): Promise<void> {
    const { plan, handle, explicitZeros, link } = this.#parts;
    if (!explicitZeros) return;
    for (const { offset, length } of plan.zeros) {
      if (link.ended.aborted) return;
      await handle.zero(BigInt(offset), BigInt(length));
    }
    if (plan.zeros.length > 0) await handle.sync();
  }

  #askAgain({ block, buffer }: UnderWay, of: Header): void {
    this.#buffers.give(buffer);
    this.#atRisk -= of.rawLen;
    const tries = (this.#tries.get(block) ?? 0) + 1;
    this.#tries.set(block, tries);
    if (tries < TRIES) this.#again.push(block);
    else
      this.#fail(
        new FlockError('Corrupt', `${of.rawLen} bytes at ${of.offset} came ${tries} times with bytes that do not match their hash`),
      );
  }

  #store({ block, buffer }: UnderWay, payload: Buffer, hash: Buffer): void {
    const writing: Promise<void> = this.#write(block, payload)
      .then(() => this.#stored(block, hash))
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        this.#writing.delete(writing);
        this.#buffers.give(buffer);
        this.#advance();
      });
    this.#writing.add(writing);
  }

  async #write(block: number, bytes: Buffer): Promise<void> {
    const { plan, handle, explicitZeros, fillGaps } = this.#parts;
    const pieces = plan.pieces(block);
    if (bytes.length > 0) await writePieces(handle, pieces, bytes, fillGaps);
    else if (explicitZeros) await inLanes(pieces, ({ offset, length }) => handle.zero(BigInt(offset), BigInt(length)));
  }

  #stored(block: number, hash: Buffer): void {
    const { plan, meter, crash } = this.#parts;
    plan.setDone(block, hash);
    this.#written.push(block);
    this.#writtenBytes += plan.length(block);
    meter.done += plan.length(block);
    meter.tell();
    crash('transfer.block.written');
  }

  /** Everything that may go on now does. Called after whatever happened. */
  #advance(): void {
    if (this.#over) return;
    this.#request();
    this.#readBack();
    const late = this.#written.length > 0 && this.#parts.clock.monotonic() - this.#syncedAt >= SYNC_EVERY;
    const all = this.#allWritten();
    if (this.#syncing) return;
    if (all && this.#written.length === 0) this.#outcome.resolve();
    else if (all || late || this.#writtenBytes >= SYNC_BYTES) this.#sync();
  }

  #allWritten(): boolean {
    return this.#again.length === 0 && this.#underWay.size === 0 && this.#writing.size === 0 && this.#nextBlock() === null;
  }

  #request(): void {
    const { plan, link } = this.#parts;
    const asked: { req: number; length: number; pieces: Span[] }[] = [];
    for (let block = this.#nextBlock(); block !== null; block = this.#nextBlock()) {
      const length = plan.length(block);
      if (!this.#fits(length)) break;
      const buffer = this.#buffers.take(length);
      if (!buffer) break;
      if (this.#again.length > 0) this.#again.shift();
      else this.#next += 1;
      this.#underWay.set(block, { block, buffer });
      this.#windowBytes += length;
      this.#atRisk += length;
      asked.push({ req: block, length, pieces: plan.pieces(block) });
    }
    if (asked.length > 0) link.request(asked);
  }

  #fits(length: number): boolean {
    return this.#windowBytes + length <= WINDOW && this.#underWay.size < WINDOW_BLOCKS && this.#atRisk + length <= AT_RISK;
  }

  #nextBlock(): number | null {
    const { plan } = this.#parts;
    const [again] = this.#again;
    if (again !== undefined) return again;
    while (this.#next < plan.count && plan.isDone(this.#next)) this.#next += 1;
    return this.#next < plan.count ? this.#next : null;
  }

  #sync(): void {
    const blocks = this.#written;
    const bytes = this.#writtenBytes;
    this.#written = [];
    this.#writtenBytes = 0;
    this.#syncing = this.#record(blocks)
      .then(
        () => {
          this.#atRisk -= bytes;
          this.#unproven.push(...blocks);
        },
        (error: unknown) => this.#fail(error),
      )
      .finally(() => {
        this.#syncing = null;
        this.#syncedAt = this.#parts.clock.monotonic();
        this.#advance();
      });
  }

  async #record(blocks: number[]): Promise<void> {
    const { handle, journal, plan, meter, crash } = this.#parts;
    await handle.sync();
    crash('transfer.device.synced');
    if (!journal) return;
    await journal.progress(rangesOf(blocks, plan), meter.takeUnrecorded());
    crash('transfer.progress.recorded');
  }

  /**
   * One block, when the disk has nothing better to do: a wire slower than the disk makes this free, and on a busy disk it would only take
   * its turn from the writes. What is left, or does not match, is found out after the copying.
   */
  #readBack(): void {
    if (this.#provingOne || this.#writing.size > 0 || this.#underWay.size === 0) return;
    const block = this.#unproven.shift();
    const buffer = block === undefined ? null : this.#buffers.take(LEAF);
    if (block === undefined || !buffer) return;
    this.#provingOne = this.#prove(block, buffer)
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        this.#provingOne = null;
        this.#buffers.give(buffer);
        this.#advance();
      });
  }

  async #prove(block: number, buffer: Buffer): Promise<void> {
    const { plan, handle } = this.#parts;
    const bytes = buffer.subarray(0, plan.length(block));
    await readPieces(handle, plan.pieces(block), bytes);
    if (hashing.digest(bytes).equals(plan.hash(block))) plan.setProven(block);
  }

  /** The first failure stands. What was written before the connection broke is recorded: it need not come again. */
  #fail(error: unknown): void {
    if (this.#over) return;
    this.#over = true;
    const { link } = this.#parts;
    const broken = link.ended.aborted;
    link.end(error);
    const settle = async (): Promise<void> => {
      await Promise.allSettled([...this.#writing, this.#syncing]);
      if (broken && this.#written.length > 0) await this.#record(this.#written);
    };
    settle().then(
      () => this.#outcome.reject(error),
      () => this.#outcome.reject(error),
    );
  }
}

function rangesOf(blocks: number[], plan: BlockPlan): Proven[] {
  const ranges: Proven[] = [];
  for (const block of blocks.sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last && last.first + last.count === block) last.count += 1;
    else ranges.push({ first: block, count: 1, hashes: Buffer.alloc(0) });
  }
  return ranges.map(({ first, count }) => {
    const hashes = Buffer.alloc(count * HASH);
    for (let index = 0; index < count; index += 1) plan.hash(first + index).copy(hashes, index * HASH);
    return { first, count, hashes };
  });
}
