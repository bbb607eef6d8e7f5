// The life of one volume, from its creation on node-1 until nothing is left of it; what it is about is told by its plot (moving.ts,
// snapshots.ts). Whoever dies meanwhile, it is told on: each call is tried until it works, as people and kubelets do.
import { join } from 'node:path';
import { messageOf } from '../../src/model/errors.ts';
import { GROUP_VERSION, type Stored } from '../../src/model/meta.ts';
import { Moves } from '../../src/model/move.ts';
import { Snapshots } from '../../src/model/snapshot.ts';
import { Volumes, type Volume, type VolumeSpec } from '../../src/model/volume.ts';
import type { Chance } from '../../src/simulation/chance.ts';
import { systemClock } from '../../src/model/clock.ts';
import { Application } from './application.ts';
import { NODES, type Node, type Stage } from './stage.ts';

/** For anything to change while something is waited for, ms: several back-offs long, also on a machine that is busy with other things. */
const PATIENCE = 420_000;
/** However much changes. */
const LONGEST = 3_600_000;
const LOOK = 300;

export abstract class Story {
  protected readonly stage: Stage;
  protected readonly chance: Chance;
  protected readonly name: string;
  protected readonly application: Application;

  constructor(stage: Stage, name: string, chance: Chance) {
    this.stage = stage;
    this.name = name;
    this.chance = chance;
    this.application = new Application(chance.fork());
  }

  /** Throws when anything is lost, left over, or does not come to an end. */
  abstract tell(): Promise<void>;

  // ---- waiting -------------------------------------------------------------------------------------------------------------------

  /** Not null as soon as `look` answers so. Given up when nothing has changed for so long: no record, no answer, and nobody died. */
  protected async until<T>(what: string, look: () => Promise<T | null>, patience = PATIENCE): Promise<T> {
    const began = systemClock.monotonic();
    let [last, state, changedAt] = ['', '', began];
    for (;;) {
      if (this.stage.fault) throw new Error(this.stage.fault);
      try {
        const answer = await look();
        if (answer !== null) return answer;
      } catch (error) {
        last = messageOf(error);
      }
      const now = systemClock.monotonic();
      const seen = `${last} ${await this.stage.state()}`;
      if (seen !== state) [state, changedAt] = [seen, now];
      if (now > changedAt + patience || now > began + LONGEST) throw new Error(`${what} did not come about${last && `: ${last}`}`);
      await systemClock.sleep(LOOK);
    }
  }

  protected insist(what: string, act: () => Promise<unknown>): Promise<true> {
    this.stage.note(`${this.name}: ${what}`);
    return this.until(what, async () => {
      await act();
      return true as const;
    });
  }

  protected volume(name = this.name): Promise<Stored<Volume>> {
    return this.stage.client.get(Volumes, name);
  }

  protected untilVolume(what: string, isSo: (volume: Stored<Volume>) => boolean, name = this.name): Promise<Stored<Volume>> {
    return this.until(`volume ${name} ${what}`, async () => {
      const volume = await this.volume(name);
      if (isSo(volume)) return volume;
      throw new Error(`it is ${JSON.stringify(volume.status)}`);
    });
  }

  // ---- what happens in every plot ------------------------------------------------------------------------------------------------

  protected async create(spec: VolumeSpec, name = this.name): Promise<void> {
    const { client } = this.stage;
    await this.insist(`create ${name}: ${JSON.stringify(spec)}`, async () => {
      const there = (await client.list(Volumes)).items.some(({ metadata }) => metadata.name === name);
      if (!there) await client.create(Volumes, { apiVersion: GROUP_VERSION, kind: 'Volume', metadata: { name }, spec });
    });
    await this.untilVolume('is available', ({ status }) => status?.phase === 'Available', name);
  }

  /** Where it is served now. */
  protected async mount(name = this.name): Promise<string> {
    await this.untilVolume('is placed', ({ spec }) => spec.node !== undefined, name);
    const target = this.stage.at(name);
    await this.insist(`mount ${name}`, async () => {
      const node = (await this.volume(name)).spec.node as Node;
      await (await this.stage.agent(node)).publish({ volume: name, target });
      this.stage.note(`${name}: served by ${node}`);
    });
    return target;
  }

  /** The application goes on. */
  protected async serve(): Promise<string> {
    const target = await this.mount();
    const { volumeMode } = (await this.untilVolume('is there', () => true)).spec;
    await this.application.start(volumeMode === 'Block' ? target : join(target, 'content'));
    return target;
  }

  protected async unmount(name = this.name): Promise<void> {
    await this.insist(`unmount ${name}`, async () => {
      for (const node of NODES) await (await this.stage.agent(node)).unpublish({ volume: name });
    });
  }

  /** Its moves first, or it first. */
  protected async delete(name = this.name): Promise<void> {
    if (this.chance.happens(0.5)) await this.#deleteMoves(name);
    const { client } = this.stage;
    await this.insist(`delete ${name}`, async () => {
      const there = (await client.list(Volumes)).items.find(({ metadata }) => metadata.name === name);
      if (there && there.metadata.deletionTimestamp === undefined) await client.delete(Volumes, name);
    });
    await this.until(`volume ${name} is gone`, async () => {
      const there = (await client.list(Volumes)).items.find(({ metadata }) => metadata.name === name);
      if (there) throw new Error(`it is ${JSON.stringify(there.status)}`);
      return true;
    });
    await this.#deleteMoves(name);
    await this.until(`the moves of ${name} are gone`, async () => {
      const left = (await client.list(Moves)).items.filter(({ spec }) => spec.volume === name);
      return left.length === 0 ? true : null;
    });
  }

  #deleteMoves(name: string): Promise<true> {
    const { client } = this.stage;
    return this.insist('delete moves', async () => {
      for (const { metadata, spec } of (await client.list(Moves)).items)
        if (spec.volume === name && metadata.deletionTimestamp === undefined) await client.delete(Moves, metadata.name);
    });
  }

  protected async leaveNothing(): Promise<void> {
    await this.until('nothing is left over', async () => {
      const left = await this.stage.leftovers();
      if (left.length > 0) throw new Error(left.join('; '));
      return true;
    });
  }

  /** For whoever tells of a failure. */
  async records(): Promise<string> {
    const { client } = this.stage;
    const volumes = (await client.list(Volumes)).items.map(({ metadata, spec, status }) => ({ name: metadata.name, spec, status }));
    const moves = (await client.list(Moves)).items.map(({ metadata, spec, status }) => ({ name: metadata.name, spec, status }));
    const snapshots = (await client.list(Snapshots)).items.map(({ metadata, spec, status }) => ({ name: metadata.name, spec, status }));
    return JSON.stringify({ volumes, moves, snapshots }, null, 1);
  }
}
