// Pool `directory`: a copy is a directory of one filesystem that all share. It has no blocks and no points; it is fenced by its place and a
// proof that nobody uses it, and kept within its size by what the filesystem offers. Knows no records.
import { closeSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ifThere } from '../host/files.ts';
import { noCrash, type CrashPoint } from '../model/crash.ts';
import { FlockError, Invalid } from '../model/errors.ts';
import type { CopyLabel } from '../model/label.ts';
import { roundUp } from '../model/quantity.ts';
import type { Budget } from '../model/storage-node.ts';
import { limitsOf, type Limits } from './directory-budget.ts';
import { begunToRemove, enlarged, finished, removed } from './directory-life.ts';
import {
  beAt,
  beRetiring,
  checkUnmounted,
  checkUnused,
  openedTree,
  RETIRED,
  treeOf,
  treePaths,
  type DirectoryPlace,
} from './directory-place.ts';
import { contents, inItsPlace, lookedAt, sidecarOrNull } from './directory-scan.ts';
import { checkedPoint, JOURNALS, readSidecar, writeSidecar, type Sidecar } from './image-layout.ts';
import { PoolIdentity } from './image-marker.ts';
import { filesOf, inCopyTurn, lockCopy, notThere, whileBooking, withCopyLocked } from './image-place.ts';
import { checkRoom, roomOf, UNIT, type RoomPolicy } from './image-room.ts';
import type { BlockHandle, CopyName, Extent, Hold, Inventory, PointName, Pool, PoolRoom, TreeHandle } from './pool.ts';

export interface DirectoryPoolOptions {
  name: string;
  path: string;
  /** As beInitialised returned it. */
  uuid: string;
  policy: RoomPolicy;
  crash?: CrashPoint;
}

/** Throws NotPermitted when the folder is not that pool. */
export async function openDirectoryPool(options: DirectoryPoolOptions): Promise<Pool> {
  const identity = new PoolIdentity(options.path, options.uuid);
  await identity.verify();
  await beRetiring(options.path);
  return new DirectoryPool(options, identity, await limitsOf(options.path));
}

class DirectoryPool implements Pool {
  readonly type = 'directory';
  readonly unit = UNIT;
  readonly points = false;
  readonly attachable = false;
  readonly name: string;
  readonly uuid: string;
  readonly thin: boolean;
  readonly budget: Budget;
  readonly journals: string;
  private readonly place: DirectoryPlace;
  private readonly identity: PoolIdentity;

  constructor(options: DirectoryPoolOptions, identity: PoolIdentity, limits: Limits) {
    const { name, path, policy, crash = noCrash } = options;
    this.name = name;
    this.uuid = options.uuid;
    this.thin = policy.overcommit !== null;
    this.budget = limits.budget;
    this.place = { name, path, policy, crash, limits };
    this.identity = identity;
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
    const { copies, foreign } = await contents(this.place);
    for (const name of (await ifThere(readdir(join(this.place.path, RETIRED)))) ?? [])
      if (!copies.has(name)) foreign.push(`${RETIRED}/${name}`);
    const inventory: Inventory = { copies: [], unlabelled: [], foreign };
    for (const [name, there] of [...copies].toSorted(([one], [other]) => (one < other ? -1 : 1))) {
      const found = await inCopyTurn(this.place, name, () => lookedAt(this.place, name, there));
      inventory.copies.push(...found.copies);
      inventory.unlabelled.push(...found.unlabelled);
      inventory.foreign.push(...found.foreign);
    }
    // A disk that went away meanwhile is no damage of its copies.
    await this.verify();
    return inventory;
  }

  async create(name: CopyName, size: bigint, label: CopyLabel): Promise<bigint> {
    const files = filesOf(this.place, name);
    if (size <= 0n) throw new Invalid(`copy ${name} cannot be made with a size of ${size}: it must be more than 0`);
    if (label.volumeMode === 'Block')
      throw new FlockError(
        'Unsupported',
        `pool ${this.name} holds directories, and volume ${label.volume} is a raw block volume: use a pool of another type`,
      );
    return this.booking(name, async () => {
      const there = await sidecarOrNull(this.place, name);
      if (there) return finished(this.place, name, there);
      if ((await treeOf(this.place, name)) !== null)
        throw new FlockError(
          'AlreadyExists',
          `a directory of copy ${name} is there without a label: it is nobody's copy; move it away first`,
        );
      const real = roundUp(size, UNIT);
      await checkRoom(this.place, real);
      const project = this.place.limits.project();
      const sidecar: Sidecar = {
        version: 1,
        state: 'creating',
        thick: !this.thin,
        ...(project === undefined ? {} : { project }),
        label: { ...label, size: String(real) },
      };
      await writeSidecar(files, sidecar);
      this.place.crash('create:labelled');
      return finished(this.place, name, sidecar);
    });
  }

  async clone(name: CopyName): Promise<bigint> {
    filesOf(this.place, name);
    throw this.withoutPoints();
  }

  async grow(name: CopyName, size: bigint): Promise<bigint> {
    return this.booking(name, async () => {
      const cutOff = await sidecarOrNull(this.place, name);
      if (cutOff?.state === 'growing') await finished(this.place, name, cutOff);
      const sidecar = await this.whole(name);
      const from = BigInt(sidecar.label.size);
      const to = roundUp(size, UNIT);
      if (to <= from) return from;
      await checkRoom(this.place, to - from);
      await enlarged(this.place, name, sidecar, to);
      return to;
    });
  }

  async relabel(name: CopyName, label: CopyLabel): Promise<void> {
    await this.writing(name, async () => {
      const sidecar = await this.whole(name);
      const after: Sidecar = { ...sidecar, label: { ...label, size: sidecar.label.size } };
      await writeSidecar(filesOf(this.place, name), after);
      this.place.crash('relabel:written');
      await inItsPlace(this.place, name, after);
    });
  }

  /** However it is to be wiped: a removal. What was written is not overwritten. */
  async remove(name: CopyName, _wipe: 'none' | 'discard' | 'zero'): Promise<void> {
    await this.writing(name, async () => {
      if (!(await contents(this.place)).copies.has(name) && (await treeOf(this.place, name)) === null) return;
      const there = await sidecarOrNull(this.place, name).catch(() => 'unreadable' as const);
      await withCopyLocked(this.place, name, async () => {
        await checkUnused(this.place, name);
        const isReadable = there !== null && there !== 'unreadable';
        await removed(this.place, name, isReadable ? (await begunToRemove(this.place, name, there)).project : undefined);
      });
    });
  }

  async freeze(name: CopyName, point: PointName): Promise<void> {
    filesOf(this.place, name);
    checkedPoint(point);
    throw this.withoutPoints();
  }

  async release(name: CopyName, point: PointName): Promise<void> {
    filesOf(this.place, name);
    checkedPoint(point);
  }

  // eslint-disable-next-line require-yield
  async *changed(name: CopyName): AsyncIterable<Extent> {
    filesOf(this.place, name);
    throw this.withoutBlocks();
  }

  async open(name: CopyName): Promise<BlockHandle> {
    filesOf(this.place, name);
    throw this.withoutBlocks();
  }

  async openTree(name: CopyName, mode: 'read' | 'write'): Promise<TreeHandle> {
    return this.writing(name, async () => {
      await this.whole(name);
      const lock = mode === 'write' ? await lockCopy(this.place, name, 'shared') : null;
      try {
        if (mode === 'write') await checkUnmounted(this.place, name);
        return opened(await this.treeOf(name), async () => lock?.release());
      } catch (error) {
        await lock?.release();
        throw error;
      }
    });
  }

  async attach(name: CopyName): Promise<string> {
    return this.writing(name, async () => {
      const sidecar = await this.whole(name);
      await withCopyLocked(this.place, name, async () => {});
      await inItsPlace(this.place, name, sidecar);
      return this.treeOf(name);
    });
  }

  async detach(name: CopyName): Promise<void> {
    await inCopyTurn(this.place, name, () => checkUnmounted(this.place, name));
  }

  /**
   * Nobody can open it by its old path from the rename on; who had it open before is looked for afterwards, and then it is put back. It stays
   * where it is when this process ends.
   */
  async hold(name: CopyName): Promise<Hold> {
    return this.writing(name, async () => {
      const sidecar = await this.whole(name);
      const lock = await lockCopy(this.place, name, 'exclusive');
      try {
        await beAt(this.place, name, treePaths(this.place, name).retired);
        this.place.crash('hold:renamed');
        await checkUnused(this.place, name);
      } catch (error) {
        await lock.release();
        await inItsPlace(this.place, name, sidecar);
        throw error;
      }
      return { release: () => this.letGo(name, lock) };
    });
  }

  private letGo(name: CopyName, lock: Hold): Promise<void> {
    return inCopyTurn(this.place, name, async () => {
      await lock.release();
      const sidecar = await sidecarOrNull(this.place, name);
      if (sidecar) await inItsPlace(this.place, name, sidecar);
    });
  }

  private async treeOf(name: CopyName): Promise<string> {
    const path = await treeOf(this.place, name);
    if (path === null)
      throw new FlockError('Corrupt', `the directory of copy ${name} is gone from pool ${this.name} (${this.place.path}): bring it back`);
    return path;
  }

  /** Throws NotFound without a label, Conflict for a copy that is half made or half gone, Corrupt for one that is damaged. */
  private async whole(name: CopyName): Promise<Sidecar> {
    const sidecar = await sidecarOrNull(this.place, name);
    if (!sidecar) throw notThere(this.place, name);
    if (sidecar.state !== 'ready') throw new FlockError('Conflict', `copy ${name} is ${sidecar.state}: let that end`);
    await this.treeOf(name);
    return readSidecar(filesOf(this.place, name));
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

  private withoutPoints(): FlockError {
    return new FlockError(
      'Unsupported',
      `pool ${this.name} holds directories: it has no points in time, snapshots and clones; use a pool of another type`,
    );
  }

  private withoutBlocks(): FlockError {
    return new FlockError('Unsupported', `pool ${this.name} holds directories: it has no blocks`);
  }
}

function opened(path: string, release: () => Promise<void>): TreeHandle {
  const fd = openedTree(path);
  let open = true;
  return {
    fd,
    close: async () => {
      if (!open) return;
      open = false;
      closeSync(fd);
      await release();
    },
  };
}
