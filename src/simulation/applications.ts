// Applications and the kubelets that mount for them: each wants its volume served or not, is told which of its writes are safe, and looks at
// every mount whether all of them are there. They see the records; they know nothing of moves' innards.
import { messageOf } from '../model/errors.ts';
import { Volumes } from '../model/volume.ts';
import { textAt, writeText, type MemoryCopy } from './blocks.ts';
import type { World } from './world.ts';

const MEAN_TICK = 2_500;
/** Blocks that it writes; 0 is the filesystem's. */
const BLOCKS = 24;

export class Application {
  readonly volume: string;
  /** It is to run. */
  wanted = true;
  /** The node it runs on. */
  on: string | null = null;
  over = false;
  readonly #world: World;
  readonly #target: string;
  /** Where something may be left of it: a beginning or an end was ordered there, and its success was not told. */
  readonly #uncertain = new Set<string>();
  /** Files that it has open, although it was unmounted under it. */
  #open: { copy: MemoryCopy; who: string; node: string } | null = null;

  constructor(world: World, volume: string) {
    this.#world = world;
    this.volume = volume;
    this.#target = `/srv/${volume}`;
    this.#later();
  }

  #later(): void {
    const { time, chance } = this.#world;
    time.after(chance.around(MEAN_TICK), () => {
      if (this.over) return;
      this.#tick().then(
        () => this.#later(),
        (error: unknown) => {
          this.#world.note(`app ${this.volume}`, messageOf(error));
          this.#later();
        },
      );
    });
  }

  async #tick(): Promise<void> {
    if (this.#open) this.#writeOpen(this.#open);
    if (this.on !== null && !this.#isMountedOn(this.on)) this.on = null;
    if (this.on !== null) return this.wanted ? this.#write(this.on) : this.#end(this.on);
    await this.#tidy();
    // Not everybody has heard of a deletion.
    if (this.wanted || (this.#isDeleted() && this.#world.chance.happens(0.2))) await this.#begin();
  }

  #isMountedOn(node: string): boolean {
    return this.#world.machine(node).mounts.has(this.#target);
  }

  isMounted(): boolean {
    return this.#open !== null || [...this.#world.machines.keys()].some((node) => this.#isMountedOn(node));
  }

  #node(): string | null {
    const record = this.#world.server.registry.list(Volumes).items.find(({ metadata }) => metadata.name === this.volume);
    if (!record || record.metadata.deletionTimestamp !== undefined) this.wanted = false;
    return record?.spec.node ?? null;
  }

  #isDeleted(): boolean {
    return this.#world.volumes().some(({ metadata }) => metadata.name === this.volume && metadata.deletionTimestamp !== undefined);
  }

  /** What was mounted for somebody who died before he knew. */
  async #tidy(): Promise<void> {
    const wanted = this.wanted ? this.#node() : null;
    for (const node of this.#world.machines.keys())
      if (node !== wanted && (this.#isMountedOn(node) || this.#uncertain.has(node))) await this.#end(node);
  }

  async #end(node: string): Promise<void> {
    this.on = null;
    this.#uncertain.add(node);
    await this.#world.call(node, '/v1/unpublish', { volume: this.volume, target: this.#target });
    this.#uncertain.delete(node);
    this.#world.note(`app ${this.volume}`, `ended on ${node}`);
  }

  async #begin(): Promise<void> {
    const { chance, machines } = this.#world;
    // Now and then somebody starts it where it is not.
    const node = chance.happens(0.1) ? chance.pick([...machines.keys()]) : this.#node();
    if (node === null) return;
    const before = this.#isMountedOn(node);
    const asked = this.#world.time.now;
    this.#uncertain.add(node);
    await this.#world.call(node, '/v1/publish', { volume: this.volume, target: this.#target, readOnly: false });
    const copy = this.#world.machine(node).mountedAt(this.#target);
    if (!copy) return;
    if (!before) this.#world.rules.mounted(copy, node, asked);
    this.#looksAt(copy, node);
    if (!this.wanted) return;
    this.on = node;
    this.#uncertain.delete(node);
  }

  #looksAt(copy: MemoryCopy, node: string): void {
    const { rules } = this.#world;
    const truth = rules.truths.get(copy.label.volumeUid);
    if (truth && copy.label.volumeMode === 'Filesystem') truth.formatted = true;
    rules.compare(copy, `what is mounted on ${node}`);
    this.#world.note(
      `app ${this.volume}`,
      `runs on ${node} at copy ${copy.label.copy}, block 1 is ${JSON.stringify(textAt(copy.live, 1n))}`,
    );
  }

  async #write(node: string): Promise<void> {
    const copy = this.#world.machine(node).mountedAt(this.#target);
    if (copy) this.#writeTo(copy, node);
  }

  #writeTo(copy: MemoryCopy, node: string): void {
    const { chance, rules } = this.#world;
    const truth = rules.truths.get(copy.label.volumeUid);
    if (!truth || this.#world.machine(node).isAway(copy)) return;
    for (let count = chance.below(6); count > 0; count -= 1) {
      this.#world.writes += 1;
      const block = BigInt(1 + chance.below(BLOCKS));
      const text = `${this.volume} write ${this.#world.writes}`;
      writeText(copy.live, block, text);
      truth.acknowledged.set(block, text);
    }
  }

  /** True when it had something open. */
  pulledAway(): boolean {
    if (this.on === null || this.#open) return false;
    const machine = this.#world.machine(this.on);
    const copy = machine.mountedAt(this.#target);
    if (!copy) return false;
    this.#open = { copy, who: this.volume, node: this.on };
    this.#uncertain.add(this.on);
    machine.open.add(this.#open);
    machine.mounts.delete(this.#target);
    this.#world.rules.touched();
    return true;
  }

  closes(): void {
    const open = this.#open;
    this.#open = null;
    if (open) this.#world.machine(open.node).open.delete(open);
  }

  #writeOpen(open: { copy: MemoryCopy; who: string; node: string }): void {
    if (this.#world.machine(open.node).open.has(open)) this.#writeTo(open.copy, open.node);
    else this.#open = null;
  }

  /** One look at everything, where it is to be served: throws while it cannot be served. */
  async examine(): Promise<void> {
    const node = this.#node();
    if (node === null) return;
    await this.#world.call(node, '/v1/publish', { volume: this.volume, target: this.#target, readOnly: false });
    const copy = this.#world.machine(node).mountedAt(this.#target);
    if (copy) this.#looksAt(copy, node);
    await this.#end(node);
  }
}
