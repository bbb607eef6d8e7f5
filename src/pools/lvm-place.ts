// Where an LVM pool is and how it is changed: one command at a time a volume group, argv only, always with a look afterwards. Readers need
// no turn. A copy's own turn is the pool's affair.
import type { LvmRun } from '../host/lvm-command.ts';
import { isDevice, mapperUuid } from '../host/lvm-device.ts';
import { parseReport, reportArguments, type LogicalVolume, type VolumeGroup } from '../host/lvm-report.ts';
import { CommandFailed } from '../host/run.ts';
import { turns } from '../host/turns.ts';
import type { CrashPoint } from '../model/crash.ts';
import { FlockError } from '../model/errors.ts';
import { listVolumes, type LvmListing } from './lvm-layout.ts';
import type { LvmPolicy } from './lvm-room.ts';

export interface LvmPlace {
  /** Of the pool. */
  name: string;
  volumeGroup: string;
  /** null: copies are thick. */
  thinPool: string | null;
  policy: LvmPolicy;
  run: LvmRun;
  /** Before every LVM command: what to believe of the machine. */
  settings: readonly string[];
  crash: CrashPoint;
}

/** One a process, for pools may share a volume group. */
const groupTurns = turns();

/** Nobody else of this process changes the volume group meanwhile. */
export const inGroupTurn = <T>(place: LvmPlace, work: () => Promise<T>): Promise<T> => groupTurns(place.volumeGroup, work);

/** A container's LVM must not wait for a udev that is not there, nor start a daemon that outlives it, nor believe that what tenants write on their volumes is a disk of ours. */
export const IMAGE_SETTINGS = [
  '--config',
  'activation { udev_sync=0 udev_rules=0 verify_udev_operations=0 monitoring=0 } devices { scan_lvs=0 obtain_device_list_from_udev=0 external_device_info_source="none" }',
];
export const HOST_SETTINGS = ['--config', 'devices { scan_lvs=0 }'];

/** Longest that a change may take, ms: dissolving a large thin volume takes its time. */
const CHANGE_MS = 600_000;

export async function look({ run, settings, volumeGroup }: Pick<LvmPlace, 'run' | 'settings' | 'volumeGroup'>): Promise<VolumeGroup> {
  const { stdout } = await told(run('lvm', [...reportArguments(volumeGroup), ...settings], { allow: [5] }));
  return parseReport(stdout, volumeGroup);
}

export interface Seen {
  group: VolumeGroup;
  listing: LvmListing;
}

export async function seen(place: LvmPlace): Promise<Seen> {
  const group = await look(place);
  return { group, listing: listVolumes(group, place.thinPool) };
}

/** One command that changes the group, in the group's turn of who calls. `-y`: nobody is there to answer. */
export async function change(place: LvmPlace, program: string, args: readonly string[]): Promise<void> {
  await told(place.run(program, ['-y', ...args, ...place.settings], { patience: CHANGE_MS }));
}

/** As change, when its turn comes. */
export const changeInTurn = (place: LvmPlace, program: string, args: readonly string[]): Promise<void> =>
  inGroupTurn(place, () => change(place, program, args));

export const path = ({ volumeGroup }: LvmPlace, { name }: { name: string }): string => `${volumeGroup}/${name}`;

/** What LVM says, with a reason. */
async function told<T>(asked: Promise<T>): Promise<T> {
  try {
    return await asked;
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error;
    const reason = SAYINGS.find(([said]) => said.test(error.stderr))?.[1];
    throw reason ? new FlockError(reason, error.message, { cause: error }) : error;
  }
}

const SAYINGS: readonly [RegExp, 'InUse' | 'NoSpace' | 'NotFound'][] = [
  [/\bin use\b|is used by|Device or resource busy|filesystem in use/u, 'InUse'],
  [/[Ii]nsufficient (suitable |free )|free space|out of (data|metadata) space|larger than available/u, 'NoSpace'],
  [/[Ff]ailed to find logical volume|not found/u, 'NotFound'],
];

export const uuidOf = (group: VolumeGroup, volume: LogicalVolume): string => mapperUuid(group.uuid, volume.uuid);

export const isActive = (group: VolumeGroup, volume: LogicalVolume): Promise<boolean> => isDevice(volume.device, uuidOf(group, volume));

/** Its device is there. LVM answers 0 also where it did nothing. */
export async function beActive(place: LvmPlace, group: VolumeGroup, volume: LogicalVolume): Promise<string> {
  if (await isActive(group, volume)) return volume.device;
  await changeInTurn(place, 'lvchange', ['-ay', '-K', path(place, volume)]);
  if (!(await isActive(group, volume)))
    throw new FlockError('Internal', `LVM reported success, but ${volume.device} of ${path(place, volume)} is not there`);
  return volume.device;
}

/** Its device is not there. Throws InUse. */
export async function beInactive(place: LvmPlace, group: VolumeGroup, volume: LogicalVolume): Promise<void> {
  if (!(await isActive(group, volume))) return;
  await changeInTurn(place, 'lvchange', ['-an', path(place, volume)]);
  if (await isActive(group, volume))
    throw new FlockError('InUse', `LVM reported success, but ${volume.device} of ${path(place, volume)} is still there`);
}
