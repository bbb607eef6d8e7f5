// Positioned IO on one file of an image pool: the bytes of a copy or of a point.
import type { FileHandle } from 'node:fs/promises';
import { alignedBuffer, giveBack } from '../host/aligned.ts';
import { openDirect, readWhole, writeWhole } from '../host/direct.ts';
import type { Lock } from '../host/files.ts';
import { asFlockError, FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO_RANGE, fallocate } from '../host/syscalls.ts';
import { FlockError, Invalid, isReason } from '../model/errors.ts';
import type { BlockHandle } from './pool.ts';

const ZEROS = 4 * 1024 * 1024;

export interface BlockOptions {
  path: string;
  mode: 'read' | 'write';
  /** Zeroed ranges keep their blocks. */
  thick: boolean;
  /** Held while the blocks may be written. */
  lock: Lock | null;
}

export async function openBlocks(options: BlockOptions): Promise<BlockHandle> {
  const { file } = await openDirect(options.path, options.mode);
  const { size } = await file.stat({ bigint: true });
  const { path, mode, thick, lock } = options;
  return new DiskBlocks(file, size, { path, mode, zero: (range) => zeroRange(file, range, thick), closed: async () => lock?.release() });
}

export interface DiskOptions {
  path: string;
  mode: 'read' | 'write';
  /** These bytes read as zeros from now on; not empty. */
  zero: (range: { offset: bigint; length: bigint }) => Promise<void>;
  /** Called once, after the file was closed. */
  closed: () => Promise<void>;
}

/** An opened file or device as blocks. */
export class DiskBlocks implements BlockHandle {
  readonly size: bigint;
  private readonly file: FileHandle;
  private readonly options: DiskOptions;
  private closed = false;

  constructor(file: FileHandle, size: bigint, options: DiskOptions) {
    this.file = file;
    this.size = size;
    this.options = options;
  }

  async read(buffer: Buffer, offset: bigint): Promise<void> {
    this.within(offset, BigInt(buffer.length));
    await this.told('reading', readWhole(this.file, buffer, offset));
  }

  async write(buffer: Buffer, offset: bigint): Promise<void> {
    this.writable();
    this.within(offset, BigInt(buffer.length));
    await this.told('writing', writeWhole(this.file, buffer, offset));
  }

  async zero(offset: bigint, length: bigint): Promise<void> {
    this.writable();
    this.within(offset, length);
    if (length > 0n) await this.told('zeroing', this.options.zero({ offset, length }));
  }

  sync(): Promise<void> {
    return this.told('syncing', this.file.datasync());
  }

  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    await this.file.close();
    await this.options.closed();
  }

  /** What the disk says, with the file's name and a reason. */
  private async told(what: string, work: Promise<void>): Promise<void> {
    try {
      await work;
    } catch (error) {
      throw asFlockError(`${what} ${this.options.path}`, error);
    }
  }

  private writable(): void {
    if (this.options.mode !== 'write') throw new FlockError('NotPermitted', `${this.options.path} was opened for reading only`);
  }

  private within(offset: bigint, length: bigint): void {
    if (offset >= 0n && length >= 0n && offset + length <= this.size) return;
    throw new Invalid(`bytes ${offset} to ${offset + length} are not within ${this.options.path}, which has ${this.size}`);
  }
}

/** The range reads as zeros; a thick file keeps its blocks, a thin one gives them back. */
async function zeroRange(file: FileHandle, range: { offset: bigint; length: bigint }, thick: boolean): Promise<void> {
  try {
    await fallocate(file.fd, FALLOC_KEEP_SIZE | (thick ? FALLOC_ZERO_RANGE : FALLOC_PUNCH_HOLE), range);
  } catch (error) {
    if (!isReason(error, 'Unsupported')) throw error;
    await overwrite(file, range);
  }
}

/** Zeros are written over the range, block by block. */
export async function overwrite(file: FileHandle, range: { offset: bigint; length: bigint }): Promise<void> {
  const zeros = alignedBuffer(ZEROS).fill(0);
  try {
    for (let at = range.offset; at < range.offset + range.length; at += BigInt(ZEROS)) {
      const left = range.offset + range.length - at;
      await writeWhole(file, left < BigInt(ZEROS) ? zeros.subarray(0, Number(left)) : zeros, at);
    }
  } finally {
    giveBack(zeros);
  }
}
