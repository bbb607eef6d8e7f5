// A node's pool on this machine: a sparse file with a filesystem of its own, mounted as the pool's folder, so that what a full or a
// shared disk does to one node is not done to the others. Without root, or where that cannot be, the folder alone.
import { basename } from 'node:path';
import { mkdir, open, readdir, stat, statfs } from 'node:fs/promises';
import { beAttached, beDetached, loopDevices, loopsOf } from '../../host/loop.ts';
import { writeAtomically } from '../../host/files.ts';
import { beFormatted } from '../../host/format.ts';
import type { Mount } from '../../host/mountinfo.ts';
import { beMounted, beUnmounted, isMounted, mounts } from '../../host/mounts.ts';
import { hostAbilities } from '../../host/probe.ts';
import { run } from '../../host/run.ts';
import { usersOf } from '../../host/holders.ts';
import { FlockError, messageOf } from '../../model/errors.ts';
import { humanBytes } from '../../model/quantity.ts';
import type { NodePlaces } from './layout.ts';

/** What pools of a cluster lie on. */
export type PoolGround = 'xfs' | 'ext4' | 'folder';

export type Say = (text: string) => void;

const GIB = 2n ** 30n;
const LARGEST_DISK = 10n * GIB;
const SMALLEST_DISK = GIB;

/** The best ground that this machine can give; installs what Debian lacks, and says what it does and what it cannot. */
export async function chooseGround(say: Say): Promise<PoolGround> {
  const before = await hostAbilities();
  if (!before.canMount) {
    say(`pools are plain folders: ${before.missing[0] ?? 'this machine cannot mount'}`);
    return 'folder';
  }
  if (!before.filesystems.includes('xfs')) await installXfs(say);
  const { filesystems, missing } = await hostAbilities();
  if (filesystems.includes('xfs')) return 'xfs';
  say(`${missing.find((text) => text.includes('xfs')) ?? 'no xfs here'}; the pools are ext4, whose moves compare everything`);
  return filesystems.includes('ext4') ? 'ext4' : 'folder';
}

async function installXfs(say: Say): Promise<void> {
  if ((await stat('/etc/debian_version').catch(() => null)) === null) return;
  say('installing xfsprogs (apt-get install xfsprogs)');
  try {
    await run('apt-get', ['-qq', 'update'], { timeout: 300_000 });
    await run('apt-get', ['-qq', 'install', '-y', '--no-install-recommends', 'xfsprogs'], { timeout: 600_000 });
  } catch (error) {
    say(`xfsprogs could not be installed: ${messageOf(error)}`);
  }
}

/** So large that all disks of the cluster together leave room on what they lie on; throws NoSpace when that is too little. */
export async function diskSize(directory: string, nodes: number): Promise<bigint> {
  const { bavail, bsize } = await statfs(directory, { bigint: true });
  const share = (bavail * bsize * 4n) / (5n * BigInt(nodes));
  const size = share < LARGEST_DISK ? (share / GIB) * GIB : LARGEST_DISK;
  if (size >= SMALLEST_DISK) return size;
  throw new FlockError(
    'NoSpace',
    `${directory} has ${humanBytes(bavail * bsize)} free, ${nodes} pools need ${humanBytes(BigInt(nodes) * SMALLEST_DISK)} and a fifth more: free some, choose another --dir, or fewer --nodes`,
  );
}

/**
 * The pool's folder is there, on its ground. Safe to repeat after any crash; a disk that is there is never made anew, and one that was
 * formatted is never formatted again: where its filesystem is not found any more, Corrupt says so and nothing is done.
 */
export async function bePool(places: NodePlaces, ground: PoolGround, size: bigint): Promise<void> {
  await mkdir(places.pool, { recursive: true, mode: 0o700 });
  if (ground === 'folder') return;
  await beDisk(places, size);
  const { device } = await beAttached(places.disk);
  await beFormatted(device, ground, await isThere(places.formatted));
  await writeAtomically(places.formatted, `${ground}\n`);
  await beMounted(device, places.pool, ground, false);
}

const isThere = async (path: string): Promise<boolean> => (await stat(path).catch(() => null)) !== null;

export const isPoolMounted = async ({ pool }: NodePlaces): Promise<boolean> => isMounted(pool);

async function beDisk({ disk, pool }: NodePlaces, size: bigint): Promise<void> {
  if (await isThere(disk)) return;
  const left = await readdir(pool);
  if (left.length > 0)
    throw new FlockError(
      'Corrupt',
      `${disk} is gone, and ${pool} is not empty: put the disk back, or remove the cluster with flockctl down --delete`,
    );
  const file = await open(disk, 'wx', 0o600);
  try {
    await file.truncate(Number(size));
    await file.sync();
  } finally {
    await file.close();
  }
}

/** What of this pool's volumes is mounted, and by what device. */
async function volumesOf({ pool }: NodePlaces): Promise<{ file: string; targets: string[] }[]> {
  const ours = (await loopDevices()).filter((loop) => loop.file.startsWith(`${pool}/`));
  const all = await mounts();
  return ours.map(({ file, device }) => ({ file, targets: all.filter((mount) => isOf(mount, device)).map((mount) => mount.target) }));
}

/** Its filesystem, or the device node itself, as raw block volumes are handed out. */
const isOf = (mount: Mount, device: string): boolean =>
  mount.source === device || (mount.root === `/${basename(device)}` && mount.filesystem.endsWith('tmpfs'));

/** Throws InUse, naming who has files of a mounted volume open. */
export async function beUnused(places: NodePlaces, ground: PoolGround): Promise<void> {
  if (ground === 'folder') return;
  for (const { targets } of await volumesOf(places))
    for (const target of targets) {
      const users = await usersOf(target);
      if (users.length > 0)
        throw new FlockError('InUse', `a volume of ${places.name} is in use at ${target} by ${users.join(', ')}: end that first`);
    }
}

/** Nothing of the pool is mounted or attached. Its agent must have ended. Throws InUse. */
export async function bePoolAbsent(places: NodePlaces, ground: PoolGround): Promise<void> {
  if (ground === 'folder') return;
  for (const { file, targets } of await volumesOf(places)) {
    for (const target of targets) await beUnmounted(target);
    await beDetached(file);
  }
  await beUnmounted(places.pool);
  if ((await stat(places.disk).catch(() => null)) !== null && (await loopsOf(places.disk)).length > 0) await beDetached(places.disk);
}
