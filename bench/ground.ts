// What a benchmark stands on, and what it leaves behind: nothing. A file system of its own (XFS in a sparse file, by direct IO) with two
// pools on one disk, and the undoing of everything in reverse order. Knows no measurements.
import { mkdir, mkdtemp, open, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { messageOf } from '../src/model/errors.ts';
import { run } from '../src/host/run.ts';
import { say } from './say.ts';

const GIB = 1024 ** 3;

export interface Ground {
  folder: string;
  /** The mounted file system. */
  disk: string;
  source: string;
  target: string;
  /** Undone at the end, the last one first. */
  later(undo: () => Promise<unknown>): void;
}

/** Runs `act` on a fresh ground of that size, bytes, and takes it away afterwards whatever happened. */
export async function onGround<T>(size: number, act: (ground: Ground) => Promise<T>): Promise<T> {
  const undo: (() => Promise<unknown>)[] = [];
  try {
    return await act(await makeGround(size, (one) => void undo.push(one)));
  } finally {
    for (const one of undo.reverse()) await one().catch((error: unknown) => say(`could not be undone: ${messageOf(error)}`));
  }
}

async function makeGround(size: number, later: Ground['later']): Promise<Ground> {
  const folder = await mkdtemp(join(tmpdir(), 'flock-bench-'));
  later(() => rm(folder, { recursive: true, force: true }));
  const { bavail, bsize } = await statfs(folder);
  if (bavail * bsize < size / 2) throw new Error(`${folder} has ${(bavail * bsize) / GIB} GiB free: choose a smaller --size`);
  const image = join(folder, 'disk');
  await using file = await open(image, 'w');
  await file.truncate(size);
  await run('mkfs.xfs', ['-q', '-K', '-s', 'size=4096', image]);
  const device = (await run('losetup', ['--find', '--show', '--direct-io=on', '--sector-size', '4096', image])).stdout.trim();
  later(() => run('losetup', ['--detach', device]));
  const disk = join(folder, 'mnt');
  await mkdir(disk);
  await run('mount', ['-t', 'xfs', device, disk]);
  later(() => run('umount', [disk]));
  const [source, target] = [join(disk, 'source'), join(disk, 'target')];
  for (const pool of [source, target]) await mkdir(pool);
  return { folder, disk, source, target, later };
}

/**
 * Blocks that were never written cost more at their first write, in the file below and in the machine's disk below that: every subject finds
 * those that were. `size`: bytes of the largest volume.
 */
export async function warm(ground: Ground, size: number): Promise<void> {
  for (const pool of [ground.source, ground.target]) {
    const path = join(pool, 'warm');
    const count = Math.ceil((size * 1.6) / 4 / 1024 ** 2);
    await run('dd', ['if=/dev/zero', `of=${path}`, 'bs=4M', `count=${count}`, 'oflag=direct', 'conv=fsync', 'status=none'], {
      timeout: 900_000,
    });
    await rm(path);
  }
}
