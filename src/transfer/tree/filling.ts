// Writes the content of one file at the target: leaves in order, what is zeros left as a hole. Small files are written at once, large ones by
// Node's threads, a MiB at a time.
import { closeSync, ftruncateSync, write as writeCallback, writeSync } from 'node:fs';
import { promisify } from 'node:util';
import { FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, fallocate } from '../../host/syscalls.ts';
import { FlockError } from '../../model/errors.ts';
import { Hashed, isZero, SMALL } from './content.ts';
import { leafOf } from './sums.ts';

const writeSome = promisify(writeCallback);
const BLOCK = 4096;
const PIECE = 1024 * 1024;

/** A file whose whole content comes in order. It is empty at first. */
export class Filling {
  readonly fd: number;
  readonly #size: number;
  readonly #leaf: number;
  readonly #hashed: Hashed;
  /** Where what was written ends: so long the file is. */
  #end = 0;
  #pending: Buffer[] = [];
  #from = 0;
  #length = 0;

  constructor(fd: number, size: number) {
    this.fd = fd;
    this.#size = size;
    this.#leaf = leafOf(size);
    this.#hashed = new Hashed(size, this.#leaf);
  }

  /** Throws Corrupt for what is no leaf of the file. `bytes` is kept until it is written. */
  async leaf(offset: number, bytes: Buffer): Promise<void> {
    if (offset % this.#leaf !== 0 || bytes.length !== Math.min(this.#leaf, this.#size - offset))
      throw new FlockError('Corrupt', `${bytes.length} bytes at ${offset} are no leaf of a file of ${this.#size}`);
    this.#hashed.take({ offset, bytes });
    if (this.#size <= SMALL) return this.#writeSmall(bytes, offset);
    if (this.#from + this.#length !== offset || this.#length >= PIECE) await this.#flush();
    if (this.#length === 0) this.#from = offset;
    this.#pending.push(bytes);
    this.#length += bytes.length;
  }

  /** All is written, the file is as long as it is to be; the hashes of what came. */
  async end(): Promise<Buffer> {
    await this.#flush();
    // Only where it ends with zeros: xfs writes out and waits for all that is new when a file that grew gets a size.
    if (this.#end !== this.#size) ftruncateSync(this.fd, this.#size);
    return this.#hashed.end();
  }

  close(): void {
    closeSync(this.fd);
  }

  #writeSmall(bytes: Buffer, offset: number): void {
    for (const { from, to } of dataRuns(bytes)) {
      for (let at = from; at < to;) at += writeSync(this.fd, bytes, at, to - at, offset + at);
      this.#end = offset + to;
    }
  }

  async #flush(): Promise<void> {
    const bytes = this.#pending.length === 1 ? this.#pending[0] : Buffer.concat(this.#pending);
    const from = this.#from;
    this.#pending = [];
    this.#length = 0;
    if (bytes && bytes.length > 0)
      for (const run of dataRuns(bytes)) {
        await writeAll(this.fd, bytes.subarray(run.from, run.to), from + run.from);
        this.#end = from + run.to;
      }
  }
}

export async function writeAll(fd: number, bytes: Buffer, offset: number): Promise<void> {
  for (let done = 0; done < bytes.length;) done += (await writeSome(fd, bytes, done, bytes.length - done, offset + done)).bytesWritten;
}

/** Blocks that are not zeros, joined where they touch. */
function* dataRuns(bytes: Buffer): Generator<{ from: number; to: number }> {
  let from = -1;
  for (let at = 0; at < bytes.length; at += BLOCK) {
    const zero = isZero(bytes.subarray(at, Math.min(at + BLOCK, bytes.length)));
    if (!zero && from < 0) from = at;
    if (zero && from >= 0) {
      yield { from, to: at };
      from = -1;
    }
  }
  if (from >= 0) yield { from, to: bytes.length };
}

/** These bytes of a file that has content read as zeros, and take no room. */
export const punch = (fd: number, range: { offset: number; length: number }): Promise<void> =>
  fallocate(fd, FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE, { offset: BigInt(range.offset), length: BigInt(range.length) });
