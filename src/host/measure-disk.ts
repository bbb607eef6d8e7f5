// How fast the disk below a folder is: writes and reads by direct IO in a file that has no name, so that nothing is left whatever happens.
// Knows no pools.
import { constants } from 'node:fs';
import { open, statfs, type FileHandle } from 'node:fs/promises';
import { randomFillSync } from 'node:crypto';
import type { Clock } from '../model/clock.ts';
import { FlockError } from '../model/errors.ts';
import { alignedBuffer, giveBack } from './aligned.ts';
import { readWhole, writeWhole } from './direct.ts';
import { isCode } from './files.ts';
import { asFlockError } from './syscalls.ts';

const BLOCK = 1024 * 1024;
/** As many requests at once as a move has. */
const DEPTH = 4;
const LARGEST = 1024 * BLOCK;
/** Of what is free, at most this part is used for the moment that it takes. */
const PART = 8;
/** Not in @types/node; of Linux on all its usual architectures but the oldest. */
const O_TMPFILE = 0o20_000_000 | constants.O_DIRECTORY;

/** Bytes a second. */
export interface DiskSpeed {
  write: number;
  read: number;
}

export interface Measuring {
  clock: Clock;
  /** How long each part may take, ms. */
  ms: number;
  signal: AbortSignal;
}

/** Throws Unsupported where such a file or direct IO cannot be had, NoSpace, and the signal's reason. */
export async function measureDisk(folder: string, measuring: Measuring): Promise<DiskSpeed> {
  const { bavail, bsize } = await statfs(folder);
  const size = Math.min(LARGEST, Math.floor((bavail * bsize) / PART / BLOCK) * BLOCK);
  if (size < DEPTH * BLOCK) throw new FlockError('NoSpace', `${folder} has too little room to be measured`);
  const file = await unnamed(folder);
  try {
    // What was written is read: the second part can take no longer than it has bytes.
    const written = await passed(
      measuring,
      size,
      (buffer, at) => writeWhole(file, buffer, BigInt(at)),
      () => file.datasync(),
    );
    const read = await passed(measuring, written.bytes, (buffer, at) => readWhole(file, buffer, BigInt(at)));
    return { write: written.rate, read: read.rate };
  } finally {
    await file.close();
  }
}

async function unnamed(folder: string): Promise<FileHandle> {
  try {
    return await open(folder, constants.O_RDWR | constants.O_DIRECT | O_TMPFILE, 0o600);
  } catch (error) {
    if (isCode(error, 'EINVAL', 'EOPNOTSUPP', 'EISDIR'))
      throw new FlockError(
        'Unsupported',
        `the file system of ${folder} has no files without a name, or no direct IO: its disk is not measured`,
      );
    throw asFlockError(`opening a file in ${folder}`, error);
  }
}

/** From the beginning on, until it is all or the time is over. */
async function passed(
  { clock, ms, signal }: Measuring,
  size: number,
  act: (buffer: Buffer, at: number) => Promise<void>,
  end: () => Promise<void> = async () => {},
): Promise<{ bytes: number; rate: number }> {
  const began = clock.monotonic();
  let next = 0;
  const lane = async (): Promise<void> => {
    const buffer = randomFillSync(alignedBuffer(BLOCK));
    try {
      while (next < size && clock.monotonic() - began < ms) {
        signal.throwIfAborted();
        const at = next;
        next += BLOCK;
        await act(buffer, at);
      }
    } finally {
      giveBack(buffer);
    }
  };
  const lanes = await Promise.allSettled(Array.from({ length: DEPTH }, lane));
  for (const each of lanes) if (each.status === 'rejected') throw each.reason;
  await end();
  return { bytes: next, rate: Math.round((next * 1000) / Math.max(1, clock.monotonic() - began)) };
}
