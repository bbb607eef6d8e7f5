// Pools `lvm` and `lvm-thin`: a copy is an LV with its label as a tag, a point in time a snapshot of it. Here is the pool as its users see it;
// lvm-life.ts says how a copy begins and ends, lvm-access.ts who may have its device open, lvm-place.ts how the group is changed. Knows no records.
import { clearDevice } from '../host/syscalls.ts';
import { FlockError, Invalid } from '../model/errors.ts';
import type { CopyLabel } from '../model/label.ts';
import { roundUp } from '../model/quantity.ts';
import { turns } from '../host/turns.ts';
import { checkedCopy, checkedPoint } from './image-layout.ts';
import {
  attach,
  checkFree,
  detach,
  hold,
  isAttached,
  openToRead,
  openToWrite,
  type Device,
  type InTurn,
  type ZeroDevice,
} from './lvm-access.ts';
import { cloned } from './lvm-clone.ts';
import { pointName, readable, type LvmCopy, type LabelledCopy } from './lvm-layout.ts';
import { deviceOf, dropped, enlarged, finished, made, remark, removed } from './lvm-life.ts';
import { look, seen, type LvmPlace, type Seen } from './lvm-place.ts';
import { changes, frozen, shownBy } from './lvm-points.ts';
import { roomOf } from './lvm-room.ts';
import { scanned } from './lvm-scan.ts';
import type { Marked } from './lvm-tags.ts';
import { checkIdentity } from './lvm-identity.ts';
import type { BlockHandle, CopyName, Extent, Hold, Inventory, PointName, PointOf, Pool, PoolRoom } from './pool.ts';

/** One a process, for two pools of one kind may be opened in tests. */
const copyTurns = turns();
/** How many act on each copy, or wait to. */
const acting = new Map<string, number>();

export interface LvmPoolParts {
  place: LvmPlace;
  uuid: string;
  unit: bigint;
  journals: string;
  /** Of the thin pool's blocks; null: thick. */
  block: bigint | null;
}

export class LvmPool implements Pool {
  readonly type: 'lvm' | 'lvm-thin';
  readonly points = true;
  readonly attachable = true;
  readonly name: string;
  readonly uuid: string;
  readonly thin: boolean;
  readonly unit: bigint;
  readonly journals: string;
  readonly #place: LvmPlace;
  readonly #zero: ZeroDevice;

  constructor({ place, uuid, unit, journals, block }: LvmPoolParts) {
    this.type = place.thinPool === null ? 'lvm' : 'lvm-thin';
    this.name = place.name;
    this.uuid = uuid;
    this.thin = place.thinPool !== null;
    this.unit = unit;
    this.journals = journals;
    this.#place = place;
    this.#zero = block === null ? zeroedThick : (fd, range) => zeroedThin(fd, range, block);
  }

  async verify(): Promise<void> {
    checkIdentity(this.#place, this.uuid, await look(this.#place));
  }

  async room(): Promise<PoolRoom> {
    return roomOf((await this.#seen()).group, this.#place.thinPool, this.#place.policy);
  }

  async scan(): Promise<Inventory> {
    return scanned(this.#place, await this.#seen(), {
      inTurn: (name, work) => this.#inTurn(name, work),
      isBusy: (name) => (acting.get(this.#key(name)) ?? 0) > 0,
    });
  }

  async create(name: CopyName, size: bigint, label: CopyLabel): Promise<bigint> {
    checkedCopy(name);
    if (size <= 0n) throw new Invalid(`copy ${name} cannot be made with a size of ${size}: it must be more than 0`);
    return this.#inTurn(name, async () => {
      const marked: Marked = { state: this.thin ? 'ready' : 'creating', label };
      const at = await made(this.#place, name, { size: roundUp(size, this.unit), marked, uuid: this.uuid });
      this.#place.crash('create:made');
      const copy = readable(at.listing, name, this.name);
      return copy.marked.state === 'ready' ? copy.volume.size : finished(this.#place, at, copy);
    });
  }

  async clone(name: CopyName, size: bigint, label: CopyLabel, from: PointOf): Promise<bigint> {
    checkedCopy(name);
    const source = { copy: checkedCopy(from.copy), point: checkedPoint(from.point) };
    return this.#inTurn(name, async () => {
      const there = (await this.#seen()).listing.copies.get(name);
      if (there && typeof there.marked !== 'string' && there.marked?.state === 'ready') return there.volume.size;
      return cloned(this.#place, { name, size: roundUp(size, this.unit), label, from: source, uuid: this.uuid });
    });
  }

  async grow(name: CopyName, size: bigint): Promise<bigint> {
    return this.#inTurn(name, async () => {
      const { at, copy } = await this.#whole(name);
      const attached = await isAttached(deviceOf(this.#place, at, copy));
      await enlarged(this.#place, name, { size: roundUp(size, this.unit), attached });
      const after = await this.#whole(name);
      return after.copy.volume.size;
    });
  }

  async relabel(name: CopyName, label: CopyLabel): Promise<void> {
    await this.#inTurn(name, async () => {
      const { copy } = await this.#whole(name);
      await remark(this.#place, copy.volume, { ...copy.marked, label });
    });
  }

  async remove(name: CopyName, wipe: 'none' | 'discard' | 'zero'): Promise<void> {
    await this.#inTurn(name, async () => {
      const at = await this.#seen();
      const copy = at.listing.copies.get(name);
      if (!copy) return this.#dropStray(name, at);
      const device = deviceOf(this.#place, at, copy);
      await checkFree(device, 'remove');
      if (copy.marked === null || typeof copy.marked === 'string') return removed(this.#place, at, copy);
      const marked: Marked = { wipe, ...copy.marked, state: 'removing' };
      await remark(this.#place, copy.volume, marked);
      this.#place.crash('remove:marked');
      await removed(this.#place, at, { ...copy, marked });
    });
  }

  async freeze(name: CopyName, point: PointName): Promise<void> {
    checkedPoint(point);
    await this.#inTurn(name, async () => {
      await this.#whole(name);
      await frozen(this.#place, name, point);
    });
  }

  async release(name: CopyName, point: PointName): Promise<void> {
    const called = pointName(checkedCopy(name), checkedPoint(point));
    await this.#inTurn(name, async () => {
      const { listing } = await this.#seen();
      const copy = listing.copies.get(name);
      const volume = [...(copy?.points.values() ?? []), ...(copy?.brokenPoints ?? []), ...listing.stray].find(
        (each) => each.name === called,
      );
      if (volume) await dropped(this.#place, volume);
    });
  }

  async *changed(name: CopyName, from: PointName | null, to: PointName | 'live'): AsyncIterable<Extent> {
    checkedCopy(name);
    yield* await this.#inTurn(name, async () => changes(this.#place, (await this.#whole(name)).at, { copy: name, from, to }));
  }

  async open(name: CopyName, point: PointName | 'live', mode: 'read' | 'write'): Promise<BlockHandle> {
    checkedCopy(name);
    if (point !== 'live') checkedPoint(point);
    if (mode === 'write' && point !== 'live')
      throw new FlockError('NotPermitted', `point ${point} of ${name} cannot be written: a point in time does not change`);
    return this.#inTurn(name, async () => {
      const { at } = await this.#whole(name);
      const { device, shown } = shownBy(this.#place, at, { copy: name, point });
      return mode === 'write' ? openToWrite(device, this.#zero, this.#turnOf(name)) : openToRead(device, shown, this.#turnOf(name));
    });
  }

  async attach(name: CopyName): Promise<string> {
    return this.#inTurn(name, async () => attach(this.#device(await this.#whole(name))));
  }

  async detach(name: CopyName): Promise<void> {
    await this.#inTurn(name, async () => {
      const at = await this.#seen();
      const copy = at.listing.copies.get(name);
      if (copy) await detach(deviceOf(this.#place, at, copy));
    });
  }

  async hold(name: CopyName): Promise<Hold> {
    return this.#inTurn(name, async () => hold(this.#device(await this.#whole(name)), this.#turnOf(name)));
  }

  #device({ at, copy }: { at: Seen; copy: LvmCopy }): Device {
    return deviceOf(this.#place, at, copy);
  }

  /** The group as it is now, which is still the one that this pool is. */
  async #seen(): Promise<Seen> {
    const at = await seen(this.#place);
    checkIdentity(this.#place, this.uuid, at.group);
    return at;
  }

  /** The copy, made whole if a crash left it half made. Throws NotFound, Corrupt. */
  async #whole(name: CopyName): Promise<{ at: Seen; copy: LabelledCopy }> {
    const at = await this.#seen();
    const copy = readable(at.listing, name, this.name);
    if (copy.marked.state === 'ready') return { at, copy };
    if (copy.marked.state === 'removing' || copy.marked.state === 'cloning')
      throw new FlockError(
        'NotFound',
        `copy ${name} in pool ${this.name} is ${copy.marked.state === 'removing' ? 'being removed' : 'not whole yet'}`,
      );
    await finished(this.#place, at, copy);
    const after = await this.#seen();
    return { at: after, copy: readable(after.listing, name, this.name) };
  }

  async #dropStray(name: CopyName, { listing }: Seen): Promise<void> {
    for (const volume of listing.stray) if (volume.name.startsWith(pointName(name, ''))) await dropped(this.#place, volume);
  }

  async #inTurn<T>(name: CopyName, work: () => Promise<T>): Promise<T> {
    checkedCopy(name);
    const key = this.#key(name);
    acting.set(key, (acting.get(key) ?? 0) + 1);
    try {
      return await copyTurns(key, work);
    } finally {
      acting.set(key, (acting.get(key) ?? 1) - 1);
    }
  }

  #key(name: CopyName): string {
    return `${this.#place.volumeGroup}/${name}`;
  }

  #turnOf(name: CopyName): InTurn {
    return (work) => this.#inTurn(name, work);
  }
}

const zeroedThick: ZeroDevice = (fd, range) => clearDevice(fd, 'zero', range);

/** Whole blocks are given back to the pool, and read as zeros then; the edges are overwritten. */
async function zeroedThin(fd: number, { offset, length }: { offset: bigint; length: bigint }, block: bigint): Promise<void> {
  const end = offset + length;
  const from = least(roundUp(offset, block), end);
  const to = (end / block) * block > from ? (end / block) * block : from;
  if (from > offset) await clearDevice(fd, 'zero', { offset, length: from - offset });
  if (to > from) await clearDevice(fd, 'discard', { offset: from, length: to - from });
  if (end > to) await clearDevice(fd, 'zero', { offset: to, length: end - to });
}

const least = (one: bigint, other: bigint): bigint => (one < other ? one : other);
