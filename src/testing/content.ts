// Bytes that follow from a seed, written to and read from the paths where volumes are published. Only *.test.ts import it.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { pseudoRandom } from './transfer-rig.ts';

const MIB = 1 << 20;

/** Writes over what is there, or makes the file; on the disk when it returns. */
export async function write(path: string, range: { offset?: number; length: number; seed: number }): Promise<void> {
  await using file = await open(path, 'r+').catch(() => open(path, 'w'));
  const { offset = 0, length, seed } = range;
  for (let at = 0; at < length; at += MIB) {
    const piece = Buffer.alloc(Math.min(MIB, length - at));
    pseudoRandom(piece, seed + at);
    await file.write(piece, 0, piece.length, offset + at);
  }
  await file.sync();
}

export async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of createReadStream(path)) hash.update(piece as Buffer);
  return hash.digest('hex');
}
