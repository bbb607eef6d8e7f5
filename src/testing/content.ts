// Bytes that follow from a seed, written to and read from the paths where volumes are published. Only *.test.ts import it.
import { createCipheriv, createHash } from 'node:crypto';
import { open } from 'node:fs/promises';

const MIB = 1 << 20;

/** A cipher's stream: as good as random, and faster than any disk. */
const streamOf = (seed: number): { next: (length: number) => Buffer } => {
  const cipher = createCipheriv('aes-128-ctr', Buffer.alloc(16, seed), Buffer.alloc(16));
  return { next: (length) => cipher.update(Buffer.alloc(length)) };
};

/** Writes over what is there, or makes the file; on the disk when it returns. */
export async function write(path: string, range: { offset?: number; length: number; seed: number }): Promise<void> {
  await using file = await open(path, 'r+').catch(() => open(path, 'w'));
  const { offset = 0, length, seed } = range;
  const stream = streamOf(seed);
  for (let at = 0; at < length; at += MIB) {
    const piece = stream.next(Math.min(MIB, length - at));
    await file.write(piece, 0, piece.length, offset + at);
  }
  await file.sync();
}

/** Nothing has the file open when it returns: it may lie on what is unmounted next. */
export async function hashOf(path: string): Promise<string> {
  await using file = await open(path, 'r');
  const hash = createHash('sha256');
  const piece = Buffer.alloc(MIB);
  for (;;) {
    const { bytesRead } = await file.read(piece, 0, piece.length, null);
    if (bytesRead === 0) return hash.digest('hex');
    hash.update(piece.subarray(0, bytesRead));
  }
}
