// Serving a volume at a path of this node, and ending that. Under the volume's lock, after a fresh read of the records (rule 1); what may be
// served is decided in decide/publishing.ts.
import { isAbsolute, resolve } from 'node:path';
import type { CopyLabel } from '../model/label.ts';
import { FlockError, ifFound, Invalid, isReason, messageOf, type Reason } from '../model/errors.ts';
import { objectName, printable } from '../model/names.ts';
import type { Stored } from '../model/meta.ts';
import type { Volume } from '../model/volume.ts';
import { whyNotPublish } from '../decide/publishing.ts';
import type { Copies, LocalCopy } from './copies.ts';
import type { CopyName } from '../pools/pool.ts';
import { damages, hasFilesystem, type FoundCopy, type Inventory } from './inventory.ts';
import type { Turns } from '../host/turns.ts';
import type { AgentPorts } from './ports.ts';
import type { Publication, Publications } from './publications.ts';
import { allMovesOf, freshVolume } from './records.ts';

export interface PublishOrder {
  volume: string;
  target: string;
  readOnly: boolean;
  /** By a kubelet: see endUnmounted. */
  staged?: boolean;
}

export interface Published {
  device: string;
  target: string;
}

/** A volume in use on this node. */
export interface InUse {
  /** Its device while attached, or its folder. */
  device: string | null;
  /** Real size, bytes. */
  size: bigint;
  volumeMode: CopyLabel['volumeMode'];
  publications: readonly Publication[];
}

export class Publishing {
  readonly #ports: AgentPorts;
  readonly #copies: Copies;
  readonly #inventory: Inventory;
  readonly #publications: Publications;
  readonly #lock: Turns;

  constructor(ports: AgentPorts, parts: { copies: Copies; inventory: Inventory; publications: Publications; lock: Turns }) {
    this.#ports = ports;
    this.#copies = parts.copies;
    this.#inventory = parts.inventory;
    this.#publications = parts.publications;
    this.#lock = parts.lock;
  }

  /** Throws NotPermitted with the reason when rule 1 forbids it, InUse when the path is taken, and what the disk says. Safe to repeat. */
  async publish(order: PublishOrder): Promise<Published> {
    const target = await this.#pathOf(order.target);
    // Of two volumes that are to be at one path, one gets it.
    return this.#lock(objectName(order.volume), () => this.#lock(`at ${target}`, () => this.#publishAt(order, target)));
  }

  /** The folder that it is in is called by its real name, so that one place has one name. The last part may be a link of ours. */
  async #pathOf(target: string): Promise<string> {
    if (!isAbsolute(target) || target.includes('\0') || target.length > 4000)
      throw new Invalid(`mount point ${printable(target)} is not valid: give an absolute path`);
    try {
      return await this.#ports.mounts.realPlace(resolve(target));
    } catch (error) {
      throw new Invalid(`mount point ${printable(target)} is not valid: ${messageOf(error)}`, { cause: error });
    }
  }

  async #publishAt({ volume, readOnly, staged }: PublishOrder, target: string): Promise<Published> {
    const allowed = await this.#allowed(volume);
    let { local } = allowed;
    await this.#refuseTaken(local, { target, readOnly });
    await local.found.pool.verify();
    const device = await local.found.pool.attach(local.found.name);
    this.#inventory.touched(local.found.pool.name);
    this.#ports.crash('publish:attached');
    local = await this.#formatted(local, device, allowed.formatOptions);
    if (!readOnly) await this.#fillUnmounted(local, device);
    local = await this.#distinct(local, device);
    await this.#mount(local, device, { target, readOnly, ...(staged ? { staged } : {}) });
    this.#ports.crash('publish:mounted');
    return { device, target };
  }

  /** The path is another volume's, or a link to who knows where; or the volume is in use in another way. */
  async #refuseTaken({ found }: LocalCopy, { target, readOnly }: { target: string; readOnly: boolean }): Promise<void> {
    const taken = this.#publications.at(target);
    if (taken !== null && taken !== found.name)
      throw new FlockError('InUse', `${target} is where copy ${taken} is published; unmount that first`);
    if (taken === null && (await this.#ports.mounts.isLink(target)))
      throw new Invalid(`mount point ${target} is a symbolic link: give the path that it leads to`);
    if (taken === null) await this.#ports.mounts.checkTarget(target, found.label.volumeMode);
    if (readOnly && found.label.volumeMode === 'Block')
      throw new FlockError('Unsupported', `volume ${found.label.volume} is a raw block volume: it cannot be given out read-only`);
    const other = this.#publications.of(found.name).find((publication) => publication.readOnly !== readOnly);
    if (other)
      throw new FlockError(
        'InUse',
        `volume ${found.label.volume} is mounted ${other.readOnly ? 'read-only' : 'writable'} at ${other.target}; unmount it there first`,
      );
  }

  /** Ends every publication of the volume, or the one at `target`. Throws InUse, naming the holder. Safe to repeat. */
  async unpublish(order: { volume: string; target?: string }): Promise<void> {
    const target = order.target === undefined ? undefined : await this.#pathOf(order.target);
    return this.#lock(objectName(order.volume), async () => {
      // What is mounted is known without its pool and its record: neither may keep it mounted.
      const mounted = this.#publications.ofVolume(order.volume);
      for (const publication of mounted) {
        if (target !== undefined && publication.target !== target) continue;
        await this.#ports.mounts.beUnmounted(publication.target);
        this.#ports.crash('unpublish:unmounted');
        await this.#publications.remove(publication.copy, publication.target);
      }
      await this.#detachUnused(order.volume, new Set(mounted.map(({ copy }) => copy)));
    });
  }

  async #detachUnused(volume: string, unmounted: Set<CopyName>): Promise<void> {
    for (const { found } of (await this.#copies.all()).filter(({ seen }) => seen.label.volume === volume)) {
      unmounted.delete(found.name);
      if (this.#publications.of(found.name).length === 0) await found.pool.detach(found.name);
      this.#inventory.touched(found.pool.name);
    }
    for (const copy of unmounted) if (this.#publications.of(copy).length === 0) await this.#detachUnseen(copy);
  }

  /** No pool shows it now. A device that stays is no harm: a fence proves by itself that there is none. Throws InUse. */
  async #detachUnseen(copy: CopyName): Promise<void> {
    for (const pool of this.#ports.pools.values()) {
      try {
        await pool.detach(copy);
      } catch (error) {
        if (isReason(error, 'InUse')) throw error;
        this.#ports.log.warn({ copy, pool: pool.name, error: messageOf(error) }, 'an unmounted copy could not be detached');
      }
      this.#inventory.touched(pool.name);
    }
  }

  /**
   * Ends what was published and is mounted no more, because a person unmounted it, once it is proven that nothing has the device open: a mount
   * that was moved, or unmounted lazily while somebody has files open, is in use as before. A volume that a kubelet staged is left alone:
   * the kubelet goes on believing in it until it unstages it, and would bind a pod to an empty folder, or find its volume moved under it.
   */
  async endUnmounted(): Promise<{ volume: string; targets: string[] }[]> {
    const ended: { volume: string; targets: string[] }[] = [];
    for (const volume of this.#publications.volumes()) {
      if (await this.#isMounted(volume)) continue;
      // A publication in progress is over by then, and mounted.
      const targets = await this.#lock(volume, () => this.#endUnmountedOf(volume));
      if (targets.length > 0) ended.push({ volume, targets });
    }
    return ended;
  }

  async #isMounted(volume: string): Promise<boolean> {
    for (const { target } of this.#publications.ofVolume(volume)) if (await this.#ports.mounts.isMounted(target)) return true;
    return false;
  }

  async #endUnmountedOf(volume: string): Promise<string[]> {
    const ended: string[] = [];
    if (await this.#isMounted(volume)) return ended;
    const seen = await this.#copies.all();
    for (const copy of new Set(this.#publications.ofVolume(volume).map((each) => each.copy))) {
      const local = seen.find(({ found }) => found.name === copy);
      if (!local || !(await this.#isUnused(local))) continue;
      for (const { target } of this.#publications.of(copy)) {
        await this.#publications.remove(copy, target);
        ended.push(target);
      }
    }
    return ended;
  }

  async #isUnused({ found }: LocalCopy): Promise<boolean> {
    if (this.#publications.of(found.name).some(({ staged }) => staged)) return false;
    try {
      await found.pool.detach(found.name);
    } catch (error) {
      this.#ports.log.debug({ copy: found.name, error: messageOf(error) }, 'a copy that is mounted no more is still in use');
      return false;
    } finally {
      this.#inventory.touched(found.pool.name);
    }
    return true;
  }

  /** Throws Unavailable when it is in use and its copy cannot be seen. */
  async published(volume: string): Promise<InUse | null> {
    const [used] = await this.#used(volume);
    if (!used) return this.#unseen(volume);
    const { device, folder, size, label, name } = used.found;
    return { device: device ?? folder ?? null, size, volumeMode: label.volumeMode, publications: this.#publications.of(name) };
  }

  async fill(volume: string): Promise<void> {
    return this.#lock(objectName(volume), async () => {
      const [used] = await this.#used(volume);
      if (!used) await this.#unseen(volume);
      if (!used) throw new FlockError('NotFound', `volume ${volume} is not in use on node ${this.#ports.node}`);
      await this.growMounted(used);
    });
  }

  async #unseen(volume: string): Promise<null> {
    const [first] = this.#publications.ofVolume(volume);
    if (!first) return null;
    const why = [...(await this.#inventory.problems()).values(), (await damages(this.#inventory)).get(first.copy)?.damage];
    const message = `volume ${volume} is mounted at ${first.target}, but its copy cannot be seen: ${why.filter(Boolean).join('; ')}`;
    throw new FlockError('Unavailable', message);
  }

  async #used(volume: string): Promise<LocalCopy[]> {
    return (await this.#copies.all()).filter(
      ({ seen, found }) => seen.label.volume === volume && this.#publications.of(found.name).length > 0,
    );
  }

  /** After the device grew: the filesystem in it, where it is mounted. Blocks are left alone. */
  async growMounted({ found }: LocalCopy): Promise<void> {
    const first = this.#publications.of(found.name).find(({ readOnly }) => !readOnly);
    if (!first || !hasFilesystem(found)) return;
    await this.#ports.mounts.beGrown(await found.pool.attach(found.name), first.target, found.label.filesystem);
    this.#copies.filled(found);
  }

  /** The copy that the record names, as its disk says at this moment, and not as it was read some time ago. */
  async #servedNow({ metadata, spec }: Stored<Volume>): Promise<LocalCopy | null> {
    if (spec.pool !== undefined) this.#inventory.touched(spec.pool);
    const found = await ifFound(this.#copies.one(metadata.uid, spec.copy ?? ''));
    const unreadable = found ? undefined : (await this.#inventory.problems()).get(spec.pool ?? '');
    if (unreadable !== undefined) throw new FlockError('Unavailable', `volume ${metadata.name} cannot be looked at: ${unreadable}`);
    return found;
  }

  async #allowed(name: string): Promise<{ local: LocalCopy; formatOptions: string | undefined }> {
    const { client, node, isLeaseFresh } = this.#ports;
    const volume = await freshVolume(client, name);
    const moves = await allMovesOf(client, name);
    const local = volume && (await this.#servedNow(volume));
    const why = whyNotPublish({ node, volume, moves, copy: local?.seen ?? null, leaseFresh: isLeaseFresh() });
    if (why) throw new FlockError(REFUSALS[why.reason] ?? 'NotPermitted', why.message);
    if (!local) throw new FlockError('Internal', `volume ${name} was allowed without a copy`);
    return { local, formatOptions: volume?.spec.formatOptions };
  }

  /** Made only where neither label nor record say that it was before (whyNotPublish compared them), and the device holds nothing. */
  async #formatted(local: LocalCopy, device: string, options: string | undefined): Promise<LocalCopy> {
    const { found } = local;
    if (!hasFilesystem(found)) return local;
    await this.#ports.mounts.beFormatted(device, found.label.filesystem, found.label.formatted, options);
    this.#ports.crash('publish:formatted');
    return found.label.formatted ? local : { ...local, found: await this.#copies.relabel(found, { formatted: true }) };
  }

  /** A clone's filesystem, before its first mount. What is mounted already got its identity before. */
  async #distinct(local: LocalCopy, device: string): Promise<LocalCopy> {
    const { found } = local;
    if (!found.label.cloned || !hasFilesystem(found)) return local;
    await this.#ports.mounts.beDistinct(device, found.label.filesystem);
    this.#ports.crash('publish:distinct');
    return { ...local, found: await this.#copies.relabel(found, { cloned: false }) };
  }

  async #mount(local: LocalCopy, device: string, wanted: Publication): Promise<void> {
    const { found } = local;
    const before = this.#publications.of(found.name).find(({ target }) => target === wanted.target);
    await this.#publications.add(found.name, { ...wanted, volume: found.label.volume });
    try {
      await this.#mountAt(found, device, wanted);
    } catch (error) {
      // What is mounted there since before stays in use.
      await (before ? this.#publications.add(found.name, before) : this.#publications.remove(found.name, wanted.target));
      throw error;
    }
    if (!wanted.readOnly) await this.#fill(local);
  }

  /** When this fails, it is mounted all the same: what is on it matters more than its size. */
  async #fillUnmounted({ found }: LocalCopy, device: string): Promise<void> {
    const { volume, filesystem } = found.label;
    if (!hasFilesystem(found) || this.#publications.of(found.name).length > 0) return;
    try {
      await this.#ports.mounts.beGrownUnmounted(device, filesystem);
    } catch (error) {
      this.#ports.log.warn({ volume, error: messageOf(error) }, 'the filesystem could not be grown before it is mounted');
    }
  }

  /** It may have been grown while nobody had it mounted. When this fails, it is in use all the same, and growing is tried again. */
  async #fill(local: LocalCopy): Promise<void> {
    try {
      await this.growMounted(local);
    } catch (error) {
      this.#ports.log.warn({ volume: local.found.label.volume, error: messageOf(error) }, 'the filesystem does not fill its volume yet');
    }
  }

  async #mountAt(found: FoundCopy, device: string, { target, readOnly }: Publication): Promise<void> {
    const { mounts } = this.#ports;
    const { volumeMode, filesystem } = found.label;
    if (volumeMode === 'Block') return mounts.beBound(device, target);
    if (!hasFilesystem(found)) return mounts.beFolderBound(device, target, readOnly);
    await mounts.beMounted(device, target, filesystem, readOnly);
  }
}

const REFUSALS: { [why: string]: Reason } = { VolumeNotFound: 'NotFound', CopyDamaged: 'Corrupt' };
