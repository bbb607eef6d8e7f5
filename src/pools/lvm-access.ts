// Opening the devices of copies: activated for it, and deactivated after the last of ours unless somebody else may have them. A writer or a
// hold keeps the device open exclusively, so that nobody mounts it meanwhile, another process neither. Runs in the copy's turn.
import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { openDirect } from '../host/direct.ts';
import { beUnheld } from '../host/holders.ts';
import type { LogicalVolume } from '../host/lvm-report.ts';
import { asFlockError, clearDevice, deviceSize } from '../host/syscalls.ts';
import { FlockError, isReason } from '../model/errors.ts';
import { DiskBlocks } from './image-blocks.ts';
import { beActive, beInactive, isActive, path, uuidOf, type LvmPlace, type Seen } from './lvm-place.ts';
import { changeUse, isOurs, useOf, type Use } from './lvm-uses.ts';
import type { BlockHandle } from './pool.ts';

/** What is activated and deactivated as one: a copy with the exception stores on it, a thin volume alone. */
export interface Device {
  place: LvmPlace;
  seen: Seen;
  /** That whose activation counts. */
  volume: LogicalVolume;
}

const keyOf = ({ seen, volume }: Device): string => uuidOf(seen.group, volume);

const usedNow = (device: Device): Use => useOf(keyOf(device));

/** Somebody else may have its device; told of one that was active before we came, too. */
export async function isAttached(device: Device): Promise<boolean> {
  const use = usedNow(device);
  return use.attached || (!isOurs(use) && (await isActive(device.seen.group, device.volume)));
}

/** Active, with what this process does with it counted. */
async function begin(device: Device, change: (use: Use) => Partial<Use>): Promise<void> {
  const attached = await isAttached(device);
  await beActive(device.place, device.seen.group, device.volume);
  changeUse(keyOf(device), { ...change(usedNow(device)), attached });
}

/** In the turn of who calls. */
async function end(device: Device, change: (use: Use) => Partial<Use>): Promise<void> {
  const use = changeUse(keyOf(device), change(usedNow(device)));
  if (isOurs(use) || use.attached) return;
  try {
    await beInactive(device.place, device.seen.group, device.volume);
  } catch (error) {
    // Somebody opened it beside us: whoever looks next is told that it is attached.
    if (!isReason(error, 'InUse')) throw error;
  }
}

const moreReaders = ({ readers }: Use): Partial<Use> => ({ readers: readers + 1 });
const fewerReaders = ({ readers }: Use): Partial<Use> => ({ readers: readers - 1 });
const moreWriters = ({ writers }: Use): Partial<Use> => ({ writers: writers + 1 });
const fewerWriters = ({ writers }: Use): Partial<Use> => ({ writers: writers - 1 });

/** Runs with the device active; `work` gets the path of `what` on it. */
export async function whileActive<T>(device: Device, work: () => Promise<T>): Promise<T> {
  await begin(device, moreReaders);
  try {
    return await work();
  } finally {
    await end(device, fewerReaders);
  }
}

/** Takes the turn for what follows: a handle is closed whenever its user likes. */
export type InTurn = (work: () => Promise<void>) => Promise<void>;

/** `shown`: the volume to read, a point on the device or it itself. */
export async function openToRead(device: Device, shown: LogicalVolume, inTurn: InTurn): Promise<BlockHandle> {
  await begin(device, moreReaders);
  const closed = (): Promise<void> => inTurn(() => end(device, fewerReaders));
  try {
    return await blocksOf(shown.device, { mode: 'read', zero: () => Promise.reject(new Error('opened for reading')), closed });
  } catch (error) {
    await end(device, fewerReaders);
    throw error;
  }
}

/** Throws InUse while it is attached or held. */
export async function openToWrite(device: Device, zero: ZeroDevice, inTurn: InTurn): Promise<BlockHandle> {
  await checkFree(device, 'write');
  await begin(device, moreWriters);
  let guard: FileHandle | null = null;
  const closed = (): Promise<void> =>
    inTurn(async () => {
      await guard?.close();
      await end(device, fewerWriters);
    });
  try {
    // Of several writers of this process the first one's is enough.
    guard = usedNow(device).writers > 1 ? null : await guarded(device);
    return await blocksOf(device.volume.device, { mode: 'write', zero, closed });
  } catch (error) {
    await guard?.close();
    await end(device, fewerWriters);
    throw error;
  }
}

/** Zeroes these bytes of an opened device. */
export type ZeroDevice = (fd: number, range: { offset: bigint; length: bigint }) => Promise<void>;

async function blocksOf(
  device: string,
  of: { mode: 'read' | 'write'; zero: ZeroDevice; closed: () => Promise<void> },
): Promise<BlockHandle> {
  const { file } = await openDirect(device, of.mode);
  return new DiskBlocks(file, deviceSize(file.fd), {
    path: device,
    mode: of.mode,
    zero: (range) => of.zero(file.fd, range),
    closed: of.closed,
  });
}

/** Nobody can mount it, format it or hold it as long as this is open. Throws InUse. */
async function guarded({ volume, place }: Device): Promise<FileHandle> {
  try {
    return await open(volume.device, constants.O_RDONLY | constants.O_EXCL);
  } catch (error) {
    await beUnheld(volume.device);
    throw asFlockError(`opening ${volume.device} of ${path(place, volume)} for us alone`, error);
  }
}

/** Throws InUse, naming why. */
export async function checkFree(device: Device, to: 'write' | 'hold' | 'attach' | 'remove'): Promise<void> {
  const { held, writers, readers } = usedNow(device);
  const { volume } = device;
  if (held) throw new FlockError('InUse', `copy ${volume.name} is held: let that end first`);
  if (to !== 'attach' && (await isAttached(device)))
    throw new FlockError('InUse', `copy ${volume.name} is attached as ${volume.device}: unmount and detach it first`);
  if ((to !== 'write' && writers > 0) || (to === 'remove' && readers > 0))
    throw new FlockError('InUse', `copy ${volume.name} is open in a transfer: let that end first`);
}

export async function attach(device: Device): Promise<string> {
  await checkFree(device, 'attach');
  const path = await beActive(device.place, device.seen.group, device.volume);
  changeUse(keyOf(device), { attached: true });
  return path;
}

/** Proven by LVM, which deactivates nothing that is open; while readers of ours have it, by an exclusive open. Throws InUse, naming the holder. */
export async function detach(device: Device): Promise<void> {
  const { volume, place, seen } = device;
  if (!(await isActive(seen.group, volume))) {
    changeUse(keyOf(device), { attached: false });
    return;
  }
  if (isOurs(usedNow(device))) {
    if (usedNow(device).attached) await (await guarded(device)).close();
  } else
    try {
      await beInactive(place, seen.group, volume);
    } catch (error) {
      if (isReason(error, 'InUse')) await beUnheld(volume.device);
      throw error;
    }
  changeUse(keyOf(device), { attached: false });
}

/** Throws InUse. */
export async function hold(device: Device, inTurn: InTurn): Promise<{ release(): Promise<void> }> {
  await checkFree(device, 'hold');
  await begin(device, () => ({ held: true }));
  let guard: FileHandle | null = null;
  const letGo = async (): Promise<void> => {
    await guard?.close();
    await end(device, () => ({ held: false }));
  };
  try {
    guard = await guarded(device);
  } catch (error) {
    await letGo();
    throw error;
  }
  let released = false;
  return {
    release: async () => {
      if (released) return;
      released = true;
      await inTurn(letGo);
    },
  };
}

/** Between two looks at whether to go on, bytes. */
const SLICE = 1n << 30n;

/** Ranges of the device read as zeros, on the disk itself. */
export async function cleared(
  device: Device,
  how: 'zero' | 'discard',
  ranges: readonly { offset: bigint; length: bigint }[],
): Promise<void> {
  if (ranges.length === 0) return;
  await whileActive(device, async () => {
    await using file = await open(device.volume.device, constants.O_RDWR | constants.O_EXCL);
    for (const { offset, length } of ranges)
      for (let at = offset; at < offset + length; at += SLICE) {
        const left = offset + length - at;
        await clearedSlice(file.fd, how, { offset: at, length: left < SLICE ? left : SLICE });
      }
    await file.sync();
  });
}

/** A disk that cannot discard keeps the bytes, as without a wipe. */
async function clearedSlice(fd: number, how: 'zero' | 'discard', range: { offset: bigint; length: bigint }): Promise<void> {
  try {
    await clearDevice(fd, how, range);
  } catch (error) {
    if (how !== 'discard' || !isReason(error, 'Unsupported')) throw error;
  }
}
