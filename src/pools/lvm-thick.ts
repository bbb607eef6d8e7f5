// Points of thick copies: snapshots with an exception store each, whose table says what was written since. Costs the application writes, so
// it is there for moves and for what a person asked for.
import { open } from 'node:fs/promises';
import { constants } from 'node:fs';
import { alignedBuffer, giveBack } from '../host/aligned.ts';
import { readWhole } from '../host/direct.ts';
import { below, devicesOf, type MappedDevice } from '../host/lvm-device.ts';
import { exceptions, type Range } from '../host/lvm-exceptions.ts';
import type { LogicalVolume } from '../host/lvm-report.ts';
import { FlockError } from '../model/errors.ts';
import { uuidOf } from './lvm-place.ts';
import type { Device } from './lvm-access.ts';
import { shownSize } from './lvm-layout.ts';
import type { Extent } from './pool.ts';

/** Of the tables of changes; smaller ones cost the application more. */
const CHUNK = '64k';

export const thickPointArguments = (store: bigint): string[] => ['-c', CHUNK, '-L', `${store}b`];

/**
 * While the device is active: where the two points, or the point and the copy as it is (`to` null), may differ, and what is beyond the end of
 * `from`. Too much at most, never too little: the older one's table has all, and the other one's is part of it.
 */
export async function changedBetweenPoints(
  device: Device,
  pair: { from: LogicalVolume; to: LogicalVolume | null },
  size: bigint,
): Promise<Extent[]> {
  const { from, to } = pair;
  const tables = [await table(device, from), ...(to === null ? [] : [await table(device, to)])];
  return within([...tables.flat(), { offset: shownSize(from), length: size }], size);
}

async function table(device: Device, point: LogicalVolume): Promise<Range[]> {
  const { path } = await storeOf(device, point);
  const buffers: Buffer[] = [];
  const buffer = (length: number): Buffer => {
    const made = alignedBuffer(length);
    buffers.push(made);
    return made;
  };
  // Past the page cache: a buffered reader would go on seeing the table as it first was.
  await using store = await open(path, constants.O_RDONLY | constants.O_DIRECT);
  try {
    return await exceptions((into, offset) => readWhole(store, into, offset), buffer);
  } finally {
    buffers.forEach(giveBack);
  }
}

async function storeOf(device: Device, point: LogicalVolume): Promise<MappedDevice> {
  const { seen, place } = device;
  const all = await devicesOf(seen.group.uuid);
  const snapshot = all.find(({ uuid }) => uuid === uuidOf(seen.group, point));
  const [, store] = snapshot ? await below(place.run, snapshot.name, all) : [];
  if (!store) throw new FlockError('Internal', `the exception store of point ${point.name} is not active`);
  return store;
}

/** Sorted, as one where they touch, up to `size`. */
function within(ranges: readonly Range[], size: bigint): Extent[] {
  const found: Extent[] = [];
  for (const { offset, length } of ranges.toSorted((one, other) => (one.offset < other.offset ? -1 : 1))) {
    const last = found.at(-1);
    const from = last && last.offset + last.length > offset ? last.offset + last.length : offset;
    const end = offset + length < size ? offset + length : size;
    if (end <= from) continue;
    if (last && last.offset + last.length === from) last.length += end - from;
    else found.push({ offset: from, length: end - from, kind: 'DATA' });
  }
  return found;
}
