// From a configuration to an LVM pool: looks whether it can be one, waits for what an earlier agent began, mends what a crash left.
import { LvmCommands, type Tools } from '../host/lvm-command.ts';
import { noCrash, type CrashPoint } from '../model/crash.ts';
import { FlockError } from '../model/errors.ts';
import { checkIdentity, poolUuid } from './lvm-identity.ts';
import { HOST_SETTINGS, IMAGE_SETTINGS, look, seen, type LvmPlace } from './lvm-place.ts';
import { mended } from './lvm-repair.ts';
import { thinPoolOf, type LvmPolicy } from './lvm-room.ts';
import { LvmPool } from './lvm.ts';
import type { VolumeGroup } from '../host/lvm-report.ts';
import { poolDevices } from './lvm-thin.ts';
import type { Pool } from './pool.ts';

export interface LvmPoolOptions {
  name: string;
  volumeGroup: string;
  /** null: a thick pool. */
  thinPool: string | null;
  policy: LvmPolicy;
  tools: Tools;
  /** Folder for journals, on any disk of this node: a volume group has no folders. */
  journals: string;
  /** As it was known before; null: not yet. */
  uuid: string | null;
  crash?: CrashPoint;
}

/** What does not end is remembered for the whole process. */
const commands = new Map<string, LvmCommands>();

function commandsOf(volumeGroup: string, tools: Tools): LvmCommands {
  const key = `${tools} ${volumeGroup}`;
  const known = commands.get(key) ?? new LvmCommands(volumeGroup, tools);
  commands.set(key, known);
  return known;
}

/** Throws NotFound when there is no such volume group or thin pool, NotPermitted when it is another one, Unavailable when an earlier command does not end. */
export async function openLvmPool(options: LvmPoolOptions): Promise<Pool> {
  const { name, volumeGroup, thinPool, policy, tools, crash = noCrash } = options;
  const { run, settled } = bound(commandsOf(volumeGroup, tools));
  const place: LvmPlace = { name, volumeGroup, thinPool, policy, run, settings: tools === 'host' ? HOST_SETTINGS : IMAGE_SETTINGS, crash };
  const group = await look(place);
  const uuid = poolUuid(group, thinPool);
  if (options.uuid !== null) checkIdentity(place, options.uuid, group);
  await settled();
  const block = thinPool === null ? null : await thinBlock(place, group, thinPool);
  await mended(place);
  return new LvmPool({
    place,
    uuid,
    unit: group.extent * (thinPool === null ? policy.layout.stripes : 1n),
    journals: options.journals,
    block,
  });
}

const bound = (of: LvmCommands): Pick<LvmCommands, 'run' | 'settled'> => ({ run: of.run, settled: () => of.settled() });

/** Bytes that zeroing gives back at once; null: the pool ignores discards, and zeros are written. */
async function thinBlock(place: LvmPlace, group: VolumeGroup, name: string): Promise<bigint | null> {
  const pool = thinPoolOf(group, name);
  if (!pool.zeroes)
    throw new FlockError(
      'NotPermitted',
      `thin pool ${group.name}/${name} does not zero new blocks: a volume would show what an earlier one wrote. Let it (lvchange -Zy ${group.name}/${name})`,
    );
  // How full it is, LVM tells of an active one only.
  await poolDevices(place, (await seen(place)).group);
  return pool.discards === 'ignore' ? null : pool.chunk;
}
