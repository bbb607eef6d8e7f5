// A pool in memory, for unit tests and the simulation: the same contract, exact change tracking, and nothing that depends on time or chance.
// MemoryDisk is what outlives the process: open another pool over it and the agent has restarted. Attachments outlive it, holds do not.
import { noCrash, type CrashPoint } from '../model/crash.ts';
import { FlockError, Invalid } from '../model/errors.ts';
import type { CopyLabel } from '../model/label.ts';
import { isSnapshotPoint } from '../model/points.ts';
import { humanBytes, roundUp } from '../model/quantity.ts';
import { checkedCopy, checkedPoint } from './image-layout.ts';
import type { BlockHandle, CopyName, Extent, Hold, Inventory, PointName, PointOf, Pool, PoolRoom } from './pool.ts';

const BLOCK = 4096n;

/** Blocks by number; what is not there reads as zeros. A block that is there is never changed, only replaced, so that points share them. */
type Blocks = Map<bigint, Buffer>;

interface MemoryCopy {
  label: CopyLabel;
  size: bigint;
  live: Blocks;
  points: Map<PointName, { blocks: Blocks; size: bigint }>;
  device: string | null;
}

export interface MemoryDisk {
  uuid: string;
  capacity: bigint;
  copies: Map<CopyName, MemoryCopy>;
  foreign: string[];
  /** What somebody did to copies, and whether their labels can still be read. */
  damaged: Map<CopyName, { damage: string; labelled: boolean }>;
  /** Counts attached devices, for their names. */
  devices: number;
  /** Set: the disk is not the pool any more, for this reason. */
  gone: string | null;
}

export const memoryDisk = (uuid: string, capacity: bigint): MemoryDisk => ({
  uuid,
  capacity,
  copies: new Map(),
  foreign: [],
  damaged: new Map(),
  devices: 0,
  gone: null,
});

export interface MemoryPoolOptions {
  name: string;
  disk: MemoryDisk;
  points?: boolean;
  attachable?: boolean;
  /** Folder for journals, where the transfer is real. */
  journals?: string;
  crash?: CrashPoint;
}

export class MemoryPool implements Pool {
  readonly type = 'image';
  readonly thin = false;
  readonly unit = BLOCK;
  readonly name: string;
  readonly uuid: string;
  readonly points: boolean;
  readonly attachable: boolean;
  readonly journals: string;
  private readonly disk: MemoryDisk;
  private readonly crash: CrashPoint;
  /** What this process has locked: by a hold, or by so many open writers. */
  private readonly held = new Set<CopyName>();
  private readonly writers = new Map<CopyName, number>();

  constructor(options: MemoryPoolOptions) {
    this.name = options.name;
    this.disk = options.disk;
    this.uuid = options.disk.uuid;
    this.points = options.points ?? true;
    this.attachable = options.attachable ?? true;
    this.journals = options.journals ?? '/nonexistent';
    this.crash = options.crash ?? noCrash;
  }

  async verify(): Promise<void> {
    if (this.disk.gone !== null) throw new FlockError('NotPermitted', `pool ${this.name} is not there: ${this.disk.gone}`);
  }

  async room(): Promise<PoolRoom> {
    await this.verify();
    return this.roomNow();
  }

  async scan(): Promise<Inventory> {
    await this.verify();
    const { copies: all, damaged, foreign } = this.disk;
    const labelled = [...all].filter(([name]) => damaged.get(name)?.labelled !== false);
    const copies = labelled.map(([name, { label, size, live, points, device }]) => {
      const damage = damaged.get(name)?.damage;
      const copy = { name, label: structuredClone(label), size, allocated: BigInt(live.size) * BLOCK, points: [...points.keys()], device };
      return damage === undefined ? copy : { ...copy, damage };
    });
    const unlabelled = [...damaged].flatMap(([name, { damage, labelled }]) => (labelled ? [] : [{ name, damage }]));
    return { copies: copies.sort((a, b) => (a.name < b.name ? -1 : 1)), unlabelled, foreign: [...foreign] };
  }

  async create(name: CopyName, size: bigint, label: CopyLabel): Promise<bigint> {
    checkedCopy(name);
    if (size <= 0n) throw new Invalid(`copy ${name} cannot be made with a size of ${size}: it must be more than 0`);
    await this.verify();
    const there = this.disk.copies.get(name);
    if (there) return there.size;
    const real = roundUp(size, BLOCK);
    this.checkRoom(real);
    const made = { label: { ...structuredClone(label), size: String(real) }, size: real, live: new Map(), points: new Map(), device: null };
    this.disk.copies.set(name, made);
    this.crash('create:made');
    return real;
  }

  async clone(name: CopyName, size: bigint, label: CopyLabel, { copy, point }: PointOf): Promise<bigint> {
    checkedCopy(name);
    checkedPoint(point);
    await this.verify();
    const there = this.disk.copies.get(name);
    if (there) return there.size;
    const from = (await this.found(copy)).points.get(point);
    if (!from) throw new FlockError('NotFound', `there is no ${copy} at ${point} in pool ${this.name}`);
    const real = roundUp(size, BLOCK);
    if (from.size > real) throw new Invalid(`copy ${name} of ${real} bytes is too small for point ${point}, which has ${from.size}`);
    this.checkRoom(real);
    const blocks = new Map(from.blocks);
    const made = { label: { ...structuredClone(label), size: String(real) }, size: real, live: blocks, points: new Map(), device: null };
    this.disk.copies.set(name, made);
    this.crash('clone:made');
    return real;
  }

  async grow(name: CopyName, size: bigint): Promise<bigint> {
    const copy = await this.found(name);
    const wanted = roundUp(size, BLOCK);
    if (wanted <= copy.size) return copy.size;
    this.checkRoom(wanted - copy.size);
    copy.size = wanted;
    copy.label = { ...copy.label, size: String(wanted) };
    this.crash('grow:grown');
    return wanted;
  }

  async relabel(name: CopyName, label: CopyLabel): Promise<void> {
    const copy = await this.found(name);
    copy.label = { ...structuredClone(label), size: String(copy.size) };
    this.crash('relabel:written');
  }

  async remove(name: CopyName, _wipe: 'none' | 'discard' | 'zero'): Promise<void> {
    checkedCopy(name);
    await this.verify();
    if (!this.disk.copies.has(name)) return;
    this.checkFree(name);
    this.disk.copies.delete(name);
    this.disk.damaged.delete(name);
    this.crash('remove:removed');
  }

  async freeze(name: CopyName, point: PointName): Promise<void> {
    checkedPoint(point);
    if (!this.points) throw new FlockError('Unsupported', `pool ${this.name} has no points in time`);
    const copy = await this.found(name);
    if (copy.points.has(point)) return;
    if (isSnapshotPoint(point)) this.checkRoom(copy.size);
    copy.points.set(point, { blocks: new Map(copy.live), size: copy.size });
    this.crash('freeze:frozen');
  }

  async release(name: CopyName, point: PointName): Promise<void> {
    checkedPoint(point);
    checkedCopy(name);
    await this.verify();
    this.disk.copies.get(name)?.points.delete(point);
  }

  async *changed(name: CopyName, from: PointName | null, to: PointName | 'live'): AsyncIterable<Extent> {
    const now = await this.bytesOf(name, to);
    const old = from === null ? new Map<bigint, Buffer>() : (await this.bytesOf(name, from)).blocks;
    const touched = [...new Set([...old.keys(), ...now.blocks.keys()])].filter((index) => old.get(index) !== now.blocks.get(index));
    let open: Extent | null = null;
    for (const index of touched.sort((a, b) => (a < b ? -1 : 1))) {
      const next: Extent = { offset: index * BLOCK, length: BLOCK, kind: now.blocks.has(index) ? 'DATA' : 'ZERO' };
      if (open && open.kind === next.kind && open.offset + open.length === next.offset) open.length += BLOCK;
      else {
        if (open) yield open;
        open = next;
      }
    }
    if (open) yield open;
  }

  async open(name: CopyName, point: PointName | 'live', mode: 'read' | 'write'): Promise<BlockHandle> {
    if (mode === 'read') return new MemoryBlocks(await this.bytesOf(name, point), null);
    if (point !== 'live')
      throw new FlockError('NotPermitted', `point ${point} of ${name} cannot be written: a point in time does not change`);
    const copy = await this.found(name);
    if (copy.device !== null || this.held.has(name)) throw this.inUse(name, copy.device);
    this.writers.set(name, (this.writers.get(name) ?? 0) + 1);
    return new MemoryBlocks({ blocks: copy.live, size: copy.size }, () => this.writers.set(name, (this.writers.get(name) ?? 1) - 1));
  }

  async attach(name: CopyName): Promise<string> {
    const copy = await this.found(name);
    if (copy.device !== null) return copy.device;
    this.checkFree(name);
    if (!this.attachable) return `/memory/${name}`;
    this.disk.devices += 1;
    copy.device = `/dev/memory${this.disk.devices}`;
    return copy.device;
  }

  async detach(name: CopyName): Promise<void> {
    checkedCopy(name);
    const copy = this.disk.copies.get(name);
    if (copy) copy.device = null;
  }

  async hold(name: CopyName): Promise<Hold> {
    await this.found(name);
    this.checkFree(name);
    this.held.add(name);
    return { release: async () => void this.held.delete(name) };
  }

  /** Throws InUse while attached, held or open for writing. */
  private checkFree(name: CopyName): void {
    const device = this.disk.copies.get(name)?.device ?? null;
    if (device !== null || this.held.has(name) || (this.writers.get(name) ?? 0) > 0) throw this.inUse(name, device);
  }

  private inUse(name: CopyName, device: string | null): FlockError {
    return new FlockError('InUse', `copy ${name} is ${device === null ? 'held or open for writing elsewhere' : `attached as ${device}`}`);
  }

  /** Without waiting: look and book are one step. */
  private roomNow(): PoolRoom {
    const { capacity } = this.disk;
    let booked = 0n;
    let used = 0n;
    for (const { size, live, points } of this.disk.copies.values()) {
      booked += size;
      for (const [point, kept] of points) if (isSnapshotPoint(point)) booked += kept.size;
      used += BigInt(live.size) * BLOCK;
    }
    return { capacity, booked, free: ((capacity - booked) / BLOCK) * BLOCK, size: capacity, used };
  }

  private checkRoom(more: bigint): void {
    const { free } = this.roomNow();
    if (more > free)
      throw new FlockError('NoSpace', `pool ${this.name} has room for ${humanBytes(free)} and ${humanBytes(more)} are asked`);
  }

  private async found(name: CopyName): Promise<MemoryCopy> {
    checkedCopy(name);
    await this.verify();
    const copy = this.disk.copies.get(name);
    if (!copy) throw new FlockError('NotFound', `there is no ${name} in pool ${this.name}`);
    const damaged = this.disk.damaged.get(name);
    if (damaged) throw new FlockError('Corrupt', damaged.damage);
    return copy;
  }

  private async bytesOf(name: CopyName, point: PointName | 'live'): Promise<{ blocks: Blocks; size: bigint }> {
    const copy = await this.found(name);
    if (point === 'live') return { blocks: copy.live, size: copy.size };
    const frozen = copy.points.get(checkedPoint(point));
    if (!frozen) throw new FlockError('NotFound', `there is no point ${point} of ${name} in pool ${this.name}`);
    return frozen;
  }
}

class MemoryBlocks implements BlockHandle {
  readonly size: bigint;
  private readonly blocks: Blocks;
  private onClose: (() => void) | null;
  private readonly writable: boolean;

  constructor(of: { blocks: Blocks; size: bigint }, onClose: (() => void) | null) {
    this.size = of.size;
    this.blocks = of.blocks;
    this.onClose = onClose;
    this.writable = onClose !== null;
  }

  async read(buffer: Buffer, offset: bigint): Promise<void> {
    this.within(offset, buffer.length);
    for (let at = 0; at < buffer.length; at += Number(BLOCK)) {
      const block = this.blocks.get((offset + BigInt(at)) / BLOCK);
      if (block) block.copy(buffer, at);
      else buffer.fill(0, at, at + Number(BLOCK));
    }
  }

  async write(buffer: Buffer, offset: bigint): Promise<void> {
    this.checkWritable();
    this.within(offset, buffer.length);
    for (let at = 0; at < buffer.length; at += Number(BLOCK))
      this.blocks.set((offset + BigInt(at)) / BLOCK, Buffer.from(buffer.subarray(at, at + Number(BLOCK))));
  }

  async zero(offset: bigint, length: bigint): Promise<void> {
    this.checkWritable();
    this.within(offset, Number(length));
    for (let at = offset; at < offset + length; at += BLOCK) this.blocks.delete(at / BLOCK);
  }

  async sync(): Promise<void> {}

  async close(): Promise<void> {
    this.onClose?.();
    this.onClose = null;
  }

  private checkWritable(): void {
    if (!this.writable) throw new FlockError('NotPermitted', 'this was opened for reading only');
  }

  private within(offset: bigint, length: number): void {
    if (offset % BLOCK !== 0n || BigInt(length) % BLOCK !== 0n)
      throw new Invalid(`bytes ${offset} to ${offset + BigInt(length)}: offset and length are multiples of ${BLOCK}`);
    if (offset < 0n || offset + BigInt(length) > this.size)
      throw new Invalid(`bytes ${offset} to ${offset + BigInt(length)} are not within a copy of ${this.size}`);
  }
}
