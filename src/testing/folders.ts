// Temporary folders and filesystems for tests. Each is torn down after its test; what a killed run left is swept by the next one.
import { open, mkdir, mkdtemp, readdir, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loopDevices } from '../host/loop.ts';
import { mounts } from '../host/mounts.ts';
import { run } from '../host/run.ts';
import { afterwards, type Test } from './afterwards.ts';

const PREFIX = 'flock-test-';

/** Why tests that need root or a program cannot run here, or false: for a test's `skip`. */
export const needsRoot: string | false = process.getuid?.() === 0 ? false : 'needs root: loop devices and mounts';

export async function temporaryFolder(t: Test): Promise<string> {
  await sweepOnce();
  const folder = await mkdtemp(join(tmpdir(), `${PREFIX}${process.pid}-`));
  afterwards(t, () => tearDown(folder));
  return folder;
}

export interface TemporaryFilesystem {
  /** Where it is mounted. */
  path: string;
  device: string;
  size: bigint;
}

export interface FilesystemOrder {
  type: 'xfs' | 'btrfs' | 'ext4';
  /** Bytes; xfs needs 300 MiB. The file below is sparse. */
  size: bigint;
}

const MKFS = {
  xfs: ['mkfs.xfs', '-q', '-K'],
  btrfs: ['mkfs.btrfs', '-q', '-K'],
  ext4: ['mkfs.ext4', '-q', '-m', '0', '-E', 'nodiscard'],
} as const;

/** A new filesystem in a sparse file, mounted by a loop device. Whatever is mounted or attached on it goes with it. */
export async function temporaryFilesystem(t: Test, order: FilesystemOrder): Promise<TemporaryFilesystem> {
  const folder = await temporaryFolder(t);
  const file = join(folder, 'disk');
  await using disk = await open(file, 'w');
  await disk.truncate(Number(order.size));
  const [program, ...options] = MKFS[order.type];
  await run(program, [...options, file]);
  const device = (await run('losetup', ['--find', '--show', '--direct-io=on', file])).stdout.trim();
  const path = join(folder, 'mnt');
  await mkdir(path);
  await run('mount', ['-t', order.type, device, path]);
  const { blocks, bsize } = await statfs(path, { bigint: true });
  return { path, device, size: blocks * bsize };
}

let swept: Promise<void> | undefined;

function sweepOnce(): Promise<void> {
  swept ??= sweep();
  return swept;
}

/** Removes what runs that are over left behind. */
async function sweep(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = new RegExp(`^${PREFIX}([0-9]+)-`, 'u').exec(name)?.[1];
    if (pid && !isAlive(Number(pid))) await tearDown(join(tmpdir(), name)).catch(() => {});
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Unmounts and detaches everything at, in and from the folder, innermost first, and removes it. */
async function tearDown(folder: string): Promise<void> {
  if (needsRoot === false) {
    while (await unmountedOne(folder));
    await detachAll(folder);
  }
  await rm(folder, { recursive: true, force: true });
}

async function loopsWithin(folder: string): Promise<string[]> {
  return (await loopDevices()).filter(({ file }) => file.startsWith(`${folder}/`)).map(({ device }) => device);
}

async function unmountedOne(folder: string): Promise<boolean> {
  const loops = await loopsWithin(folder);
  const ours = (await mounts()).filter(({ target, source }) => target.startsWith(`${folder}/`) || loops.includes(source));
  // A device made from a file inside a mount keeps that mount busy: those are detached before it.
  const last = ours.at(-1);
  if (!last) return false;
  const inside = (await loopDevices()).filter(({ file }) => file.startsWith(`${last.target}/`));
  for (const { device } of inside) await run('losetup', ['--detach', device]);
  // A test's own `after` may close what it has open only later: then all of this goes with that last close.
  await run('umount', ['--', last.target]).catch(() => run('umount', ['--lazy', '--', last.target]));
  return true;
}

async function detachAll(folder: string): Promise<void> {
  for (const device of await loopsWithin(folder)) await run('losetup', ['--detach', device]);
}

export type { Test } from './afterwards.ts';
