// Device-mapper as the kernel tells it, by /sys: which device is which LV, what is suspended, what is stacked on what. And dmsetup, for
// what /sys does not tell. Knows no volume group but by the beginning of its devices' UUIDs.
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { FlockError } from '../model/errors.ts';
import { ifThere, isCode } from './files.ts';
import type { LvmRun } from './lvm-command.ts';
import { deviceNumber } from './mountinfo.ts';

export interface MappedDevice {
  /** Of device-mapper, as dmsetup takes it. */
  name: string;
  uuid: string;
  /** Path of its device file. */
  path: string;
  /** `major:minor`. */
  number: string;
  suspended: boolean;
}

const BLOCK = '/sys/block';

/** How LVM names a device to the kernel: its volume group's UUID, its own, and for parts a word. */
export const mapperUuid = (groupUuid: string, volumeUuid: string): string => `LVM-${plain(groupUuid)}${plain(volumeUuid)}`;
const plain = (uuid: string): string => uuid.replaceAll('-', '');

/** A device that goes away meanwhile has nothing to tell: its files answer ENOENT, ENODEV or EINVAL then. */
async function told(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    if (isCode(error, 'ENOENT', 'ENODEV', 'EINVAL')) return '';
    throw error;
  }
}

/** All devices of one volume group, those that LVM does not show too. */
export async function devicesOf(groupUuid: string): Promise<MappedDevice[]> {
  const found: MappedDevice[] = [];
  for (const device of (await readdir(BLOCK)).filter((each) => each.startsWith('dm-'))) {
    const read = (file: string): Promise<string> => told(join(BLOCK, device, file));
    const [name, uuid, number, suspended] = await Promise.all(['dm/name', 'dm/uuid', 'dev', 'dm/suspended'].map(read));
    if (!name || !uuid?.startsWith(`LVM-${plain(groupUuid)}`)) continue;
    found.push({ name, uuid, path: `/dev/mapper/${name}`, number: number ?? '', suspended: suspended === '1' });
  }
  return found;
}

/** `path` is a device file of just this UUID, or nothing of it is active there. */
export async function isDevice(path: string, uuid: string): Promise<boolean> {
  const found = await ifThere(stat(path));
  if (!found?.isBlockDevice()) return false;
  return (await told(`/sys/dev/block/${deviceNumber(found.rdev)}/dm/uuid`)) === uuid;
}

/** Devices below one, in the order of its table: of a snapshot its origin and its store, of a thin pool its metadata and its data. */
export async function below(run: LvmRun, name: string, among: readonly MappedDevice[]): Promise<MappedDevice[]> {
  const { stdout } = await run('dmsetup', ['table', name]);
  const numbers = stdout.match(/\b[0-9]+:[0-9]+\b/gu) ?? [];
  return numbers.flatMap((number) => among.filter((device) => device.number === number));
}

/** Names of devices that have a table which is not the live one: what was to change and did not. */
export async function halfChanged(run: LvmRun): Promise<Set<string>> {
  const { stdout } = await run('dmsetup', ['info', '-c', '--noheadings', '--separator', ' ', '-o', 'name,tables_loaded']);
  const rows = stdout.split('\n').map((line) => line.trim().split(' '));
  return new Set(rows.flatMap(([name, tables]) => (name && (tables === 'Both' || tables === 'Inactive') ? [name] : [])));
}

export interface ThinPoolState {
  /** Blocks. */
  metadataUsed: bigint;
  metadataTotal: bigint;
  dataUsed: bigint;
  dataTotal: bigint;
  /** A snapshot of the metadata is held. */
  held: boolean;
  /** `rw`, `ro`, `out_of_data_space`, or why it failed. */
  mode: string;
}

/** Of `dmsetup status` of a thin pool. Throws Corrupt when it has failed. */
export function parseThinPool(status: string): ThinPoolState {
  const [, , target, , metadata, data, held, mode] = status.trim().split(/\s+/u);
  const [metadataUsed, metadataTotal] = (metadata ?? '').split('/');
  const [dataUsed, dataTotal] = (data ?? '').split('/');
  if (target !== 'thin-pool' || !metadataTotal || !dataTotal)
    throw new FlockError('Corrupt', `the thin pool has failed (${status.trim()}): repair it (lvconvert --repair)`);
  return {
    metadataUsed: BigInt(metadataUsed ?? 0),
    metadataTotal: BigInt(metadataTotal),
    dataUsed: BigInt(dataUsed ?? 0),
    dataTotal: BigInt(dataTotal),
    held: held !== '-',
    mode: mode ?? '',
  };
}
