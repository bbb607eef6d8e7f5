// What of a node outlives its agent: disk, mounts, journals, the file of publications; and its power. Filesystems are a word in a copy's
// first block, so that they travel with the bytes. Knows no records and no rules.
import type { Publication, PublicationStore } from '../agent/publications.ts';
import type { Mounts } from '../agent/ports.ts';
import { FlockError } from '../model/errors.ts';
import { memoryDisk, MemoryPool, type MemoryDisk, type MemoryPoolOptions } from '../pools/memory.ts';
import type { CopyName } from '../pools/pool.ts';
import type { Chance } from './chance.ts';
import type { Journal } from './journal.ts';

export type MemoryCopy = MemoryDisk['copies'] extends Map<string, infer C> ? C : never;

export const BLOCK = 4096;
const FIRST = 0n;

export class Machine {
  readonly name: string;
  readonly disk: MemoryDisk;
  readonly capacity: bigint;
  powered = true;
  /** What is mounted, by path. */
  readonly mounts = new Map<string, { device: string; readOnly: boolean }>();
  readonly journals = new Map<CopyName, Journal>();
  publications: { [copy: CopyName]: Publication[] } = {};
  /** How likely a look at a device finds nothing, and a filesystem cannot be grown. */
  blindness = 0;
  /** What was written and not synced, as it was before: by copy, by block. */
  readonly unsynced = new Map<MemoryCopy['live'], Map<bigint, Buffer | undefined>>();

  constructor(name: string, capacity: bigint) {
    this.name = name;
    this.capacity = capacity;
    this.disk = memoryDisk(`pool of ${name}`, capacity);
  }

  /** Everything but the disk is gone; of what was not synced, chance decides. */
  powerOff(chance: Chance): void {
    this.powered = false;
    this.mounts.clear();
    for (const copy of this.disk.copies.values()) copy.device = null;
    for (const [live, blocks] of this.unsynced) for (const [block, old] of blocks) if (chance.happens(0.5)) putBack(live, block, old);
    this.unsynced.clear();
  }

  /** The copy that is mounted there, if any. */
  mountedAt(target: string): MemoryCopy | null {
    const mounted = this.mounts.get(target);
    return mounted ? (this.#withDevice(mounted.device) ?? null) : null;
  }

  #withDevice(device: string): MemoryCopy | undefined {
    return [...this.disk.copies.values()].find((copy) => copy.device === device);
  }

  copyAt(device: string): MemoryCopy {
    const found = this.#withDevice(device);
    if (!found) throw new FlockError('NotFound', `${device} is no block device: was it detached meanwhile?`);
    return found;
  }

  /** Copies that somebody may write: by label, with their paths. */
  inUse(): { copy: MemoryCopy; target: string }[] {
    return [...this.mounts].flatMap(([target]) => {
      const copy = this.mountedAt(target);
      return copy ? [{ copy, target }] : [];
    });
  }

  store(): PublicationStore {
    return {
      read: async () => structuredClone(this.publications),
      save: async (all) => void (this.publications = structuredClone(all)),
    };
  }
}

/** Its pool knows what is mounted, as a kernel does. */
export class NodePool extends MemoryPool {
  readonly #machine: Machine;

  constructor(machine: Machine, options: MemoryPoolOptions) {
    super(options);
    this.#machine = machine;
  }

  override async detach(name: CopyName): Promise<void> {
    const used = this.#machine.inUse().find(({ copy }) => copy === this.#machine.disk.copies.get(name));
    if (used) throw new FlockError('InUse', `copy ${name} is mounted at ${used.target}`);
    await super.detach(name);
  }
}

const padded = (text: string): Buffer => Buffer.concat([Buffer.from(text), Buffer.alloc(BLOCK)]).subarray(0, BLOCK);

/** A block as text; '' where nothing was written. */
export const textAt = (live: MemoryCopy['live'], block: bigint): string => {
  const bytes = live.get(block);
  if (!bytes) return '';
  const end = bytes.indexOf(0);
  return bytes.toString('utf8', 0, end < 0 ? bytes.length : end);
};
export const writeText = (live: MemoryCopy['live'], block: bigint, text: string): void => void live.set(block, padded(text));

/** The verbs on its mounts. `formats` is told before a filesystem is made. */
export function mountsOf(machine: Machine, chance: Chance, formats: (copy: MemoryCopy) => void): Mounts {
  const mount = (device: string, target: string, readOnly: boolean): void => {
    machine.copyAt(device);
    const there = machine.mounts.get(target);
    if (there && (there.device !== device || there.readOnly !== readOnly))
      throw new FlockError('InUse', `${target} is where ${there.device} is mounted`);
    machine.mounts.set(target, { device, readOnly });
  };
  return {
    beFormatted: async (device, filesystem, formatted) => {
      const copy = machine.copyAt(device);
      const found = chance.happens(machine.blindness) ? '' : textAt(copy.live, FIRST);
      if (formatted && found !== filesystem)
        throw new FlockError('Corrupt', `${device} was formatted by record, but holds ${found || 'nothing'}`);
      if (found === filesystem) return;
      formats(copy);
      copy.live.clear();
      writeText(copy.live, FIRST, filesystem);
    },
    beDistinct: async (device) => void machine.copyAt(device),
    beMounted: async (device, target, filesystem, readOnly) => {
      if (textAt(machine.copyAt(device).live, FIRST) !== filesystem) throw new FlockError('Corrupt', `${device} holds no ${filesystem}`);
      mount(device, target, readOnly);
    },
    beUnmounted: async (target) => void machine.mounts.delete(target),
    beBound: async (device, target) => mount(device, target, false),
    beFolderBound: async (folder, target, readOnly) => mount(folder, target, readOnly),
    beGrown: async () => {
      if (chance.happens(machine.blindness)) throw new FlockError('NotPermitted', 'the filesystem cannot be grown now');
    },
    beGrownUnmounted: async () => undefined,
    isMounted: async (target) => machine.mounts.has(target),
    realPlace: async (target) => target,
    isLink: async () => false,
    checkTarget: async () => undefined,
    beFlushed: async () => undefined,
  };
}

function putBack(live: MemoryCopy['live'], block: bigint, old: Buffer | undefined): void {
  if (old) live.set(block, old);
  else live.delete(block);
}
