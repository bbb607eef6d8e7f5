// Points of thick copies: snapshots with an exception store each, whose table says what was written since. Costs the application writes, so
// it is there for moves and for what a person asked for.
import { open } from 'node:fs/promises';
import { constants } from 'node:fs';
import { alignedBuffer, giveBack } from '../host/aligned.ts';
import { readWhole } from '../host/direct.ts';
import { below, devicesOf, type MappedDevice } from '../host/lvm-device.ts';
import { exceptions } from '../host/lvm-exceptions.ts';
import type { LogicalVolume } from '../host/lvm-report.ts';
import { FlockError } from '../model/errors.ts';
import { uuidOf } from './lvm-place.ts';
import type { Device } from './lvm-access.ts';
import { shownSize } from './lvm-layout.ts';
import type { Extent } from './pool.ts';

/** Of the tables of changes; smaller ones cost the application more. */
const CHUNK = '64k';

export const thickPointArguments = (store: bigint): string[] => ['-c', CHUNK, '-L', `${store}b`];

/** While the device is active: what was written since the point, and what is beyond its end. Too much at most, never too little. */
export async function changedSincePoint(device: Device, point: LogicalVolume, size: bigint): Promise<Extent[]> {
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
    const ranges = await exceptions((into, offset) => readWhole(store, into, offset), buffer);
    return within([...ranges, { offset: shownSize(point), length: size }], size);
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

function within(ranges: readonly { offset: bigint; length: bigint }[], size: bigint): Extent[] {
  return ranges.flatMap(({ offset, length }) => {
    const end = offset + length < size ? offset + length : size;
    return end > offset ? [{ offset, length: end - offset, kind: 'DATA' as const }] : [];
  });
}
