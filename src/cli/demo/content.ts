// Random bytes that were written before the move, and their hash: what does not change must arrive as it was. Knows no volumes.
import { createHash, randomFillSync, type Hash } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';

const CHUNK = 4 * 1024 * 1024;

export interface Stretch {
  file: string;
  offset: number;
  length: number;
}

/** Writes them one after the other, on the disk when it returns; the hash of all. */
export async function writeStretches(stretches: readonly Stretch[], tell: (written: number) => void, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  const chunk = Buffer.alloc(CHUNK);
  let written = 0;
  for (const stretch of stretches) {
    // What is there is written over, never cut off: it may be a raw volume.
    await using file = await open(stretch.file, constants.O_RDWR | constants.O_CREAT);
    for (let done = 0; done < stretch.length; done += CHUNK) {
      signal.throwIfAborted();
      hash.update(randomFillSync(chunk));
      await file.write(chunk, 0, CHUNK, stretch.offset + done);
      written += CHUNK;
      tell(written);
    }
    await file.sync();
  }
  return hash.digest('hex');
}

export async function hashStretches(stretches: readonly Stretch[], signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  for (const stretch of stretches) await hashInto(hash, stretch, signal);
  return hash.digest('hex');
}

async function hashInto(hash: Hash, { file, offset, length }: Stretch, signal: AbortSignal): Promise<void> {
  await using opened = await open(file, 'r');
  const chunk = Buffer.alloc(CHUNK);
  for (let done = 0; done < length; done += CHUNK) {
    signal.throwIfAborted();
    const { bytesRead } = await opened.read(chunk, 0, Math.min(CHUNK, length - done), offset + done);
    if (bytesRead === 0) return;
    hash.update(chunk.subarray(0, bytesRead));
  }
}
