// Points of thin copies: thin snapshots. What changed between two is read from the pool's metadata, of which a snapshot is held meanwhile;
// there is room for one a pool, so that whoever needs it takes turns, and one left by a crash is let go first.
import { devicesOf, below, parseThinPool, type MappedDevice } from '../host/lvm-device.ts';
import type { LogicalVolume, VolumeGroup } from '../host/lvm-report.ts';
import { mappedRanges } from '../host/lvm-thin-map.ts';
import { FlockError } from '../model/errors.ts';
import { beActive, inGroupTurn, uuidOf, type LvmPlace } from './lvm-place.ts';
import { thinPoolOf } from './lvm-room.ts';
import type { Extent } from './pool.ts';

/** A table of millions of changes takes longer than other looks, ms. */
const MAP_MS = 600_000;

/** What `to` has and `from` has not; of `from` null all that is mapped. What is mapped in neither reads as zeros. */
export async function changedBetween(
  place: LvmPlace,
  group: VolumeGroup,
  pair: { from: LogicalVolume | null; to: LogicalVolume },
): Promise<Extent[]> {
  const { from, to } = pair;
  const tool = from === null ? 'thin_dump' : 'thin_delta';
  const ids = from === null ? ['--dev-id', String(to.thinId)] : ['--snap1', String(from.thinId), '--snap2', String(to.thinId)];
  const text = await withMetadataHeld(place, group, async (metadata) => {
    const { stdout } = await place.run(tool, ['--metadata-snap', ...ids, metadata], { patience: MAP_MS });
    return stdout;
  });
  checkWhole(text, { tool, of: to.name });
  return [...extents(text, to.size)];
}

function* extents(text: string, size: bigint): Iterable<Extent> {
  for (const { offset, length, kind } of mappedRanges(text.split('\n'))) {
    const end = offset + length < size ? offset + length : size;
    if (end > offset) yield { offset, length: end - offset, kind: kind === 'data' ? 'DATA' : 'ZERO' };
  }
}

/** The tools answer 0 for a device that they do not know, and say nothing of it: that must not pass for `nothing changed`. */
function checkWhole(text: string, { tool, of }: { tool: string; of: string }): void {
  if (/<(device|diff) /u.test(text) && text.trimEnd().endsWith('</superblock>')) return;
  throw new FlockError('Internal', `${tool} told nothing of ${of}: the pool's metadata does not know it`);
}

/** Runs with the path of the metadata's device, which holds still. */
async function withMetadataHeld<T>(place: LvmPlace, group: VolumeGroup, work: (metadata: string) => Promise<T>): Promise<T> {
  const { pool, metadata } = await poolDevices(place, group);
  return inGroupTurn(place, async () => {
    await metadataLetGo(place, pool);
    await place.run('dmsetup', ['message', pool.name, '0', 'reserve_metadata_snap']);
    try {
      return await work(metadata.path);
    } finally {
      await place.run('dmsetup', ['message', pool.name, '0', 'release_metadata_snap']);
    }
  });
}

/** No snapshot of the metadata is held: one survives whoever took it, and power cuts too. */
export async function metadataLetGo(place: LvmPlace, pool: MappedDevice): Promise<void> {
  const { stdout } = await place.run('dmsetup', ['status', pool.name]);
  if (parseThinPool(stdout).held) await place.run('dmsetup', ['message', pool.name, '0', 'release_metadata_snap']);
}

/** Active ones, of the thin pool itself. */
export async function poolDevices(place: LvmPlace, group: VolumeGroup): Promise<{ pool: MappedDevice; metadata: MappedDevice }> {
  const volume = thinPoolOf(group, place.thinPool ?? '');
  const uuid = `${uuidOf(group, volume)}-tpool`;
  const find = async (): Promise<MappedDevice[]> => devicesOf(group.uuid);
  let all = await find();
  if (!all.some((device) => device.uuid === uuid)) {
    await beActive(place, group, volume).catch(() => undefined);
    all = await find();
  }
  const pool = all.find((device) => device.uuid === uuid);
  const [metadata] = pool ? await below(place.run, pool.name, all) : [];
  if (!pool || !metadata)
    throw new FlockError('Unavailable', `thin pool ${group.name}/${volume.name} cannot be activated: look at the kernel's log`);
  return { pool, metadata };
}
