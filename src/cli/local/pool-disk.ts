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
import type { PoolPlaces } from './layout.ts';

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
export async function diskSize(directory: string, pools: number): Promise<bigint> {
  const { bavail, bsize } = await statfs(directory, { bigint: true });
  const share = (bavail * bsize * 4n) / (5n * BigInt(pools));
  const size = share < LARGEST_DISK ? (share / GIB) * GIB : LARGEST_DISK;
  if (size >= SMALLEST_DISK) return size;
  throw new FlockError(
    'NoSpace',
    `${directory} has ${humanBytes(bavail * bsize)} free, ${pools} pools need ${humanBytes(BigInt(pools) * SMALLEST_DISK)} and a fifth more: free some, choose another --dir, or fewer --nodes`,
  );
}

/**
 * The pool's folder is there, on its ground. Safe to repeat after any crash; a disk that is there is never made anew, and one that was
 * formatted is never formatted again: where its filesystem is not found any more, Corrupt says so and nothing is done.
 */
export async function bePool(places: PoolPlaces, ground: PoolGround, size: bigint): Promise<void> {
  await mkdir(places.folder, { recursive: true, mode: 0o700 });
  if (ground === 'folder') return;
  await beDisk(places, size);
  const { device } = await beAttached(places.disk);
  await beFormatted(device, ground, await isThere(places.formatted));
  await writeAtomically(places.formatted, `${ground}\n`);
  await beMounted(device, places.folder, ground, false);
}

const isThere = async (path: string): Promise<boolean> => (await stat(path).catch(() => null)) !== null;

export const isPoolMounted = ({ folder }: PoolPlaces): Promise<boolean> => isMounted(folder);

async function beDisk({ disk, folder }: PoolPlaces, size: bigint): Promise<void> {
  if (await isThere(disk)) return;
  const left = await readdir(folder);
  if (left.length > 0)
    throw new FlockError(
      'Corrupt',
      `${disk} is gone, and ${folder} is not empty: put the disk back, or remove the cluster with flockctl down --delete`,
    );
  const file = await open(disk, 'wx', 0o600);
  try {
    await file.truncate(Number(size));
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Where volumes of this pool are mounted: each with the image that must be detached then; null where it is a directory. */
async function volumesOf({ folder, type }: PoolPlaces): Promise<{ image: string | null; targets: string[] }[]> {
  const all = await mounts();
  if (type === 'directory') {
    const pool = all.findLast(({ target }) => target === folder);
    const bound = all.filter(({ number, target }) => number === pool?.number && target !== folder);
    return [{ image: null, targets: bound.map(({ target }) => target) }];
  }
  const ours = (await loopDevices()).filter((loop) => loop.file.startsWith(`${folder}/`));
  return ours.map(({ file, device }) => ({
    image: file,
    targets: all.filter((mount) => isOf(mount, device)).map((mount) => mount.target),
  }));
}

/** Its filesystem, or the device node itself, as raw block volumes are handed out. */
const isOf = (mount: Mount, device: string): boolean =>
  mount.source === device || (mount.root === `/${basename(device)}` && mount.filesystem.endsWith('tmpfs'));

/** Throws InUse, naming who has files of a volume open. `agent`: its own agent, which may have. */
export async function beUnused(node: string, pool: PoolPlaces, { ground, agent }: { ground: PoolGround; agent?: number }): Promise<void> {
  for (const place of await placesOfUse(pool, ground)) {
    const users = await usersOf(place, agent);
    if (users.length > 0) throw new FlockError('InUse', `a volume of ${node} is in use at ${place} by ${users.join(', ')}: end that first`);
  }
}

/** Without mounts a directory is handed out as a link: who uses it has it open where it lies. */
async function placesOfUse(pool: PoolPlaces, ground: PoolGround): Promise<string[]> {
  if (ground === 'folder') return pool.type === 'directory' ? [pool.folder] : [];
  return (await volumesOf(pool)).flatMap(({ targets }) => targets);
}

/** Nothing of the pool is mounted or attached. Its agent must have ended. Throws InUse. */
export async function bePoolAbsent(pool: PoolPlaces, ground: PoolGround): Promise<void> {
  if (ground === 'folder') return;
  for (const { image, targets } of await volumesOf(pool)) {
    for (const target of targets) await beUnmounted(target);
    if (image !== null) await beDetached(image);
  }
  await beUnmounted(pool.folder);
  if ((await isThere(pool.disk)) && (await loopsOf(pool.disk)).length > 0) await beDetached(pool.disk);
}
