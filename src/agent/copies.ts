// This node's copies with everything that decisions ask of them, and the two things done under their locks: label and hold.
import type { CopyOnDisk, UnlabelledCopy } from '../decide/copies.ts';
import { FlockError, messageOf } from '../model/errors.ts';
import type { CopyLabel } from '../model/label.ts';
import type { CopyName, Hold } from '../pools/pool.ts';
import { hasFilesystem, nameOf, type FoundCopy, type FoundUnlabelled, type Inventory } from './inventory.ts';
import type { AgentPorts } from './ports.ts';
import type { Publications } from './publications.ts';

export interface LocalCopy {
  found: FoundCopy;
  seen: CopyOnDisk;
}

export class Copies {
  readonly #ports: AgentPorts;
  readonly #inventory: Inventory;
  readonly #publications: Publications;
  readonly #holds = new Map<CopyName, Hold>();
  /** Size up to which a copy's filesystem was seen to fill it, bytes. Forgotten with the process, and then looked at again. */
  readonly #filled = new Map<CopyName, bigint>();

  constructor(ports: AgentPorts, inventory: Inventory, publications: Publications) {
    this.#ports = ports;
    this.#inventory = inventory;
    this.#publications = publications;
  }

  async all(): Promise<LocalCopy[]> {
    return Promise.all((await this.#inventory.copies()).map((found) => this.#local(found)));
  }

  async ofVolume(uid: string): Promise<LocalCopy[]> {
    const found = (await this.#inventory.copies()).filter(({ label }) => label.volumeUid === uid);
    return Promise.all(found.map((copy) => this.#local(copy)));
  }

  /** Copies of the volume whose labels cannot be read. */
  async unlabelled(uid: string): Promise<{ found: FoundUnlabelled; seen: UnlabelledCopy }[]> {
    const prefix = nameOf(uid, '');
    const all = (await this.#inventory.unlabelled()).filter(({ name }) => name.startsWith(prefix));
    return all.map((found) => {
      const { name, damage } = found;
      return { found, seen: { id: name.slice(prefix.length), published: this.published(name), damage } };
    });
  }

  /** Where the copy is published. */
  published(name: CopyName): string[] {
    return this.#publications.of(name).map(({ target }) => target);
  }

  /** Throws NotFound; Corrupt when its label cannot be read. */
  async one(uid: string, id: string): Promise<LocalCopy> {
    const local = (await this.ofVolume(uid)).find(({ seen }) => seen.id === id);
    const broken = (await this.unlabelled(uid)).find(({ seen }) => seen.id === id);
    if (broken) throw new FlockError('Corrupt', broken.seen.damage);
    if (!local) throw new FlockError('NotFound', `node ${this.#ports.node} has no copy ${id} of volume ${uid}`);
    return local;
  }

  async #local(found: FoundCopy): Promise<LocalCopy> {
    const { label, name, size, points, pool, damage } = found;
    const seen: CopyOnDisk = {
      id: label.copy,
      pool: pool.name,
      label,
      size,
      points,
      published: this.published(name),
      unfilled: this.#isUnfilled(found),
      held: this.#holds.has(name),
      proof: await this.#proof(found),
      ...(damage === undefined ? {} : { damage }),
    };
    return { found, seen };
  }

  /** A journal that cannot be read proves nothing, and is no reason to stop looking at the others' copies. */
  async #proof({ label, name, pool }: FoundCopy): Promise<CopyOnDisk['proof']> {
    if (label.role !== 'incoming') return null;
    try {
      return await this.#ports.transfer.readJournal(pool, name);
    } catch (error) {
      this.#ports.log.warn({ copy: name, error: messageOf(error) }, 'the journal of an incoming copy cannot be read');
      return null;
    }
  }

  #isUnfilled(found: FoundCopy): boolean {
    const { name, size } = found;
    const writable = this.#publications.of(name).some(({ readOnly }) => !readOnly);
    return writable && hasFilesystem(found) && this.#filled.get(name) !== size;
  }

  /** Its filesystem fills it at this size. */
  filled({ name, size }: FoundCopy): void {
    this.#filled.set(name, size);
  }

  /** Writes the label to the disk itself. The copy as it is labelled now: what is changed next must not bring back what was there before. */
  async relabel(copy: FoundCopy, change: Partial<CopyLabel>): Promise<FoundCopy> {
    const label = { ...copy.label, ...change };
    await copy.pool.verify();
    await copy.pool.relabel(copy.name, label);
    this.#inventory.touched(copy.pool.name);
    return { ...copy, label };
  }

  /** Proves that nobody has the copy open, and keeps it so until let go. Safe to repeat. */
  async hold(copy: FoundCopy): Promise<void> {
    if (this.#holds.has(copy.name)) return;
    await copy.pool.detach(copy.name);
    this.#holds.set(copy.name, await copy.pool.hold(copy.name));
    this.#inventory.touched(copy.pool.name);
  }

  async letGo(name: CopyName): Promise<void> {
    const hold = this.#holds.get(name);
    this.#holds.delete(name);
    await hold?.release();
  }

  async letGoAll(): Promise<void> {
    await Promise.all([...this.#holds.keys()].map((name) => this.letGo(name)));
  }
}
