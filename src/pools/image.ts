// Pool `image`: a copy is a raw file in one folder, attached as a loop device; points in time are reflinks of it. Orders of writes:
// create: label "creating" (books the room) → image → label "ready". Remove: label "removing" → points → image → label. Grow: label → image.
// So a label is there before the first and until the last of its files, and scan finishes what a crash left. Knows no records.
import { constants } from 'node:fs';
import { access, open, rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { beAbsent, syncFolder, temporaryName, tryLockFile, type Lock } from '../host/files.ts';
import { writersOf } from '../host/holders.ts';
import { beAsLargeAsItsFile, beAttached, beDetached, beWithoutDiscard, loopDevices, loopsAmong, loopsOf } from '../host/loop.ts';
import { cloneFile } from '../host/syscalls.ts';
import { noCrash, type CrashPoint } from '../model/crash.ts';
import { FlockError, Invalid, isReason } from '../model/errors.ts';
import type { CopyLabel } from '../model/label.ts';
import { roundUp } from '../model/quantity.ts';
import { openBlocks } from './image-blocks.ts';
import { allData, allDataSought, difference } from './image-changes.ts';
import { allocate, shrinkBack, wiped } from './image-files.ts';
import {
  checkedCopy,
  checkedPoint,
  CopyFiles,
  JOURNALS,
  listing,
  readSidecar,
  sizeOf,
  writeSidecar,
  type Sidecar,
} from './image-layout.ts';
import { PoolIdentity } from './image-marker.ts';
import { checkRoom, lockPool, promised, roomOf, UNIT, type RoomPolicy } from './image-room.ts';
import type { BlockHandle, Copy, CopyName, Extent, Hold, Inventory, PointName, Pool, PoolRoom } from './pool.ts';
import { inTurn } from './turns.ts';

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
  private readonly path: string;
  private readonly policy: RoomPolicy;
  private readonly place: { name: string; path: string; policy: RoomPolicy };
  private readonly identity: PoolIdentity;
  private readonly crash: CrashPoint;

  constructor(options: ImagePoolOptions, identity: PoolIdentity, can: { points: boolean; attachable: boolean }) {
    this.name = options.name;
    this.path = options.path;
    this.uuid = options.uuid;
    this.policy = options.policy;
    this.place = { name: options.name, path: options.path, policy: options.policy };
    this.thin = options.policy.overcommit !== null;
    this.crash = options.crash ?? noCrash;
    this.identity = identity;
    this.points = can.points;
    this.attachable = can.attachable;
    this.journals = join(options.path, JOURNALS);
  }

  verify(): Promise<void> {
    return this.identity.verify();
  }

  async room(): Promise<PoolRoom> {
    await this.verify();
    return roomOf(this.path, this.policy);
  }

  async scan(): Promise<Inventory> {
    await this.verify();
    const found = await listing(this.path);
    const loops = this.attachable ? await loopDevices() : [];
    const inventory: Inventory = { copies: [], foreign: [...found.foreign] };
    for (const [name, there] of found.copies) {
      const copy = await inTurn(this.turn(name), () => this.mended(name));
      if (copy) inventory.copies.push({ ...copy, device: (await loopsAmong(loops, this.files(name).image))[0]?.device ?? null });
      else inventory.foreign.push(...(await this.unclaimed(name, there.points)));
    }
    return inventory;
  }

  async create(name: CopyName, size: bigint, label: CopyLabel): Promise<bigint> {
    if (size <= 0n) throw new Invalid(`copy ${name} cannot be made with a size of ${size}: it must be more than 0`);
    return this.booking(name, async () => {
      const there = await this.unlessAbsent(name);
      if (there) return this.finished(name, there);
      if (await sizeOf(this.files(name).image))
        throw new FlockError(
          'AlreadyExists',
          `${this.files(name).image} is there without a label: it is nobody's copy; move it away first`,
        );
      const real = roundUp(size, UNIT);
      await checkRoom(this.place, real);
      const sidecar: Sidecar = { version: 1, state: 'creating', thick: !this.thin, label: { ...label, size: String(real) } };
      await writeSidecar(this.files(name), sidecar);
      this.crash('create:labelled');
      return this.finished(name, sidecar);
    });
  }

  async grow(name: CopyName, size: bigint): Promise<bigint> {
    return this.booking(name, async () => {
      const files = this.files(name);
      const sidecar = await this.ready(name);
      const real = (await this.imageSize(name)).size;
      const wanted = roundUp(size, UNIT);
      if (wanted > real) {
        const already = await promised(files);
        if (wanted > already) await checkRoom(this.place, wanted - already);
        await this.enlarged(name, sidecar, { from: real, to: wanted });
      }
      for (const loop of await this.loops(name)) await beAsLargeAsItsFile(loop.device);
      return wanted > real ? wanted : real;
    });
  }

  async relabel(name: CopyName, label: CopyLabel): Promise<void> {
    await this.writing(name, async () => {
      const sidecar = await this.ready(name);
      const { size } = await this.imageSize(name);
      await writeSidecar(this.files(name), { ...sidecar, label: { ...label, size: String(size) } });
    });
  }

  async remove(name: CopyName, wipe: 'none' | 'discard' | 'zero'): Promise<void> {
    await this.writing(name, async () => {
      const there = await this.unlessAbsent(name);
      if (!there) return;
      await this.unattached(name);
      const lock = await this.exclusive(name);
      try {
        const sidecar: Sidecar = there.state === 'removing' ? there : { ...there, state: 'removing', wipe };
        await writeSidecar(this.files(name), sidecar);
        this.crash('remove:labelled');
        await this.removed(name, sidecar);
      } finally {
        await lock.release();
      }
    });
  }

  async freeze(name: CopyName, point: PointName): Promise<void> {
    if (!this.points) throw this.noPoints();
    const target = this.files(name).point(point);
    await this.writing(name, async () => {
      await this.ready(name);
      if (await sizeOf(target)) return;
      const temporary = temporaryName(target);
      await this.cloned(name, temporary);
      this.crash('freeze:cloned');
      await rename(temporary, target);
      await syncFolder(this.path);
    });
  }

  async release(name: CopyName, point: PointName): Promise<void> {
    const path = this.files(name).point(point);
    await this.writing(name, () => beAbsent(path));
  }

  async *changed(name: CopyName, from: PointName | null, to: PointName | 'live'): AsyncIterable<Extent> {
    const old = from === null ? null : this.files(name).point(from);
    await using now = await this.opened(this.pathOf(name, to), `${name} at ${to}`);
    const { size } = await now.stat({ bigint: true });
    if (old === null) return yield* this.points ? allData(now, size) : allDataSought(now, size);
    await using before = await this.opened(old, `point ${from} of ${name}`);
    yield* difference({ file: before, size: (await before.stat({ bigint: true })).size }, { file: now, size });
  }

  async open(name: CopyName, point: PointName | 'live', mode: 'read' | 'write'): Promise<BlockHandle> {
    const path = this.pathOf(name, point);
    if (mode === 'read') {
      if (!(await sizeOf(path))) throw this.notThere(`${name} at ${point}`);
      return openBlocks({ path, mode, thick: !this.thin, lock: null });
    }
    if (point !== 'live')
      throw new FlockError('NotPermitted', `point ${point} of ${name} cannot be written: a point in time does not change`);
    return this.writing(name, () => this.openedToWrite(name));
  }

  async attach(name: CopyName): Promise<string> {
    this.checkAttachable();
    return this.writing(name, async () => {
      const { thick } = await this.ready(name);
      const lock = await this.exclusive(name);
      try {
        const { device } = await beAttached(this.files(name).image);
        if (thick) await beWithoutDiscard(device);
        return device;
      } finally {
        await lock.release();
      }
    });
  }

  async detach(name: CopyName): Promise<void> {
    checkedCopy(name);
    // Where nothing can be attached nothing is.
    if (!this.attachable) return;
    await inTurn(this.turn(name), () => beDetached(this.files(name).image));
  }

  async hold(name: CopyName): Promise<Hold> {
    return this.writing(name, async () => {
      await this.ready(name);
      const lock = await this.exclusive(name);
      try {
        await this.unattached(name);
        const writers = await writersOf(this.files(name).image);
        if (writers.length > 0) throw new FlockError('InUse', `copy ${name} is open for writing in ${writers.join(', ')}: end that first`);
      } catch (error) {
        await lock.release();
        throw error;
      }
      return lock;
    });
  }

  /** A half-made copy is made whole or removed; null: nothing that could be reported as a copy. */
  private async mended(name: CopyName): Promise<Copy | null> {
    const sidecar = await readSidecar(this.files(name)).catch((error: unknown) => {
      if (isReason(error, 'NotFound', 'Corrupt')) return null;
      throw error;
    });
    if (!sidecar) return null;
    if (sidecar.state === 'removing') return this.removed(name, sidecar).then(() => null);
    await this.finished(name, sidecar);
    await this.withoutLeftovers(name);
    const points = (await listing(this.path)).copies.get(name)?.points ?? [];
    return { name, label: (await readSidecar(this.files(name))).label, ...(await this.imageSize(name)), points, device: null };
  }

  /** Files with the name of a copy that has no readable label: reported; a lock alone is swept away. */
  private async unclaimed(name: CopyName, points: string[]): Promise<string[]> {
    const files = this.files(name);
    const there = (await listing(this.path)).copies.get(name);
    if (!there) return [];
    if (!there.image && !there.sidecar && points.length === 0) {
      await this.withoutLeftovers(name);
      await beAbsent(files.lock);
      return [];
    }
    const named = [
      there.image ? `${name}.img` : '',
      there.sidecar ? `${name}.json` : '',
      ...there.points.map((point) => `${name}.${point}.point`),
    ];
    return named.filter((each) => each !== '');
  }

  private async withoutLeftovers(name: CopyName): Promise<void> {
    const unfinished = (await listing(this.path)).copies.get(name)?.unfinished ?? [];
    for (const file of unfinished) await beAbsent(join(this.path, file));
  }

  /** What create and grow do after the room is booked; its real size. Repeats what a crash cut off. */
  private async finished(name: CopyName, sidecar: Sidecar): Promise<bigint> {
    if (sidecar.state === 'removing')
      throw new FlockError('Conflict', `copy ${name} is being removed: let the removal end, then use another copy id`);
    const files = this.files(name);
    const wanted = BigInt(sidecar.label.size);
    const there = await sizeOf(files.image);
    if (sidecar.state === 'ready' && !there)
      throw new FlockError(
        'Corrupt',
        `the label of copy ${name} is there and its image ${files.image} is gone: restore the file or remove the copy`,
      );
    if (sidecar.state === 'creating') await this.made(name, sidecar);
    else if (there && there.size < wanted) await this.enlarged(name, sidecar, { from: there.size, to: wanted });
    return (await this.imageSize(name)).size;
  }

  private async made(name: CopyName, sidecar: Sidecar): Promise<void> {
    const files = this.files(name);
    try {
      await allocate(files.image, { from: 0n, to: BigInt(sidecar.label.size), thick: sidecar.thick });
    } catch (error) {
      await beAbsent(files.image);
      await beAbsent(files.sidecar);
      throw error;
    }
    await syncFolder(this.path);
    this.crash('create:allocated');
    await writeSidecar(files, { ...sidecar, state: 'ready' });
  }

  private async enlarged(name: CopyName, sidecar: Sidecar, { from, to }: { from: bigint; to: bigint }): Promise<void> {
    const files = this.files(name);
    await writeSidecar(files, { ...sidecar, label: { ...sidecar.label, size: String(to) } });
    this.crash('grow:labelled');
    try {
      await allocate(files.image, { from, to, thick: sidecar.thick });
    } catch (error) {
      await shrinkBack(files.image, from);
      await writeSidecar(files, { ...sidecar, label: { ...sidecar.label, size: String(from) } });
      throw error;
    }
    this.crash('grow:allocated');
  }

  /** Everything of it but the label first, so that a crash leaves something that says what was going on. */
  private async removed(name: CopyName, sidecar: Sidecar): Promise<void> {
    const files = this.files(name);
    for (const point of (await listing(this.path)).copies.get(name)?.points ?? []) await beAbsent(files.point(point));
    await this.withoutLeftovers(name);
    if (await sizeOf(files.image)) await wiped(files.image, sidecar.wipe ?? 'none');
    this.crash('remove:wiped');
    await beAbsent(files.image);
    this.crash('remove:unlinked');
    await beAbsent(files.sidecar);
    await beAbsent(files.lock);
  }

  private async cloned(name: CopyName, temporary: string): Promise<void> {
    await beAbsent(temporary);
    await using live = await open(this.files(name).image, constants.O_RDONLY);
    await live.datasync();
    await using point = await open(temporary, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o400);
    await cloneFile(point.fd, live.fd);
    await point.sync();
  }

  private async openedToWrite(name: CopyName): Promise<BlockHandle> {
    const { thick } = await this.ready(name);
    const files = this.files(name);
    const lock = await tryLockFile(files.lock, 'shared');
    if (!lock) throw this.heldElsewhere(name);
    try {
      await this.unattached(name);
      return await openBlocks({ path: files.image, mode: 'write', thick, lock });
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  private async opened(path: string, what: string): Promise<import('node:fs/promises').FileHandle> {
    if (!(await sizeOf(path))) throw this.notThere(what);
    return open(path, constants.O_RDONLY);
  }

  /** Throws InUse while a loop device has its image. */
  private async unattached(name: CopyName): Promise<void> {
    const [loop] = await this.loops(name);
    if (loop) throw new FlockError('InUse', `copy ${name} is attached as ${loop.device}: unmount and detach it first`);
  }

  private async loops(name: CopyName): ReturnType<typeof loopsOf> {
    return this.attachable ? loopsOf(this.files(name).image) : [];
  }

  private async exclusive(name: CopyName): Promise<Lock> {
    const lock = await tryLockFile(this.files(name).lock, 'exclusive');
    if (!lock) throw this.heldElsewhere(name);
    return lock;
  }

  /** The label of a whole copy. Throws NotFound, Conflict. */
  private async ready(name: CopyName): Promise<Sidecar> {
    const sidecar = await readSidecar(this.files(name));
    if (sidecar.state === 'ready') return sidecar;
    throw new FlockError('Conflict', `copy ${name} is half made (${sidecar.state}): create or remove it again`);
  }

  private async unlessAbsent(name: CopyName): Promise<Sidecar | null> {
    try {
      return await readSidecar(this.files(name));
    } catch (error) {
      if (isReason(error, 'NotFound')) return null;
      throw error;
    }
  }

  private async imageSize(name: CopyName): Promise<{ size: bigint; allocated: bigint }> {
    const found = await sizeOf(this.files(name).image);
    if (!found) throw this.notThere(name);
    return found;
  }

  private async writing<T>(name: CopyName, work: () => Promise<T>): Promise<T> {
    checkedCopy(name);
    await this.verify();
    return inTurn(this.turn(name), work);
  }

  /** Looks at the room and books it as one step, among callers and processes. */
  private booking<T>(name: CopyName, work: () => Promise<T>): Promise<T> {
    return this.writing(name, () =>
      inTurn(this.path, async () => {
        const lock = await lockPool(this.path);
        try {
          return await work();
        } finally {
          await lock.release();
        }
      }),
    );
  }

  private files(name: CopyName): CopyFiles {
    return new CopyFiles(this.path, name);
  }

  private pathOf(name: CopyName, point: PointName | 'live'): string {
    return point === 'live' ? this.files(name).image : this.files(name).point(checkedPoint(point));
  }

  private turn(name: CopyName): string {
    return join(this.path, name);
  }

  private notThere(what: string): FlockError {
    return new FlockError('NotFound', `there is no ${what} in pool ${this.name} (${this.path})`);
  }

  private heldElsewhere(name: CopyName): FlockError {
    return new FlockError(
      'InUse',
      `copy ${name} is held or open for writing elsewhere (lock ${this.files(name).lock}): let that end first`,
    );
  }

  private noPoints(): FlockError {
    return new FlockError(
      'Unsupported',
      `pool ${this.name} lies on a filesystem without reflinks: it has no points in time; use XFS or btrfs`,
    );
  }

  private checkAttachable(): void {
    if (!this.attachable)
      throw new FlockError('Unsupported', `pool ${this.name} cannot attach copies here: that needs root and /dev/loop-control`);
  }
}
