// The life of one volume, from its creation on node-1 until nothing is left of it: served, written to all the while, grown, moved away, and
// on its way back taken back or not. Whoever dies meanwhile, it is told on: each call is tried until it works, as people and kubelets do.
import { join } from 'node:path';
import { messageOf } from '../../src/model/errors.ts';
import { GROUP_VERSION, type Stored } from '../../src/model/meta.ts';
import { Moves, type Move, type MovePhase } from '../../src/model/move.ts';
import { Volumes, type Volume } from '../../src/model/volume.ts';
import type { Chance } from '../../src/simulation/chance.ts';
import { systemClock } from '../../src/model/clock.ts';
import { Application } from './application.ts';
import { NODES, type Node, type Stage } from './stage.ts';

/** For one thing to come about after the last death, ms: several back-offs long, also on a machine that is busy with other things. */
const PATIENCE = 420_000;
const LOOK = 300;
/** Longer than a source stays fenced (controller.ts), ms. */
const OVERDUE = 20_000;

const FENCED: readonly MovePhase[] = ['Fencing', 'FinalDelta', 'Verifying'];
const ENDED: readonly MovePhase[] = ['Done', 'Cancelled', 'Failed'];
const THERE: readonly MovePhase[] = ['Published', 'Retaining', 'Done'];

/** What happens to a move once its source is unmounted, besides deaths: its target stands still until the source is given back, or it is cancelled. */
type Fate = 'none' | 'overdue' | 'cancel';

export class Story {
  readonly #stage: Stage;
  readonly #chance: Chance;
  readonly #name: string;
  readonly #application: Application;
  #moves = 0;

  constructor(stage: Stage, name: string, chance: Chance) {
    this.#stage = stage;
    this.#name = name;
    this.#chance = chance;
    this.#application = new Application(chance.fork());
  }

  /** Throws when anything is lost, left over, or does not come to an end. */
  async tell(): Promise<void> {
    await this.#create();
    // Before it is mounted: a grown ext4 asks for a capability that not every root has.
    await this.#grow();
    await this.#serve();
    await this.#move('node-2', this.#chance.happens(0.5) ? 'overdue' : 'none');
    await this.#serve();
    await this.#move('node-1', this.#chance.happens(0.6) ? 'cancel' : 'none');
    await this.#serve();
    await this.#withdraw();
    await this.#delete();
  }

  // ---- waiting -------------------------------------------------------------------------------------------------------------------

  async #until<T>(what: string, look: () => Promise<T | null>, patience = PATIENCE): Promise<T> {
    const began = systemClock.monotonic();
    let last = '';
    for (;;) {
      if (this.#stage.fault) throw new Error(this.#stage.fault);
      try {
        const answer = await look();
        if (answer !== null) return answer;
      } catch (error) {
        last = messageOf(error);
      }
      if (systemClock.monotonic() > Math.max(began, this.#stage.diedAt) + patience)
        throw new Error(`${what} did not come about${last && `: ${last}`}`);
      await systemClock.sleep(LOOK);
    }
  }

  #insist(what: string, act: () => Promise<unknown>): Promise<true> {
    this.#stage.note(`${this.#name}: ${what}`);
    return this.#until(what, async () => {
      await act();
      return true as const;
    });
  }

  #volume(): Promise<Stored<Volume>> {
    return this.#stage.client.get(Volumes, this.#name);
  }

  #untilVolume(what: string, isSo: (volume: Stored<Volume>) => boolean): Promise<Stored<Volume>> {
    return this.#until(`volume ${this.#name} ${what}`, async () => {
      const volume = await this.#volume();
      return isSo(volume) ? volume : null;
    });
  }

  #untilMove(
    name: string,
    what: string,
    isSo: (phase: MovePhase, move: Stored<Move>) => boolean,
    patience = PATIENCE,
  ): Promise<Stored<Move>> {
    let last = '';
    return this.#until(
      `move ${name} ${what}`,
      async () => {
        const move = await this.#stage.client.get(Moves, name);
        last = JSON.stringify(move.status);
        if (isSo(move.status?.phase ?? 'Pending', move)) return move;
        throw new Error(`it is ${last}`);
      },
      patience,
    );
  }

  // ---- what happens --------------------------------------------------------------------------------------------------------------

  async #create(): Promise<void> {
    const { client } = this.#stage;
    const volumeMode = this.#chance.happens(0.3) ? 'Block' : 'Filesystem';
    const spec = { size: '24Mi', node: NODES[0], volumeMode, retainSource: '0s' } as const;
    await this.#insist(`create, as ${volumeMode}`, async () => {
      const there = (await client.list(Volumes)).items.some(({ metadata }) => metadata.name === this.#name);
      if (!there) await client.create(Volumes, { apiVersion: GROUP_VERSION, kind: 'Volume', metadata: { name: this.#name }, spec });
    });
    await this.#untilVolume('is available', ({ status }) => status?.phase === 'Available');
  }

  async #serve(): Promise<void> {
    const volume = await this.#untilVolume('is placed', ({ spec }) => spec.node !== undefined);
    const target = this.#stage.at(this.#name);
    let node = volume.spec.node as Node;
    await this.#insist('mount', async () => {
      node = (await this.#volume()).spec.node as Node;
      await (await this.#stage.agent(node)).publish({ volume: this.#name, target });
    });
    this.#stage.note(`${this.#name}: served by ${node}`);
    await this.#application.start(volume.spec.volumeMode === 'Block' ? target : join(target, 'content'));
  }

  /** Whoever uses it stops first. */
  async #withdraw(): Promise<void> {
    await this.#application.stop();
    await this.#insist('unmount', async () => {
      for (const node of NODES) await (await this.#stage.agent(node)).unpublish({ volume: this.#name });
    });
  }

  async #grow(): Promise<void> {
    await this.#insist('grow', () => this.#stage.client.patch(Volumes, this.#name, { spec: { size: '32Mi' } }));
    await this.#untilVolume('is larger', ({ status }) => BigInt(status?.capacity ?? 0) >= 32n << 20n);
  }

  /** Until the volume is served from one of both again, and nothing is under way. */
  async #move(target: Node, fate: Fate): Promise<void> {
    const name = await this.#order(target, fate);
    await this.#untilMove(
      name,
      'is ready, or over',
      (phase, { status }) => status?.obstacle?.reason === 'WaitingForUnpublish' || FENCED.includes(phase) || isOver(phase),
    );
    await this.#application.stop();
    if (fate !== 'none') this.#stage.pause(target);
    // A paused agent answers nobody.
    const source: Node = target === 'node-1' ? 'node-2' : 'node-1';
    await this.#insist('unmount', async () => (await this.#stage.agent(source)).unpublish({ volume: this.#name }));
    if (fate !== 'none') await this.#meet(name, fate, target);
    await this.#untilMove(name, 'is over', isOver);
  }

  async #order(target: Node, fate: Fate): Promise<string> {
    const { client } = this.#stage;
    this.#moves += 1;
    const name = `${this.#name}-${this.#moves}`;
    // Rounds until they do not get smaller, while the application writes.
    const spec = { volume: this.#name, target, allowedPause: '1ms', stallPolicy: 'CutOver' } as const;
    await this.#insist(`move to ${target}, fate ${fate}`, async () => {
      const there = (await client.list(Moves)).items.some(({ metadata }) => metadata.name === name);
      if (!there) await client.create(Moves, { apiVersion: GROUP_VERSION, kind: 'Move', metadata: { name }, spec });
    });
    return name;
  }

  async #meet(move: string, fate: Fate, target: Node): Promise<void> {
    try {
      if (fate === 'overdue')
        await this.#untilMove(move, 'gave its source back', (phase, { status }) => (status?.attempts ?? 0) > 0 || isOver(phase), OVERDUE);
      else await this.#untilMove(move, 'is fenced', (phase) => FENCED.includes(phase) || isOver(phase), OVERDUE);
    } catch {
      // Who is killed and started again stands still no more: then there was nothing to wait for.
    }
    if (fate === 'cancel') await this.#insist('cancel', () => this.#stage.client.patch(Moves, move, { spec: { cancel: true } }));
    if (fate === 'cancel') await this.#untilMove(move, 'is taken back', (phase) => phase === 'Cancelling' || isOver(phase));
    this.#stage.goOn(target);
  }

  /** Its moves first, or it first. */
  async #delete(): Promise<void> {
    const { client } = this.#stage;
    const deleteMoves = (): Promise<true> =>
      this.#insist('delete moves', async () => {
        for (const { metadata, spec } of (await client.list(Moves)).items)
          if (spec.volume === this.#name && metadata.deletionTimestamp === undefined) await client.delete(Moves, metadata.name);
      });
    if (this.#chance.happens(0.5)) await deleteMoves();
    await this.#insist('delete', async () => {
      const there = (await client.list(Volumes)).items.find(({ metadata }) => metadata.name === this.#name);
      if (there && there.metadata.deletionTimestamp === undefined) await client.delete(Volumes, this.#name);
    });
    await this.#until(`volume ${this.#name} is gone`, async () => {
      const there = (await client.list(Volumes)).items.find(({ metadata }) => metadata.name === this.#name);
      if (there) throw new Error(`it is ${JSON.stringify(there.status)}`);
      return true;
    });
    await deleteMoves();
    await this.#until(`the moves of ${this.#name} are gone`, async () => {
      const left = (await client.list(Moves)).items.filter(({ spec }) => spec.volume === this.#name);
      return left.length === 0 ? true : null;
    });
    await this.#until('nothing is left over', async () => {
      const left = await this.#stage.leftovers();
      if (left.length > 0) throw new Error(left.join('; '));
      return true;
    });
  }

  /** For whoever tells of a failure. */
  async records(): Promise<string> {
    const { client } = this.#stage;
    const volumes = (await client.list(Volumes)).items.map(({ metadata, spec, status }) => ({ name: metadata.name, spec, status }));
    const moves = (await client.list(Moves)).items.map(({ metadata, spec, status }) => ({ name: metadata.name, spec, status }));
    return JSON.stringify({ volumes, moves }, null, 1);
  }
}

const isOver = (phase: MovePhase): boolean => ENDED.includes(phase) || THERE.includes(phase);
