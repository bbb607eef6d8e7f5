// Reading a file's content leaf by leaf, holes skipped and not read, and what its leaves hash to. Small files are read at once, large ones
// by Node's threads.
import { read as readCallback, readSync } from 'node:fs';
import { promisify } from 'node:util';
import { seek, SEEK_DATA } from '../../host/syscalls.ts';
import { FlockError } from '../../model/errors.ts';
import { statOf } from '../../host/tree-calls.ts';
import { hashing } from '../hashing.ts';
import { isZero as isZeroLeaf, LEAF } from '../leaves.ts';
import { leafOf, SumsWriter } from './sums.ts';

const readSome = promisify(readCallback);

/** Up to this a file is read without leaving the thread. */
export const SMALL = 64 * 1024;
/** What is read at once of a large one. */
const PIECE = 1024 * 1024;

/** Bytes of a file, in order. Between two pieces there are only zeros. */
export interface Piece {
  offset: number;
  bytes: Buffer;
}

/** What to make of a file that ends before its size: an application may be cutting it, or nobody may. */
export type Short = 'zeros' | 'refuse';

const small = Buffer.alloc(SMALL);

export function isZero(bytes: Buffer): boolean {
  for (let at = 0; at < bytes.length; at += LEAF) if (!isZeroLeaf(bytes.subarray(at, Math.min(at + LEAF, bytes.length)))) return false;
  return true;
}

/** The whole of a small file. Valid until the next is read. Throws Conflict where it ends earlier and may not. */
export function readSmall(fd: number, size: number, short: Short): Buffer {
  let done = 0;
  while (done < size) {
    const got = readSync(fd, small, done, size - done, done);
    if (got === 0) {
      ended(fd, { rest: small.subarray(done, size), offset: done, short });
      break;
    }
    done += got;
  }
  return small.subarray(0, size);
}

/** A read at `offset` brought nothing. Only what the file does not have any more is zeros. */
function ended(fd: number, of: { rest: Buffer; offset: number; short: Short }): void {
  const { rest, offset, short } = of;
  checkLength(fd, offset + rest.length, short);
  const { size } = statOf(fd);
  if (size > offset)
    throw new FlockError(
      'Conflict',
      `reading a file brought nothing at byte ${offset}, although it has ${size}: it is being written, or cannot be read; it is read again`,
    );
  rest.fill(0);
}

function checkLength(fd: number, size: number, short: Short): void {
  if (short === 'refuse' && statOf(fd).size < size)
    throw new FlockError('Conflict', 'a file that nobody may write became shorter while it was read');
}

export function sumsOfSmall(bytes: Buffer): Buffer {
  const sums = new SumsWriter();
  if (bytes.length > 0) {
    if (isZero(bytes)) sums.zeros(1);
    else sums.put(hashing.digest(bytes));
  }
  return sums.bytes();
}

/** By whole leaves, so that each is hashed at once. Throws Conflict where the file ends before `size` and may not. */
export async function* pieces(fd: number, of: { size: number; leaf: number; short: Short }): AsyncGenerator<Piece> {
  const { size, leaf, short } = of;
  const buffer = Buffer.allocUnsafe(Math.max(leaf, PIECE));
  for (let offset = 0; offset < size;) {
    const data = await seek(fd, BigInt(offset), SEEK_DATA);
    offset = data === null ? size : Math.floor(Number(data) / leaf) * leaf;
    // Nothing but a hole is left; or the file has become shorter.
    if (offset >= size) return checkLength(fd, size, short);
    const bytes = await filled(fd, { buffer: buffer.subarray(0, Math.min(buffer.length, size - offset)), offset, short });
    yield { offset, bytes };
    offset += bytes.length;
  }
}

export async function filled(fd: number, into: { buffer: Buffer; offset: number; short: Short }): Promise<Buffer> {
  const { buffer, offset, short } = into;
  let done = 0;
  while (done < buffer.length) {
    const { bytesRead } = await readSome(fd, buffer, done, buffer.length - done, offset + done);
    if (bytesRead === 0) {
      ended(fd, { rest: buffer.subarray(done), offset: offset + done, short });
      break;
    }
    done += bytesRead;
  }
  return buffer;
}

/** Collects the hashes of pieces, and tells what of each is not zeros. */
export class Hashed {
  readonly #leaf: number;
  readonly #size: number;
  readonly #sums = new SumsWriter();
  #next = 0;

  constructor(size: number, leaf = leafOf(size)) {
    this.#size = size;
    this.#leaf = leaf;
  }

  /** Leaf by leaf; of those that are zeros nothing is told. */
  *put({ offset, bytes }: Piece): Generator<Piece> {
    this.#sums.zeros(offset / this.#leaf - this.#next);
    this.#next = offset / this.#leaf;
    for (let at = 0; at < bytes.length; at += this.#leaf) {
      const leaf = bytes.subarray(at, Math.min(at + this.#leaf, bytes.length));
      this.#next += 1;
      if (isZero(leaf)) {
        this.#sums.zeros(1);
        continue;
      }
      this.#sums.put(hashing.digest(leaf));
      yield { offset: offset + at, bytes: leaf };
    }
  }

  take(piece: Piece): void {
    for (const leaf of this.put(piece)) void leaf;
  }

  /** All that came after the last piece are zeros. */
  end(): Buffer {
    this.#sums.zeros(Math.ceil(this.#size / this.#leaf) - this.#next);
    return this.#sums.bytes();
  }
}

/** The hashes of a whole file. */
export async function sumsOf(fd: number, of: { size: number; leaf?: number; short: Short }): Promise<Buffer> {
  const { size, leaf = leafOf(size), short } = of;
  if (size <= SMALL) return sumsOfSmall(readSmall(fd, size, short));
  const hashed = new Hashed(size, leaf);
  for await (const piece of pieces(fd, { size, leaf, short })) hashed.take(piece);
  return hashed.end();
}
