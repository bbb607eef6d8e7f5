// A pool's UUID, of what LVM has written on its disks: of the volume group, or of the thin pool in it. Nothing is written for it. No I/O.
import { createHash } from 'node:crypto';
import type { VolumeGroup } from '../host/lvm-report.ts';
import { FlockError } from '../model/errors.ts';
import type { LvmPlace } from './lvm-place.ts';
import { thinPoolOf } from './lvm-room.ts';

/** Throws NotFound when the thin pool is not there. */
export function poolUuid(group: VolumeGroup, thinPool: string | null): string {
  const named = thinPool === null ? group.uuid : `${group.uuid}/${thinPoolOf(group, thinPool).uuid}`;
  const digits = createHash('sha256').update(`flock pool ${named}`).digest('hex');
  // As UUIDs of version 8 are written: digits of one's own choice.
  return [digits.slice(0, 8), digits.slice(8, 12), `8${digits.slice(13, 16)}`, `8${digits.slice(17, 20)}`, digits.slice(20, 32)].join('-');
}

/** Throws NotPermitted when the group is not the one that was known as `known`. */
export function checkIdentity({ name, thinPool }: Pick<LvmPlace, 'name' | 'thinPool'>, known: string, group: VolumeGroup): void {
  const found = poolUuid(group, thinPool);
  if (known === found) return;
  throw new FlockError(
    'NotPermitted',
    `pool ${name}: volume group ${group.name} is another one than it was (${found} instead of ${known}): bring the disk back, or give the pool another name`,
  );
}
