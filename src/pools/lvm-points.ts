// Points in time of copies in a volume group: making, finding, and what changed between them. What differs between thick and thin is in
// lvm-thick.ts and lvm-thin.ts.
import type { LogicalVolume } from '../host/lvm-report.ts';
import { FlockError } from '../model/errors.ts';
import { isSnapshotPoint } from '../model/points.ts';
import { whileActive, type Device } from './lvm-access.ts';
import { pointName, readable, shownSize, type LvmCopy, type LabelledCopy } from './lvm-layout.ts';
import { deviceOf } from './lvm-life.ts';
import { change, inGroupTurn, path, seen, type LvmPlace, type Seen } from './lvm-place.ts';
import { checkRoom, roomOf, storeSize } from './lvm-room.ts';
import { POINT_TAG } from './lvm-tags.ts';
import { changedBetweenPoints, thickPointArguments } from './lvm-thick.ts';
import { changedBetween } from './lvm-thin.ts';
import type { CopyName, Extent, PointName } from './pool.ts';

export interface Found {
  at: Seen;
  copy: LabelledCopy;
  point: LogicalVolume;
}

/** Throws NotFound. */
export function pointOf(at: Seen, of: { place: LvmPlace; copy: CopyName; point: PointName }): Found {
  const copy = readable(at.listing, of.copy, of.place.name);
  const point = copy.points.get(of.point);
  if (!point) throw new FlockError('NotFound', `copy ${of.copy} has no point ${of.point} in pool ${of.place.name}`);
  return { at, copy, point };
}

/** Device that is activated to read the point or `live`, and the volume to read then. */
export function shownBy(
  place: LvmPlace,
  at: Seen,
  of: { copy: CopyName; point: PointName | 'live' },
): { device: Device; shown: LogicalVolume } {
  const copy = readable(at.listing, of.copy, place.name);
  const shown = of.point === 'live' ? copy.volume : pointOf(at, { place, copy: of.copy, point: of.point }).point;
  return { device: place.thinPool === null ? deviceOf(place, at, copy) : { place, seen: at, volume: shown }, shown };
}

/** Safe to repeat. Throws NoSpace. */
export async function frozen(place: LvmPlace, name: CopyName, point: PointName): Promise<void> {
  await inGroupTurn(place, async () => {
    const at = await seen(place);
    const { group } = at;
    const before = readable(at.listing, name, place.name);
    if (before.points.has(point)) return;
    for (const broken of before.brokenPoints) await change(place, 'lvremove', ['-f', path(place, broken)]);
    const store = place.thinPool === null ? storeSize(before.volume.size, point, { extent: group.extent, policy: place.policy }) : null;
    checkRoomToFreeze(place, at, { copy: before, point, store });
    const kind = store === null ? [] : thickPointArguments(store);
    await change(place, 'lvcreate', [
      '-s',
      '-ky',
      ...kind,
      '--addtag',
      POINT_TAG,
      '-n',
      pointName(name, point),
      path(place, before.volume),
    ]);
  });
  place.crash('freeze:made');
}

function checkRoomToFreeze(place: LvmPlace, { group }: Seen, of: { copy: LvmCopy; point: PointName; store: bigint | null }): void {
  const room = roomOf(group, place.thinPool, place.policy);
  if (of.store === null) {
    if (room.warning !== undefined) throw new FlockError('NoSpace', room.warning);
    return;
  }
  if (isSnapshotPoint(of.point)) checkRoom(place.name, room, of.copy.volume.size);
  if (of.store > group.free)
    throw new FlockError(
      'NoSpace',
      `volume group ${group.name} has ${group.free} bytes free, and a point in time of ${of.copy.name} takes ${of.store}: free some room, ` +
        'or lower the pool’s snapshotReserve',
    );
}

/** Sorted, without overlaps. Throws NotFound when `from` is gone. */
export async function changes(
  place: LvmPlace,
  at: Seen,
  of: { copy: CopyName; from: PointName | null; to: PointName | 'live' },
): Promise<Extent[]> {
  const { copy } = of;
  const { device, shown } = shownBy(place, at, { copy, point: of.to });
  const from = of.from === null ? null : pointOf(at, { place, copy, point: of.from }).point;
  const size = shownSize(shown) || shown.size;
  if (place.thinPool !== null) return whileActive(device, () => changedBetween(place, at.group, { from, to: shown }));
  // What a thick volume holds is not known to be zeros anywhere.
  if (from === null) return [{ offset: 0n, length: size, kind: 'DATA' }];
  const to = of.to === 'live' ? null : shown;
  return whileActive(device, () => changedBetweenPoints(device, { from, to }, size));
}
