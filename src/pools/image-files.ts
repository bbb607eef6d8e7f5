// Making, shrinking and wiping the files of an image pool. A new file never shows old bytes: what is allocated and unwritten reads as zeros.
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { dataRanges } from '../host/extents.ts';
import { asFlockError, FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, fallocate } from '../host/syscalls.ts';
import { overwrite } from './image-blocks.ts';

/** The file is there and `to` bytes long; a thick one has its blocks from `from` on. Throws NoSpace. */
export async function allocate(path: string, order: { from: bigint; to: bigint; thick: boolean }): Promise<void> {
  await using file = await open(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
  try {
    if (!order.thick) await file.truncate(Number(order.to));
    else if (order.to > order.from) await fallocate(file.fd, 0, { offset: order.from, length: order.to - order.from });
    await file.sync();
  } catch (error) {
    throw asFlockError(`making ${path} ${order.to} bytes long`, error);
  }
}

/** After a growth that failed: the length it had, and no block beyond. */
export async function shrinkBack(path: string, size: bigint): Promise<void> {
  await using file = await open(path, constants.O_RDWR);
  await file.truncate(Number(size));
  await file.sync();
}

/**
 * What a removed copy held is overwritten with zeros (zero) or given back to the disk (discard). On a filesystem that never overwrites
 * in place, as btrfs, zeros land elsewhere: there only encryption below erases.
 */
export async function wiped(path: string, wipe: 'none' | 'discard' | 'zero'): Promise<void> {
  if (wipe === 'none') return;
  await using file = await open(path, constants.O_RDWR | constants.O_NOFOLLOW);
  const { size } = await file.stat({ bigint: true });
  if (wipe === 'discard') return await fallocate(file.fd, FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE, { offset: 0n, length: size });
  for await (const range of dataRanges(file.fd, size)) await overwrite(file, range);
  await file.datasync();
}
