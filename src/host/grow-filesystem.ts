// A mounted filesystem fills its device. Each has its own tool, and each tool wants another thing: xfs and btrfs the mount point, ext4 the
// device. Grown is what statfs shows.
import { open, statfs } from 'node:fs/promises';
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
      `ext4 on ${device} may not be grown while mounted: the agent lacks CAP_SYS_RESOURCE; give it that capability`,
      {
        cause: error,
      },
    );
  }
}

async function shownSize(target: string): Promise<bigint> {
  const { blocks, bsize } = await statfs(target, { bigint: true });
  return blocks * bsize;
}

async function sizeOfDevice(device: string): Promise<bigint> {
  await using opened = await open(device, 'r');
  return deviceSize(opened.fd);
}
