// A mounted filesystem fills its device. Each has its own tool, and each tool wants another thing: xfs and btrfs the mount point, ext4 the
// device. Grown is what statfs shows.
import { open, readFile, statfs } from 'node:fs/promises';
import { FlockError } from '../model/errors.ts';
import { humanBytes } from '../model/quantity.ts';
import type { Filesystem } from '../model/volume.ts';
import { isMounted } from './mounts.ts';
import { CommandFailed, run } from './run.ts';
import { deviceSize } from './syscalls.ts';

/** Safe to repeat; does nothing when it is as large as it can be. */
export async function beGrown(device: string, target: string, filesystem: Filesystem): Promise<void> {
  if (!(await isMounted(target))) throw new FlockError('NotFound', `${target} is not mounted: a filesystem can only grow while it is`);
  const before = await shownSize(target);
  await grow(device, target, filesystem);
  const after = await shownSize(target);
  const size = await sizeOfDevice(device);
  if (after < before || size - after > overhead(size))
    throw new FlockError(
      'Internal',
      `${filesystem} at ${target} shows ${humanBytes(after)} of the ${humanBytes(size)} that ${device} has, although its tool reported success: try again`,
    );
}

/** The most that a filesystem keeps for itself and does not show: journal, log and inode tables. */
const overhead = (size: bigint): bigint => size / 16n + (128n << 20n);

async function grow(device: string, target: string, filesystem: Filesystem): Promise<void> {
  switch (filesystem) {
    case 'ext4':
      return growExt4(device);
    case 'xfs':
      await run('xfs_growfs', ['-d', target]);
      return;
    case 'btrfs':
      await run('btrfs', ['filesystem', 'resize', 'max', target]);
      return;
  }
}

/** Of the three, only ext4 asks for a capability that some containers take from root. */
async function growExt4(device: string): Promise<void> {
  try {
    await run('resize2fs', [device], { timeout: 600_000 });
  } catch (error) {
    if (!(error instanceof CommandFailed) || !error.stderr.includes('Permission denied to resize')) throw error;
    throw new FlockError(
      'NotPermitted',
      `ext4 on ${device} may not be grown while mounted: the agent lacks CAP_SYS_RESOURCE. Unmount the volume, and it grows when it is mounted next; or give the agent that capability`,
      { cause: error },
    );
  }
}

/** Its number in capabilities(7). */
const CAP_SYS_RESOURCE = 24n;

/** Root in a container may lack it. */
export async function mayGrowMountedExt4(): Promise<boolean> {
  const effective = /^CapEff:\s*([0-9a-f]+)/mu.exec(await readFile('/proc/self/status', 'utf8'))?.[1] ?? '0';
  return ((BigInt(`0x${effective}`) >> CAP_SYS_RESOURCE) & 1n) === 1n;
}

/** It is checked first, as resize2fs demands: this takes long on a large filesystem. */
const CHECK_TIMEOUT = 3_600_000;

/**
 * Of a filesystem that is not mounted: fills its device where it could not do so mounted. Only ext4 grows both ways. Throws Corrupt when it has
 * errors that are not mended without a person. Safe to repeat; does nothing when it is as large as it can be.
 */
export async function beGrownUnmounted(device: string, filesystem: Filesystem): Promise<void> {
  if (filesystem !== 'ext4' || (await mayGrowMountedExt4()) || !(await couldBeLarger(device))) return;
  const { exitCode, stdout } = await run('e2fsck', ['-f', '-p', device], { timeout: CHECK_TIMEOUT, allow: [1, 2, 4] });
  if (exitCode === 4)
    throw new FlockError(
      'Corrupt',
      `ext4 on ${device} has errors, so it is not grown: ${stdout.trim()}. Unmount it and run e2fsck -f ${device}`,
    );
  await run('resize2fs', [device], { timeout: CHECK_TIMEOUT });
}

const SUPERBLOCK = { at: 1024, length: 1024 };
/** resize2fs makes no group of which it could use no more than this, blocks. */
const TOO_FEW = 50n;

/** By its superblock. What is left over at the end may be too little for another group of blocks, and is left alone. */
async function couldBeLarger(device: string): Promise<boolean> {
  await using opened = await open(device, 'r');
  const { buffer } = await opened.read(Buffer.alloc(SUPERBLOCK.length), 0, SUPERBLOCK.length, SUPERBLOCK.at);
  const blocks = (BigInt(buffer.readUInt32LE(0x150)) << 32n) | BigInt(buffer.readUInt32LE(0x04));
  const blockSize = 1024n << BigInt(buffer.readUInt32LE(0x18));
  const perGroup = BigInt(buffer.readUInt32LE(0x20));
  const inodes = (BigInt(buffer.readUInt32LE(0x28)) * BigInt(buffer.readUInt16LE(0x58))) / blockSize;
  const possible = deviceSize(opened.fd) / blockSize;
  const rest = possible % perGroup;
  return (rest <= inodes + 2n + TOO_FEW ? possible - rest : possible) > blocks;
}

async function shownSize(target: string): Promise<bigint> {
  const { blocks, bsize } = await statfs(target, { bigint: true });
  return blocks * bsize;
}

async function sizeOfDevice(device: string): Promise<bigint> {
  await using opened = await open(device, 'r');
  return deviceSize(opened.fd);
}
