// Where an image pool is, and how its users keep out of each other's way: callers of one process take turns by copy, the pool's lock makes
// look-and-book one step among processes, and a copy's lock is shared by writers and taken whole by a hold.
import { join } from 'node:path';
import { tryLockFile, type Lock } from '../host/files.ts';
import { turns } from '../host/turns.ts';
import type { CrashPoint } from '../model/crash.ts';
import { FlockError } from '../model/errors.ts';
import { CopyFiles, sizeOf } from './image-layout.ts';
import { lockPool, type RoomPolicy } from './image-room.ts';
import type { CopyName } from './pool.ts';

/** Of this process: two who opened one pool take turns too. */
const inTurn = turns();

export interface Place {
  name: string;
  path: string;
  policy: RoomPolicy;
  crash: CrashPoint;
}

/** Throws Invalid for what is no copy's name. */
export const filesOf = (place: Place, name: CopyName): CopyFiles => new CopyFiles(place.path, name);

export const inCopyTurn = <T>(place: Place, name: CopyName, work: () => Promise<T>): Promise<T> => inTurn(filesOf(place, name).image, work);

/** Within the copy's turn: nobody else books room meanwhile. */
export const whileBooking = <T>(place: Place, work: () => Promise<T>): Promise<T> =>
  inTurn(join(place.path, '/'), async () => {
    const lock = await lockPool(place.path);
    try {
      return await work();
    } finally {
      await lock.release();
    }
  });

/** The copy's lock. Throws InUse. */
export async function lockCopy(place: Place, name: CopyName, how: 'exclusive' | 'shared'): Promise<Lock> {
  const path = filesOf(place, name).lock;
  const lock = await tryLockFile(path, how);
  if (lock) return lock;
  throw new FlockError('InUse', `copy ${name} is held or open for writing elsewhere (lock ${path}): let that end first`);
}

/** Runs with the whole copy locked. Throws InUse. */
export async function withCopyLocked<T>(place: Place, name: CopyName, work: () => Promise<T>): Promise<T> {
  const lock = await lockCopy(place, name, 'exclusive');
  try {
    return await work();
  } finally {
    await lock.release();
  }
}

export const notThere = (place: Place, what: string): FlockError =>
  new FlockError('NotFound', `there is no ${what} in pool ${place.name} (${place.path})`);

/** Size of a copy's image. Throws NotFound. */
export async function imageSize(place: Place, name: CopyName): Promise<{ size: bigint; allocated: bigint }> {
  const found = await sizeOf(filesOf(place, name).image);
  if (!found) throw notThere(place, name);
  return found;
}
