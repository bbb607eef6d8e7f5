// What of a node outlives its agent: disk, mounts, journals, the file of publications; and its power. Filesystems are a word in a copy's
// first block, so that they travel with the bytes. Knows no records and no rules.
import type { Publication, PublicationStore } from '../agent/publications.ts';
import type { Mounts } from '../agent/ports.ts';
import { FlockError } from '../model/errors.ts';
import { memoryDisk, MemoryPool, type MemoryDisk, type MemoryPoolOptions } from '../pools/memory.ts';
import type { CopyName } from '../pools/pool.ts';
import { textAt, writeText, type MemoryCopy } from './blocks.ts';
import type { Chance } from './chance.ts';
import { folderDisk, pathOf, type FolderDisk } from './folders.ts';
import type { Journal } from './journal.ts';

/** Of each pool, bytes. */
export const CAPACITY = 144n << 20n;
const FIRST = 0n;
/** Beyond what applications write. */
const IDENTITY = 40n;

interface Mounted {
  copy: MemoryCopy;
  /** The device, or the directory. */
  device: string;
  readOnly: boolean;
}

export class Machine {
  readonly name: string;
  /** Its pool of devices. */
  readonly disk: MemoryDisk;
  /** Its pool of directories, on a disk of its own. */
  readonly folders: FolderDisk | null;
  readonly capacity = CAPACITY;
  powered = true;
  /** What is mounted, by path. */
  readonly mounts = new Map<string, Mounted>();
  /** Files that somebody has open although the volume was unmounted under him. */
  readonly open = new Set<{ copy: MemoryCopy; who: string }>();
  readonly journals = new Map<CopyName, Journal>();
  publications: { [copy: CopyName]: Publication[] } = {};
  /** How likely a look at a device finds nothing, and a filesystem cannot be grown. */
  blindness = 0;
  #identities = 0;
  /** What was written and not synced, as it was before: by copy, by block. */
  readonly unsynced = new Map<MemoryCopy['live'], Map<bigint, Buffer | undefined>>();

  constructor(name: string, withFolders: boolean) {
    this.name = name;
    this.disk = memoryDisk(`pool of ${name}`, CAPACITY);
    this.folders = withFolders ? folderDisk(`folders of ${name}`, CAPACITY) : null;
  }

  newIdentity(): string {
    this.#identities += 1;
    return `${this.name} made ${this.#identities}`;
  }

  get disks(): readonly MemoryDisk[] {
    return this.folders ? [this.disk, this.folders] : [this.disk];
  }

  /** All copies by name, in both pools; without those that are going, of which nobody gets anything back. */
  get copies(): Map<CopyName, MemoryCopy> {
    const folders = [...(this.folders?.copies ?? [])].filter(([, { state }]) => state !== 'removing');
    return new Map([...this.disk.copies, ...folders]);
  }

  copy(name: CopyName): MemoryCopy | undefined {
    const folder = this.folders?.copies.get(name);
    return this.disk.copies.get(name) ?? (folder?.state === 'removing' ? undefined : folder);
  }

  /** The disk that the copy is on is not there now. */
  isAway(copy: MemoryCopy): boolean {
    return this.disks.some(({ gone, copies }) => gone !== null && [...copies.values()].includes(copy));
  }

  /** Something is written there, and not synced yet. */
  unsafe(live: MemoryCopy['live'], block: bigint): void {
    const before = this.unsynced.get(live) ?? new Map<bigint, Buffer | undefined>();
    if (!before.has(block)) before.set(block, live.get(block));
    this.unsynced.set(live, before);
  }

  /** Everything but the disk is gone; of what was not synced, chance decides. */
  powerOff(chance: Chance): void {
    this.powered = false;
    this.mounts.clear();
    this.open.clear();
    for (const copy of this.disk.copies.values()) copy.device = null;
    for (const [live, blocks] of this.unsynced) for (const [block, old] of blocks) if (chance.happens(0.5)) putBack(live, block, old);
    this.unsynced.clear();
  }

  /** The copy that is mounted there, if any. */
  mountedAt(target: string): MemoryCopy | null {
    return this.mounts.get(target)?.copy ?? null;
  }

  copyAt(device: string): MemoryCopy {
    const found = [...this.disk.copies.values()].find((copy) => copy.device === device);
    if (!found) throw new FlockError('NotFound', `${device} is no block device: was it detached meanwhile?`);
    return found;
  }

  folderAt(path: string): MemoryCopy {
    const [, found] = [...(this.folders?.copies ?? [])].find(([name, copy]) => pathOf(name, copy) === path) ?? [];
    if (!found) throw new FlockError('NotFound', `${path} is no directory: was it fenced meanwhile?`);
    return found;
  }

  /** Copies that somebody may write: by label, with their paths. */
  inUse(): { copy: MemoryCopy; target: string }[] {
    const mounted = [...this.mounts].map(([target, { copy }]) => ({ copy, target }));
    return [...mounted, ...[...this.open].map(({ copy, who }) => ({ copy, target: `the files of ${who}` }))];
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

/** What tells one filesystem from another; '' for none. */
export const identityOf = ({ live }: MemoryCopy): string => textAt(live, IDENTITY);

/** The verbs on its mounts. `formats` is told before a filesystem is made. */
export function mountsOf(machine: Machine, chance: Chance, formats: (copy: MemoryCopy) => void): Mounts {
  const mount = (copy: MemoryCopy, { device, target, readOnly }: Pick<Mounted, 'device' | 'readOnly'> & { target: string }): void => {
    const there = machine.mounts.get(target);
    if (there && (there.copy !== copy || there.readOnly !== readOnly))
      throw new FlockError('InUse', `${target} is where ${there.device} is mounted`);
    machine.mounts.set(target, { copy, device, readOnly });
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
      writeText(copy.live, IDENTITY, machine.newIdentity());
    },
    beDistinct: async (device) => writeText(machine.copyAt(device).live, IDENTITY, machine.newIdentity()),
    beMounted: async (device, target, filesystem, readOnly) => {
      const copy = machine.copyAt(device);
      if (textAt(copy.live, FIRST) !== filesystem) throw new FlockError('Corrupt', `${device} holds no ${filesystem}`);
      mount(copy, { device, target, readOnly });
    },
    beUnmounted: async (target) => void machine.mounts.delete(target),
    beBound: async (device, target) => mount(machine.copyAt(device), { device, target, readOnly: false }),
    beFolderBound: async (folder, target, readOnly) => mount(machine.folderAt(folder), { device: folder, target, readOnly }),
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
