// What lies in a volume group, by name and tag: `<copy>` a copy, `<copy>.<point>` a held point in time. A thick pool has what is in no thin
// pool, a thin pool what is in it. Everything else is foreign. No I/O.
import type { LogicalVolume, VolumeGroup } from '../host/lvm-report.ts';
import { FlockError, isReason, messageOf } from '../model/errors.ts';
import { copyName } from '../model/label.ts';
import { ID_PATTERN, UID_PATTERN } from '../model/names.ts';
import type { CopyName, PointName } from './pool.ts';
import { POINT_TAG, readTags, type Marked } from './lvm-tags.ts';

export interface LvmCopy {
  name: CopyName;
  volume: LogicalVolume;
  /** A text: why the label cannot be read; null: there is none. */
  marked: Marked | string | null;
  points: Map<PointName, LogicalVolume>;
  /** Points that are none: half made, or overflowed. */
  brokenPoints: LogicalVolume[];
}

/** With a label that can be read. */
export interface LabelledCopy extends LvmCopy {
  marked: Marked;
}

export interface LvmListing {
  copies: Map<CopyName, LvmCopy>;
  /** Points without their copy. */
  stray: LogicalVolume[];
  foreign: LogicalVolume[];
}

const UID = UID_PATTERN.slice(1, -1);
const ID = ID_PATTERN.slice(1, -1);
const OURS = new RegExp(`^(${UID}-${ID})(?:\\.(${ID}))?$`, 'u');

export const pointName = (copy: CopyName, point: PointName): string => `${copy}.${point}`;

interface Named {
  volume: LogicalVolume;
  copy: CopyName | undefined;
  point: PointName | undefined;
}

/** A point's name alone is no proof: it has our tag, or it is somebody's. */
function namedOf(volume: LogicalVolume): Named {
  const [, copy, point] = OURS.exec(volume.name) ?? [];
  const known = point === undefined || volume.tags.includes(POINT_TAG);
  return { volume, copy: known ? copy : undefined, point: known ? point : undefined };
}

/** `thinPool` null: of the thick pool. */
export function listVolumes(group: VolumeGroup, thinPool: string | null): LvmListing {
  const mine = group.volumes.filter(({ pool, name }) => pool === thinPool && name !== thinPool).map(namedOf);
  const listing: LvmListing = { copies: new Map(), stray: [], foreign: [] };
  for (const { volume, copy, point } of mine) {
    if (copy === undefined) listing.foreign.push(volume);
    else if (point === undefined) listing.copies.set(copy, copyOf(copy, volume));
  }
  for (const { volume, copy = '', point } of mine) if (point !== undefined) addPoint(listing, listing.copies.get(copy), { point, volume });
  return listing;
}

function copyOf(name: CopyName, volume: LogicalVolume): LvmCopy {
  return { name, volume, marked: markedOf(name, volume), points: new Map(), brokenPoints: [] };
}

function markedOf(name: CopyName, volume: LogicalVolume): Marked | string | null {
  try {
    const marked = readTags(volume.tags, name, volume.size);
    return marked && copyName(marked.label) !== name
      ? `the label (LV tag) of copy ${name} is that of copy ${copyName(marked.label)}`
      : marked;
  } catch (error) {
    if (!isReason(error, 'Corrupt')) throw error;
    return messageOf(error);
  }
}

function addPoint(listing: LvmListing, copy: LvmCopy | undefined, { point, volume }: { point: PointName; volume: LogicalVolume }): void {
  if (!copy) listing.stray.push(volume);
  else if (volume.invalid || !volume.role.includes('snapshot')) copy.brokenPoints.push(volume);
  else copy.points.set(point, volume);
}

/** Bytes that a point shows: an exception store's own size says nothing of it. */
export const shownSize = ({ originSize, size, role }: LogicalVolume): bigint => (role.includes('thicksnapshot') ? originSize : size);

/** The copy with a label that can be read. Throws NotFound, Corrupt. */
export function readable(listing: LvmListing, name: CopyName, pool: string): LabelledCopy {
  const copy = listing.copies.get(name);
  if (!copy) throw new FlockError('NotFound', `there is no copy ${name} in pool ${pool}`);
  const { marked } = copy;
  if (marked === null) throw new FlockError('Corrupt', labelGone(name));
  if (typeof marked === 'string') throw new FlockError('Corrupt', marked);
  return { ...copy, marked };
}

export const labelGone = (name: CopyName): string =>
  `copy ${name} has no label: its LV has no tag of ours. Bring the tag back from a backup of LVM's metadata, or delete the volume`;
