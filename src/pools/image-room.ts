// How much of an image pool may still be promised. Booked is what all labels say, so that a thin file's promise counts like a thick one's
// blocks. The pool-wide lock makes look and book one step, between processes too.
import { stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { ifThere, syncFilesystem, tryLockFile, type Lock } from '../host/files.ts';
import { FlockError } from '../model/errors.ts';
import { isSnapshotPoint } from '../model/points.ts';
import { humanBytes, LARGEST } from '../model/quantity.ts';
import { CopyFiles, listing, POOL_LOCK, readSidecar, sizeOf } from './image-layout.ts';
import type { PoolRoom } from './pool.ts';
import { reserved } from './reserve.ts';

/** Sizes are multiples of this, bytes. */
export const UNIT = 4096n;

export interface RoomPolicy {
  /** Kept free: a quantity or a percentage of the filesystem. */
  reserve: string;
  /** null: thick files, nothing is promised twice. */
  overcommit: number | 'unlimited' | null;
  /** Folders of the node's other pools: what those on the same filesystem promise is promised of the same room. */
  beside?: readonly string[];
}

/** What may be booked of a filesystem of this size, null for no limit. */
function capacityOf(policy: RoomPolicy, size: bigint): bigint | null {
  if (policy.overcommit === 'unlimited') return null;
  const kept = reserved(policy.reserve, size);
  const usable = size > kept ? size - kept : 0n;
  return (usable * BigInt(Math.round((policy.overcommit ?? 1) * 1000))) / 1000n;
}

/** Real size and use of the filesystem under a folder, and what an ordinary file could still take, bytes. */
async function underneath(folder: string): Promise<{ size: bigint; used: bigint; available: bigint }> {
  const found = await statfs(folder, { bigint: true });
  return { size: found.blocks * found.bsize, used: (found.blocks - found.bfree) * found.bsize, available: found.bavail * found.bsize };
}

/**
 * Sum of what the labels promise; where a label cannot be read the file's own size counts. A snapshot of thick files is promised its size
 * too: what is overwritten after it takes new room, for as long as it is kept.
 */
async function booked(folder: string, thick: boolean): Promise<bigint> {
  let total = 0n;
  for (const [name, there] of (await listing(folder)).copies) {
    const files = new CopyFiles(folder, name);
    if (there.sidecar || there.image) total += await promised(files);
    const kept = thick ? there.points.filter((point) => isSnapshotPoint(point)) : [];
    for (const point of kept) total += (await sizeOf(files.point(point)))?.size ?? 0n;
  }
  return total;
}

async function bookedBeside(folder: string, others: readonly string[], thick: boolean): Promise<bigint> {
  const { dev } = await stat(folder);
  let total = 0n;
  for (const other of others) {
    if ((await ifThere(stat(other)))?.dev === dev) total += await booked(other, thick);
  }
  return total;
}

/** What one copy takes of the capacity: the largest of what its label says, what it is growing to and what its file is, as far as known. */
async function promised(files: CopyFiles): Promise<bigint> {
  const sizes = await Promise.all([
    sizeOf(files.image).then((found) => (found?.regular ? found.size : 0n), nothing),
    readSidecar(files).then(({ label, to = label.size }) => BigInt(to), nothing),
  ]);
  return sizes[0] > sizes[1] ? sizes[0] : sizes[1];
}

/** A copy that cannot be read must not hide how much room the others leave. */
const nothing = (): bigint => 0n;

export async function roomOf(folder: string, policy: RoomPolicy): Promise<PoolRoom> {
  const { size, used, available } = await underneath(folder);
  const capacity = capacityOf(policy, size);
  const thick = policy.overcommit === null;
  const taken = await booked(folder, thick);
  const all = taken + (await bookedBeside(folder, policy.beside ?? [], thick));
  const unbooked = capacity === null ? LARGEST : capacity > all ? capacity - all : 0n;
  // A thin file takes its room later; but into a filesystem that is down to its reserve nothing new is put.
  const real = policy.overcommit === null ? available : available > reserved(policy.reserve, size) ? LARGEST : 0n;
  const free = ((unbooked < real ? unbooked : real) / UNIT) * UNIT;
  return { capacity, booked: taken, free, size, used };
}

/** Throws NoSpace when that much more cannot be booked. Under the pool's lock only. */
export async function checkRoom(pool: { name: string; path: string; policy: RoomPolicy }, more: bigint): Promise<void> {
  if (more <= (await roomOf(pool.path, pool.policy)).free) return;
  // btrfs gives the room of removed files back only with its next commit.
  await syncFilesystem(pool.path);
  const room = await roomOf(pool.path, pool.policy);
  if (more <= room.free) return;
  const capacity = room.capacity === null ? 'no limit' : humanBytes(room.capacity);
  throw new FlockError(
    'NoSpace',
    `pool ${pool.name} has room for ${humanBytes(room.free)} and ${humanBytes(more)} are asked (${humanBytes(room.booked)} of ${capacity} booked; ` +
      `${humanBytes(room.used)} of ${humanBytes(room.size)} used at ${pool.path}): remove volumes, enlarge its filesystem or use another pool`,
  );
}

/**
 * While a point is held, what the application overwrites takes new room, also of a thick copy. Throws NoSpace when too little is left of the
 * reserve, which is there for this: an application must not run out of room because of a point.
 */
export async function checkRoomToFreeze(pool: { name: string; path: string; policy: RoomPolicy }, size: bigint): Promise<void> {
  const { size: whole, available } = await underneath(pool.path);
  const half = reserved(pool.policy.reserve, whole) / 2n;
  const needed = half < size ? half : size;
  if (available >= needed) return;
  throw new FlockError(
    'NoSpace',
    `pool ${pool.name} has ${humanBytes(available)} left at ${pool.path}: a point in time needs ${humanBytes(needed)} for what is overwritten meanwhile; free some room`,
  );
}

/** Longer than anybody books: then somebody stands still with the lock in hand. */
const PATIENCE_MS = 60_000;

/** The pool's lock among processes; callers of one process take turns before. */
export async function lockPool(folder: string): Promise<Lock> {
  const path = join(folder, POOL_LOCK);
  const until = performance.now() + PATIENCE_MS;
  for (;;) {
    const lock = await tryLockFile(path, 'exclusive');
    if (lock) return lock;
    if (performance.now() > until)
      throw new FlockError('InUse', `${path} has been locked for ${PATIENCE_MS / 1000} s: another agent uses this pool`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
