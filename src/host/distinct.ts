// A cloned filesystem gets an identity of its own: two of one UUID cannot be mounted on one machine, and btrfs would even mix them up. Each
// tool wants a clean filesystem: the log of one that was in use when it was snapshotted is replayed first. Safe to repeat after any crash:
// what is cut off is found not finished, and gets yet another identity.
import { constants } from 'node:fs';
import { mkdtemp, open, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { FlockError } from '../model/errors.ts';
import type { Filesystem } from '../model/volume.ts';
import { isCode } from './files.ts';
import { beUnheld } from './holders.ts';
import { CommandFailed, run } from './run.ts';

/** A large filesystem is checked whole. */
const TIMEOUT = 600_000;

/** Of a device that is not mounted anywhere. Throws InUse, and what the tools say of a filesystem that they cannot read. */
export async function beDistinct(device: string, filesystem: Filesystem): Promise<void> {
  await beUnheld(device);
  switch (filesystem) {
    case 'ext4':
      // 1: it was not clean, and is now.
      await run('e2fsck', ['-f', '-p', device], { timeout: TIMEOUT, allow: [1] });
      await run('tune2fs', ['-U', 'random', device], { timeout: TIMEOUT });
      return;
    case 'xfs':
      await replayed(device, ['-t', 'xfs', '-o', 'nouuid']);
      await run('xfs_admin', ['-U', 'generate', device], { timeout: TIMEOUT });
      return;
    case 'btrfs':
      // A kernel before 6.7 refuses this mount while the source is mounted.
      await replayed(device, ['-t', 'btrfs']).catch((error: unknown) => {
        throw isTwin(error) ? twinMounted(device, error) : error;
      });
      await run('btrfstune', ['-f', '-m', device], { timeout: TIMEOUT });
      return;
  }
}

const isTwin = (error: unknown): boolean => error instanceof CommandFailed && error.stderr.includes('File exists');

const twinMounted = (device: string, cause: unknown): FlockError =>
  new FlockError(
    'InUse',
    `${device} cannot get an identity of its own while the btrfs that it was cloned from is mounted here, because this kernel is older than 6.7: unmount that once, and try again`,
    { cause },
  );

/** Mounted once where nobody sees it: in a namespace of its own, which takes the mount with it when it ends, whatever happens to us. */
async function replayed(device: string, options: readonly string[]): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'flock-replay-'));
  try {
    await run('unshare', ['--mount', '--propagation', 'private', 'mount', ...options, device, folder], { timeout: TIMEOUT });
    await released(device);
  } finally {
    await rmdir(folder);
  }
}

/** The kernel takes the namespace down after its last process has ended. */
async function released(device: string): Promise<void> {
  for (let left = 200; left > 0; left -= 1) {
    try {
      await (await open(device, constants.O_RDWR | constants.O_EXCL)).close();
      return;
    } catch (error) {
      if (!isCode(error, 'EBUSY')) throw error;
    }
    await setTimeout(50);
  }
  throw new FlockError('InUse', `${device} is still mounted after its log was replayed: try again`);
}
