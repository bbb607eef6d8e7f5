// A pool of directories as the simulation has it: every state that the shipped one (src/pools/directory*.ts) leaves on the disk between two
// writes, the place where a copy lies, and the proof that nobody has it open. Files are blocks by number. Knows no records and no rules.
import type { CrashPoint } from '../model/crash.ts';
import { FlockError } from '../model/errors.ts';
import type { CopyLabel } from '../model/label.ts';
import { humanBytes, roundUp } from '../model/quantity.ts';
import { memoryDisk, type MemoryDisk } from '../pools/memory.ts';
import type { BlockHandle, CopyName, Extent, Hold, Inventory, Pool, PoolRoom, TreeHandle } from '../pools/pool.ts';
import type { MemoryCopy } from './blocks.ts';

const UNIT = 4096n;

export type Files = MemoryCopy['live'];

export interface FolderCopy extends MemoryCopy {
  state: 'creating' | 'ready' | 'growing' | 'removing';
  /** While growing: the size that it is to have. */
  to: bigint;
  /** Null before its directory is made, and after it is gone. */
  at: 'served' | 'retired' | null;
  /** As it was last listed for another node: a file that was written since is another one. */
  listed: Files;
}

export interface FolderDisk extends MemoryDisk {
  copies: Map<CopyName, FolderCopy>;
}

export const folderDisk = (uuid: string, capacity: bigint): FolderDisk => ({ ...memoryDisk(uuid, capacity), copies: new Map() });

/** An open directory: what is below it is reached from here, wherever it is renamed to. */
export interface FolderHandle extends TreeHandle {
  /** All files, as they are now. */
  look(): Promise<Files>;
  read(file: bigint): Promise<Buffer | null>;
  /** null: it is removed. On the disk only once it is synced. */
  put(file: bigint, bytes: Buffer | null): Promise<void>;
  sync(): Promise<void>;
  listed(files: Files): Promise<void>;
  /** Files that are not as they were listed. */
  stray(): Promise<number>;
}

/** What of its machine such a pool sees: who has something open, and what is not on the disk yet. */
interface Users {
  readonly mounts: ReadonlyMap<string, { copy: MemoryCopy }>;
  readonly unsynced: Map<Files, unknown>;
  inUse(): { copy: MemoryCopy; target: string }[];
  unsafe(live: Files, file: bigint): void;
}

export interface FolderPoolOptions {
  name: string;
  machine: Users;
  disk: FolderDisk;
  crash: CrashPoint;
  /** As long as a look at all processes takes. */
  pause: () => Promise<void>;
}

export class FolderPool implements Pool {
  readonly type = 'directory';
  readonly thin = false;
  readonly unit = UNIT;
  readonly points = false;
  readonly attachable = false;
  readonly budget = 'booked';
  readonly journals = '/nonexistent';
  readonly name: string;
  readonly uuid: string;
  readonly #options: FolderPoolOptions;
  /** What this process has locked: by a hold, or by so many open writers. */
  readonly #held = new Set<CopyName>();
  readonly #writers = new Map<CopyName, number>();

  constructor(options: FolderPoolOptions) {
    this.#options = options;
    this.name = options.name;
    this.uuid = options.disk.uuid;
  }

  async verify(): Promise<void> {
    const { gone } = this.#options.disk;
    if (gone !== null) throw new FlockError('NotPermitted', `pool ${this.name} is not there: ${gone}`);
  }

  async room(): Promise<PoolRoom> {
    await this.verify();
    return this.#roomNow();
  }

  /** Finishes what a death cut off, and puts everything where its label says. */
  async scan(): Promise<Inventory> {
    await this.verify();
    const { copies } = this.#options.disk;
    for (const [name, copy] of Array.from(copies)) this.#mend(name, copy);
    const found = [...copies].map(([name, { label, size, live }]) => ({
      name,
      label: structuredClone(label),
      size,
      allocated: BigInt(live.size) * UNIT,
      points: [],
      device: null,
    }));
    return { copies: found.toSorted((one, other) => (one.name < other.name ? -1 : 1)), unlabelled: [], foreign: [] };
  }

  #mend(name: CopyName, copy: FolderCopy): void {
    if (copy.state === 'removing') {
      if (!this.#isLocked(name)) this.#options.disk.copies.delete(name);
      return;
    }
    if (copy.state === 'creating') copy.at ??= placeBy(copy.label);
    if (copy.state === 'growing') grown(copy);
    copy.state = 'ready';
    this.#beInPlace(name, copy);
  }

  async create(name: CopyName, size: bigint, label: CopyLabel): Promise<bigint> {
    if (label.volumeMode === 'Block') throw new FlockError('Unsupported', `pool ${this.name} holds directories`);
    await this.verify();
    const { crash, disk } = this.#options;
    const there = disk.copies.get(name);
    if (there?.state === 'removing') throw new FlockError('Conflict', `copy ${name} is being removed`);
    if (there) {
      this.#mend(name, there);
      return there.size;
    }
    const real = roundUp(size, UNIT);
    this.#checkRoom(real);
    const made: FolderCopy = {
      label: { ...structuredClone(label), size: String(real) },
      size: real,
      live: new Map(),
      points: new Map(),
      device: null,
      state: 'creating',
      to: real,
      at: null,
      listed: new Map(),
    };
    disk.copies.set(name, made);
    crash('create:labelled');
    made.at = placeBy(label);
    crash('create:made');
    crash('create:limited');
    made.state = 'ready';
    return real;
  }

  async clone(): Promise<bigint> {
    throw this.#withoutPoints();
  }

  async grow(name: CopyName, size: bigint): Promise<bigint> {
    const copy = await this.#whole(name);
    const to = roundUp(size, UNIT);
    if (to <= copy.size) return copy.size;
    this.#checkRoom(to - copy.size);
    Object.assign(copy, { state: 'growing', to });
    this.#options.crash('grow:labelled');
    this.#options.crash('grow:limited');
    grown(copy);
    return to;
  }

  async relabel(name: CopyName, label: CopyLabel): Promise<void> {
    const copy = await this.#whole(name);
    copy.label = { ...structuredClone(label), size: String(copy.size) };
    this.#options.crash('relabel:written');
    this.#beInPlace(name, copy);
  }

  async remove(name: CopyName): Promise<void> {
    await this.verify();
    const { crash, disk } = this.#options;
    const copy = disk.copies.get(name);
    if (!copy) return;
    this.#checkUnlocked(name);
    this.#checkUnused(name, copy);
    copy.state = 'removing';
    crash('remove:labelled');
    copy.live.clear();
    crash('remove:unlimited');
    copy.at = null;
    crash('remove:emptied');
    disk.copies.delete(name);
  }

  async freeze(): Promise<void> {
    throw this.#withoutPoints();
  }

  async release(): Promise<void> {}

  changed(): AsyncIterable<Extent> {
    throw this.#withoutBlocks();
  }

  async open(): Promise<BlockHandle> {
    throw this.#withoutBlocks();
  }

  async openTree(name: CopyName, mode: 'read' | 'write'): Promise<FolderHandle> {
    const copy = await this.#whole(name);
    if (mode === 'read') return this.#opened(copy, () => undefined);
    if (this.#held.has(name)) throw inUse(name, 'it is held');
    this.#checkUnmounted(name, copy);
    this.#writers.set(name, (this.#writers.get(name) ?? 0) + 1);
    return this.#opened(copy, () => this.#writers.set(name, (this.#writers.get(name) ?? 1) - 1));
  }

  async attach(name: CopyName): Promise<string> {
    const copy = await this.#whole(name);
    this.#checkUnlocked(name);
    this.#beInPlace(name, copy);
    return pathOf(name, copy);
  }

  async detach(name: CopyName): Promise<void> {
    const copy = this.#options.disk.copies.get(name);
    if (copy) this.#checkUnmounted(name, copy);
  }

  /** From the rename on nobody opens it; who had it open before is looked for afterwards. */
  async hold(name: CopyName): Promise<Hold> {
    const copy = await this.#whole(name);
    this.#checkUnlocked(name);
    this.#held.add(name);
    copy.at = 'retired';
    this.#options.crash('hold:renamed');
    await this.#options.pause();
    try {
      this.#checkUnused(name, copy);
    } catch (error) {
      this.#letGo(name, copy);
      throw error;
    }
    return { release: async () => this.#letGo(name, copy) };
  }

  #letGo(name: CopyName, copy: FolderCopy): void {
    this.#held.delete(name);
    this.#beInPlace(name, copy);
  }

  #opened(copy: FolderCopy, release: () => void): FolderHandle {
    const { machine } = this.#options;
    const { live } = copy;
    return {
      fd: -1,
      look: async () => new Map(live),
      read: async (file) => live.get(file) ?? null,
      put: async (file, bytes) => {
        machine.unsafe(live, file);
        if (bytes) live.set(file, Buffer.from(bytes));
        else live.delete(file);
      },
      sync: async () => void machine.unsynced.delete(live),
      listed: async (files) => void (copy.listed = new Map(files)),
      stray: async () => {
        const files = new Set([...live.keys(), ...copy.listed.keys()]);
        return [...files].filter((file) => live.get(file) !== copy.listed.get(file)).length;
      },
      close: async () => release(),
    };
  }

  #isLocked(name: CopyName): boolean {
    return this.#held.has(name) || (this.#writers.get(name) ?? 0) > 0;
  }

  /** Who holds it has it where he wants it. */
  #beInPlace(name: CopyName, copy: FolderCopy): void {
    if (!this.#isLocked(name)) copy.at = placeBy(copy.label);
  }

  #checkUnlocked(name: CopyName): void {
    if (this.#isLocked(name)) throw inUse(name, 'it is held or written elsewhere');
  }

  #checkUnmounted(name: CopyName, copy: FolderCopy): void {
    const [target] = [...this.#options.machine.mounts].find(([, mounted]) => mounted.copy === copy) ?? [];
    if (target !== undefined) throw inUse(name, `it is mounted at ${target}`);
  }

  #checkUnused(name: CopyName, copy: FolderCopy): void {
    const user = this.#options.machine.inUse().find((each) => each.copy === copy);
    if (user) throw inUse(name, `it is in use at ${user.target}`);
  }

  #roomNow(): PoolRoom {
    const { capacity, copies } = this.#options.disk;
    const booked = [...copies.values()].reduce((sum, { size, to }) => sum + (to > size ? to : size), 0n);
    const used = [...copies.values()].reduce((sum, { live }) => sum + BigInt(live.size) * UNIT, 0n);
    return { capacity, booked, free: ((capacity - booked) / UNIT) * UNIT, size: capacity, used };
  }

  #checkRoom(more: bigint): void {
    const { free } = this.#roomNow();
    if (more > free)
      throw new FlockError('NoSpace', `pool ${this.name} has room for ${humanBytes(free)} and ${humanBytes(more)} are asked`);
  }

  async #whole(name: CopyName): Promise<FolderCopy> {
    await this.verify();
    const copy = this.#options.disk.copies.get(name);
    if (!copy) throw new FlockError('NotFound', `there is no ${name} in pool ${this.name}`);
    if (copy.state !== 'ready') throw new FlockError('Conflict', `copy ${name} is ${copy.state}: let that end`);
    return copy;
  }

  #withoutPoints(): FlockError {
    return new FlockError('Unsupported', `pool ${this.name} has no points in time`);
  }

  #withoutBlocks(): FlockError {
    return new FlockError('Unsupported', `pool ${this.name} holds directories: it has no blocks`);
  }
}

const placeBy = ({ role }: CopyLabel): 'served' | 'retired' => (role === 'retired' || role === 'stale' ? 'retired' : 'served');

export const pathOf = (name: CopyName, { at }: FolderCopy): string => `/folders/${at === 'retired' ? 'retired/' : ''}${name}`;

function grown(copy: FolderCopy): void {
  copy.size = copy.to;
  copy.label = { ...copy.label, size: String(copy.to) };
  copy.state = 'ready';
}

const inUse = (name: CopyName, why: string): FlockError => new FlockError('InUse', `copy ${name} is in use: ${why}`);
