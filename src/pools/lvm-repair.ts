// What a crash of LVM itself, or of the machine, left of a pool's devices: suspended ones are resumed, tables that were to come are dropped,
// leftovers removed, a held snapshot of thin metadata let go. Only devices of the pool's own volumes, and only while no LVM command runs.
import { readdir, readFile } from 'node:fs/promises';
import { halfChanged, devicesOf, type MappedDevice } from '../host/lvm-device.ts';
import type { VolumeGroup } from '../host/lvm-report.ts';
import { listVolumes } from './lvm-layout.ts';
import { inGroupTurn, seen, uuidOf, type LvmPlace } from './lvm-place.ts';
import { metadataLetGo, poolDevices } from './lvm-thin.ts';

/** How often others' LVM commands are looked for before what is suspended counts as left behind. */
const LOOKS = 50;
const PAUSE_MS = 100;

/** Names of the devices that were mended. */
export async function mended(place: LvmPlace): Promise<string[]> {
  return inGroupTurn(place, async () => {
    const { group } = await seen(place);
    if (place.thinPool !== null) await metadataLetGo(place, (await poolDevices(place, group)).pool);
    const broken = await brokenDevices(place, group);
    if (broken.length === 0 || !(await areAlone())) return [];
    // Whoever was at work may have ended well meanwhile.
    const still = await brokenDevices(place, group);
    for (const device of still) await mend(place, device);
    return still.map(({ name }) => name);
  });
}

interface BrokenDevice extends MappedDevice {
  half: boolean;
  /** Its LV is not there any more. */
  left: boolean;
}

async function brokenDevices(place: LvmPlace, group: VolumeGroup): Promise<BrokenDevice[]> {
  const half = await halfChanged(place.run);
  const ours = ourUuids(place, group);
  const all = (await devicesOf(group.uuid)).map((device) => ({ ...device, half: half.has(device.name), left: isLeft(device, group) }));
  return all.filter(
    (device) => (device.suspended || device.half || device.left) && (ours.some((uuid) => device.uuid.startsWith(uuid)) || device.left),
  );
}

function ourUuids(place: LvmPlace, group: VolumeGroup): string[] {
  const { copies, stray } = listVolumes(group, place.thinPool);
  const volumes = [...copies.values()].flatMap(({ volume, points, brokenPoints }) => [volume, ...points.values(), ...brokenPoints]);
  const pool = group.volumes.filter(({ name }) => name === place.thinPool);
  return [...volumes, ...stray, ...pool].map((volume) => uuidOf(group, volume));
}

/** Of a name of ours, hyphens doubled as device-mapper has them, and of an LV that the group does not know. */
const OURS = /-[0-9a-f]{8}(?:--[0-9a-f]{4}){3}--[0-9a-f]{12}--[a-z0-9]{1,32}(?:\.[a-z0-9]{1,32})?(?:-real|-cow)?$/u;

const isLeft = (device: MappedDevice, group: VolumeGroup): boolean =>
  OURS.test(device.name) && !group.volumes.some((volume) => device.uuid.startsWith(uuidOf(group, volume)));

async function mend({ run }: LvmPlace, device: BrokenDevice): Promise<void> {
  if (device.half) await run('dmsetup', ['clear', device.name]);
  if (device.suspended) await run('dmsetup', ['resume', device.name]);
  // One that is still used stays: the next start finds it again.
  if (device.left) await run('dmsetup', ['remove', device.name], { allow: [1] });
}

/** No LVM command runs on this machine, a person's neither. */
async function areAlone(): Promise<boolean> {
  for (let left = LOOKS; left > 0; left -= 1) {
    if (!(await anyLvmRuns())) return true;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  return false;
}

async function anyLvmRuns(): Promise<boolean> {
  for (const pid of (await readdir('/proc')).filter((name) => /^[0-9]+$/u.test(name))) {
    const command = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '');
    if (/^(?:lvm|(?:lv|vg|pv)[a-z]+)$/u.test(command.trim())) return true;
  }
  return false;
}
