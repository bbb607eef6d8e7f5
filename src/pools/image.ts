// Pool `image`: a copy is a raw file in one folder, attached as a loop device; points in time are reflinks of it. Here is the pool as its
// users see it; image-life.ts says how a copy begins and ends, image-place.ts who may do what at the same time. Knows no records.
import { constants } from 'node:fs';
import { access, open, rename, unlink, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { beAbsent, syncFolder, temporaryName } from '../host/files.ts';
import { writersOf } from '../host/holders.ts';
import { beAsLargeAsItsFile, beAttached, beDetached, loopDevices, loopsAmong, loopsOf, type LoopDevice } from '../host/loop.ts';
import { cloneFile } from '../host/syscalls.ts';
import { noCrash, type CrashPoint } from '../model/crash.ts';
import { FlockError, Invalid, isReason } from '../model/errors.ts';
import type { CopyLabel } from '../model/label.ts';
import { isSnapshotPoint } from '../model/points.ts';
import { roundUp } from '../model/quantity.ts';
import { openBlocks } from './image-blocks.ts';
import { allData, allDataSought, difference } from './image-changes.ts';
import { sidecarOrNull, sidecarOrWhy, whole } from './image-damage.ts';
import { JOURNALS, listing, sizeOf, writeSidecar, type Sidecar } from './image-layout.ts';
import { begunToRemove, enlarged, finished, removed } from './image-life.ts';
import { PoolIdentity } from './image-marker.ts';
import { filesOf, inCopyTurn, lockCopy, notThere, whileBooking, withCopyLocked, type Place } from './image-place.ts';
import { checkRoom, checkRoomToFreeze, roomOf, UNIT, type RoomPolicy } from './image-room.ts';
import { lookedAt } from './image-scan.ts';
import type { BlockHandle, CopyName, Extent, Hold, Inventory, PointName, PointOf, Pool, PoolRoom } from './pool.ts';

export interface ImagePoolOptions {
  name: string;
  path: string;
  /** As beInitialised returned it. */
  uuid: string;
  policy: RoomPolicy;
  crash?: CrashPoint;
}

/** Looks at what the folder and the machine can do. Throws NotPermitted when it is not that pool. */
export async function openImagePool(options: ImagePoolOptions): Promise<Pool> {
  const identity = new PoolIdentity(options.path, options.uuid);
  await identity.verify();
  return new ImagePool(options, identity, { points: await canShareBlocks(options.path), attachable: await canAttach() });
}

async function canAttach(): Promise<boolean> {
  if (process.getuid?.() !== 0) return false;
  return access('/dev/loop-control', constants.R_OK | constants.W_OK).then(
    () => true,
    () => false,
  );
}

/** Tried, not guessed: XFS and btrfs can be made without it. */
async function canShareBlocks(folder: string): Promise<boolean> {
  const paths = ['a', 'b'].map((each) => temporaryName(join(folder, `.flock-probe-${process.pid}-${each}`)));
  const [from, to] = await Promise.all(paths.map((path) => open(path, 'w+', 0o600)));
  try {
    if (!from || !to) return false;
    await from.write(Buffer.alloc(Number(UNIT), 1));
    await cloneFile(to.fd, from.fd);
    return true;
  } catch (error) {
    if (isReason(error, 'Unsupported')) return false;
    throw error;
  } finally {
    await Promise.all([from?.close(), to?.close()]);
    await Promise.all(paths.map((path) => unlink(path)));
  }
}

class ImagePool implements Pool {
  readonly type = 'image';
  readonly unit = UNIT;
  readonly name: string;
  readonly uuid: string;
  readonly thin: boolean;
  readonly points: boolean;
  readonly attachable: boolean;
  readonly journals: string;
  private readonly place: Place;
  private readonly identity: PoolIdentity;

  constructor(options: ImagePoolOptions, identity: PoolIdentity, can: { points: boolean; attachable: boolean }) {
    const { name, path, policy, crash = noCrash } = options;
    this.name = name;
    this.uuid = options.uuid;
    this.thin = policy.overcommit !== null;
    this.place = { name, path, policy, crash };
    this.identity = identity;
    this.points = can.points;
    this.attachable = can.attachable;
    this.journals = join(path, JOURNALS);
  }

  verify(): Promise<void> {
    return this.identity.verify();
  }

  async room(): Promise<PoolRoom> {
    await this.verify();
    return roomOf(this.place.path, this.place.policy);
  }

  async scan(): Promise<Inventory> {
    await this.verify();
    const found = await listing(this.place.path);
    const loops = this.attachable ? await loopDevices() : [];
    const inventory: Inventory = { copies: [], unlabelled: [], foreign: [...found.foreign] };
    for (const [name, there] of found.copies) {
      const { copies, unlabelled, foreign } = await inCopyTurn(this.place, name, () => lookedAt(this.place, name, there));
      for (const copy of copies) inventory.copies.push({ ...copy, device: await this.deviceAmong(loops, name) });
      inventory.unlabelled.push(...unlabelled);
      inventory.foreign.push(...foreign);
    }
    // A disk that went away meanwhile is no damage of its copies.
    await this.verify();
    return inventory;
  }

  async create(name: CopyName, size: bigint, label: CopyLabel): Promise<bigint> {
    return this.begin(name, size, label);
  }

  async clone(name: CopyName, size: bigint, label: CopyLabel, from: PointOf): Promise<bigint> {
    const source = await sizeOf(filesOf(this.place, from.copy).point(from.point));
    if (source && source.size > size)
      throw new Invalid(`copy ${name} of ${size} bytes is too small for point ${from.point} of ${from.copy}, which has ${source.size}`);
    return this.begin(name, size, label, from);
  }

  private async begin(name: CopyName, size: bigint, label: CopyLabel, from?: PointOf): Promise<bigint> {
    const files = filesOf(this.place, name);
    if (size <= 0n) throw new Invalid(`copy ${name} cannot be made with a size of ${size}: it must be more than 0`);
    return this.booking(name, async () => {
      const there = await sidecarOrNull(this.place, name);
      if (there) return finished(this.place, name, there);
      if (await sizeOf(files.image))
        throw new FlockError('AlreadyExists', `${files.image} is there without a label: it is nobody's copy; move it away first`);
      const real = roundUp(size, UNIT);
      await checkRoom(this.place, real);
      const begun: Sidecar = { version: 1, state: 'creating', thick: !this.thin, label: { ...label, size: String(real) } };
      const sidecar: Sidecar = from ? { ...begun, from } : begun;
      await writeSidecar(files, sidecar);
      this.place.crash('create:labelled');
      return finished(this.place, name, sidecar);
    });
  }

  async grow(name: CopyName, size: bigint): Promise<bigint> {
    return this.booking(name, async () => {
      const cutOff = await sidecarOrNull(this.place, name);
      if (cutOff?.state === 'growing') await finished(this.place, name, cutOff);
      const sidecar = await whole(this.place, name);
      const from = BigInt(sidecar.label.size);
      const to = roundUp(size, UNIT);
      if (to > from) {
        await checkRoom(this.place, to - from);
        await enlarged(this.place, name, sidecar, to);
      }
      for (const loop of await this.loops(name)) await beAsLargeAsItsFile(loop.device);
      return to > from ? to : from;
    });
  }

  async relabel(name: CopyName, label: CopyLabel): Promise<void> {
    await this.writing(name, async () => {
      const sidecar = await whole(this.place, name);
      await writeSidecar(filesOf(this.place, name), { ...sidecar, label: { ...label, size: sidecar.label.size } });
    });
  }

  async remove(name: CopyName, wipe: 'none' | 'discard' | 'zero'): Promise<void> {
    await this.writing(name, async () => {
      const there = await sidecarOrWhy(this.place, name);
      if (there === null && !(await listing(this.place.path)).copies.has(name)) return;
      await withCopyLocked(this.place, name, async () => {
        await this.checkUnattached(name);
        const isReadable = there !== null && typeof there !== 'string';
        await removed(this.place, name, isReadable ? await begunToRemove(this.place, name, there, wipe) : { wipe });
      });
    });
  }

  async freeze(name: CopyName, point: PointName): Promise<void> {
    const target = filesOf(this.place, name).point(point);
    if (!this.points)
      throw new FlockError(
        'Unsupported',
        `pool ${this.name} lies on a filesystem without reflinks: it has no points in time; use XFS or btrfs`,
      );
    await this.booking(name, async () => {
      const { thick, label } = await whole(this.place, name);
      if (await sizeOf(target)) return;
      if (thick) await (isSnapshotPoint(point) ? checkRoom : checkRoomToFreeze)(this.place, BigInt(label.size));
      const temporary = temporaryName(target);
      await this.share(name, temporary);
      this.place.crash('freeze:cloned');
      await rename(temporary, target);
      await syncFolder(this.place.path);
    });
  }

  async release(name: CopyName, point: PointName): Promise<void> {
    const path = filesOf(this.place, name).point(point);
    await this.writing(name, () => beAbsent(path));
  }

  async *changed(name: CopyName, from: PointName | null, to: PointName | 'live'): AsyncIterable<Extent> {
    await this.checkWhole(name);
    await using now = await this.openFile(name, to);
    const { size } = await now.stat({ bigint: true });
    if (from === null) return yield* this.points ? allData(now, size) : allDataSought(now, size);
    await using before = await this.openFile(name, from);
    yield* difference({ file: before, size: (await before.stat({ bigint: true })).size }, { file: now, size });
  }

  async open(name: CopyName, point: PointName | 'live', mode: 'read' | 'write'): Promise<BlockHandle> {
    const path = this.pathOf(name, point);
    if (mode === 'write' && point !== 'live')
      throw new FlockError('NotPermitted', `point ${point} of ${name} cannot be written: a point in time does not change`);
    if (mode === 'write') return this.writing(name, () => this.openToWrite(name));
    await this.checkWhole(name);
    if (!(await sizeOf(path))) throw notThere(this.place, `${name} at ${point}`);
    return openBlocks({ path, mode, thick: !this.thin, lock: null });
  }

  async attach(name: CopyName): Promise<string> {
    const { image } = filesOf(this.place, name);
    return this.writing(name, async () => {
      await whole(this.place, name);
      return withCopyLocked(this.place, name, async () => (this.attachable ? (await beAttached(image)).device : image));
    });
  }

  async detach(name: CopyName): Promise<void> {
    const { image } = filesOf(this.place, name);
    await inCopyTurn(this.place, name, () => (this.attachable ? beDetached(image) : this.checkUnwritten(name, process.pid)));
  }

  async hold(name: CopyName): Promise<Hold> {
    return this.writing(name, async () => {
      await whole(this.place, name);
      const lock = await lockCopy(this.place, name, 'exclusive');
      try {
        await this.checkUnattached(name);
        await this.checkUnwritten(name);
      } catch (error) {
        await lock.release();
        throw error;
      }
      return lock;
    });
  }

  private async share(name: CopyName, target: string): Promise<void> {
    await beAbsent(target);
    await using live = await this.openFile(name, 'live');
    await live.datasync();
    await using point = await open(target, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o400);
    await cloneFile(point.fd, live.fd);
    await point.sync();
  }

  private async openToWrite(name: CopyName): Promise<BlockHandle> {
    const { thick } = await whole(this.place, name);
    const lock = await lockCopy(this.place, name, 'shared');
    try {
      await this.checkUnattached(name);
      return await openBlocks({ path: filesOf(this.place, name).image, mode: 'write', thick, lock });
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  /** For looking at its extents; content is read by `open`. */
  private async openFile(name: CopyName, point: PointName | 'live'): Promise<FileHandle> {
    const path = this.pathOf(name, point);
    if (!(await sizeOf(path))) throw notThere(this.place, `${name} at ${point}`);
    return open(path, constants.O_RDONLY);
  }

  /** A damaged copy's points are not read either: what else of it is damaged is not known. */
  private async checkWhole(name: CopyName): Promise<void> {
    await inCopyTurn(this.place, name, () => whole(this.place, name));
  }

  private async checkUnattached(name: CopyName): Promise<void> {
    const [loop] = await this.loops(name);
    if (loop) throw new FlockError('InUse', `copy ${name} is attached as ${loop.device}: unmount and detach it first`);
    // Where the raw file itself is handed out, whoever writes it has it attached. This process is kept out by the copy's lock.
    if (!this.attachable) await this.checkUnwritten(name, process.pid);
  }

  private async checkUnwritten(name: CopyName, but?: number): Promise<void> {
    const { image } = filesOf(this.place, name);
    if (!(await sizeOf(image))) return;
    const writers = await writersOf(image, but);
    if (writers.length > 0) throw new FlockError('InUse', `copy ${name} is open for writing in ${writers.join(', ')}: end that first`);
  }

  private async loops(name: CopyName): Promise<LoopDevice[]> {
    return this.attachable ? loopsOf(filesOf(this.place, name).image) : [];
  }

  private async deviceAmong(loops: readonly LoopDevice[], name: CopyName): Promise<string | null> {
    const found = await loopsAmong(loops, filesOf(this.place, name).image);
    return found[0]?.device ?? null;
  }

  /** The copy's turn, on a disk that was just found to be the right one. */
  private async writing<T>(name: CopyName, work: () => Promise<T>): Promise<T> {
    filesOf(this.place, name);
    await this.verify();
    return inCopyTurn(this.place, name, work);
  }

  private booking<T>(name: CopyName, work: () => Promise<T>): Promise<T> {
    return this.writing(name, () => whileBooking(this.place, work));
  }

  private pathOf(name: CopyName, point: PointName | 'live'): string {
    const files = filesOf(this.place, name);
    return point === 'live' ? files.image : files.point(point);
  }
}
