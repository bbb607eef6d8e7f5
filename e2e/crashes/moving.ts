// The plot of a volume that moves: served, written to all the while, grown, moved away, its source given back or not, and on its way back taken
// back or not. A directory holds files of every kind beside what the application writes, and goes back because its node is drained.
import { join } from 'node:path';
import { drainMove } from '../../src/decide/drain.ts';
import { GROUP_VERSION, type Stored } from '../../src/model/meta.ts';
import { Moves, type Move, type MovePhase } from '../../src/model/move.ts';
import { StorageNodes } from '../../src/model/storage-node.ts';
import { Volumes } from '../../src/model/volume.ts';
import type { Chance } from '../../src/simulation/chance.ts';
import { Planted } from './planted.ts';
import { NODES, type Node, type Stage } from './stage.ts';
import { Story } from './story.ts';

/** Longer than a source stays fenced (controller.ts), ms. */
const OVERDUE = 20_000;

const FENCED: readonly MovePhase[] = ['Fencing', 'FinalDelta', 'Verifying'];
const ENDED: readonly MovePhase[] = ['Done', 'Cancelled', 'Failed'];
const THERE: readonly MovePhase[] = ['Published', 'Retaining', 'Done'];
const isOver = (phase: MovePhase): boolean => ENDED.includes(phase) || THERE.includes(phase);

/** What happens to a move once its source is unmounted, besides deaths: its target stands still until the source is given back, or it is cancelled. */
type Fate = 'none' | 'overdue' | 'cancel';

export class MovingStory extends Story {
  readonly #planted: Planted | null;
  #moves = 0;

  constructor(stage: Stage, name: string, { chance, directory }: { chance: Chance; directory: boolean }) {
    super(stage, name, chance);
    this.#planted = directory ? new Planted(chance.fork()) : null;
  }

  async tell(): Promise<void> {
    const volumeMode = this.chance.happens(0.3) && !this.#planted ? 'Block' : 'Filesystem';
    const pool = this.#planted ? { pool: 'directory' } : {};
    await this.create({ size: '24Mi', node: NODES[0], volumeMode, retainSource: '0s', ...pool });
    // Before it is mounted: a grown ext4 asks for a capability that not every root has.
    await this.#grow();
    await this.#visit();
    await this.#move('node-2', this.chance.happens(0.5) ? 'overdue' : 'none');
    await this.#visit();
    await this.#move('node-1', this.chance.happens(0.6) ? 'cancel' : 'none');
    await this.#visit();
    await this.application.stop();
    await this.unmount();
    await this.delete();
    await this.leaveNothing();
  }

  /** All is as it was left, and goes on. */
  async #visit(): Promise<void> {
    const at = await this.serve();
    this.#planted?.visit(join(at, 'planted'));
  }

  #untilMove(
    name: string,
    what: string,
    isSo: (phase: MovePhase, move: Stored<Move>) => boolean,
    patience?: number,
  ): Promise<Stored<Move>> {
    const look = async (): Promise<Stored<Move>> => {
      const move = await this.stage.client.get(Moves, name);
      if (isSo(move.status?.phase ?? 'Pending', move)) return move;
      throw new Error(`it is ${JSON.stringify(move.status)}`);
    };
    return this.until(`move ${name} ${what}`, look, patience);
  }

  async #grow(): Promise<void> {
    await this.insist('grow', () => this.stage.client.patch(Volumes, this.name, { spec: { size: '32Mi' } }));
    await this.untilVolume('is larger', ({ status }) => BigInt(status?.capacity ?? 0) >= 32n << 20n);
  }

  /** Until the volume is served from one of both again, and nothing is under way. */
  async #move(target: Node, fate: Fate): Promise<void> {
    const source: Node = target === 'node-1' ? 'node-2' : 'node-1';
    const drained = this.#planted !== null && target === 'node-1';
    const name = drained ? await this.#drain(source, fate) : await this.#order(target, fate);
    await this.#untilMove(
      name,
      'is ready, or over',
      (phase, { status }) => status?.obstacle?.reason === 'WaitingForUnpublish' || FENCED.includes(phase) || isOver(phase),
    );
    await this.application.stop();
    if (fate !== 'none') this.stage.pause(target);
    // A paused agent answers nobody.
    await this.insist('unmount', async () => (await this.stage.agent(source)).unpublish({ volume: this.name }));
    if (fate !== 'none') await this.#meet(name, fate, target);
    await this.#untilMove(name, 'is over', isOver);
    if (drained) await this.insist('drain no more', () => this.stage.client.patch(StorageNodes, source, { spec: { drain: null } }));
  }

  async #order(target: Node, fate: Fate): Promise<string> {
    const { client } = this.stage;
    this.#moves += 1;
    const name = `${this.name}-${this.#moves}`;
    // Rounds until they do not get smaller, while the application writes.
    const spec = { volume: this.name, target, allowedPause: '1ms', stallPolicy: 'CutOver' } as const;
    await this.insist(`move to ${target}, fate ${fate}`, async () => {
      const there = (await client.list(Moves)).items.some(({ metadata }) => metadata.name === name);
      if (!there) await client.create(Moves, { apiVersion: GROUP_VERSION, kind: 'Move', metadata: { name }, spec });
    });
    return name;
  }

  /** There is only one other node. A volume that is there already, because its move was given up, needs none. */
  async #drain(source: Node, fate: Fate): Promise<string> {
    const volume = await this.untilVolume('is there', () => true);
    if (volume.spec.node !== source) return this.#order('node-1', fate);
    await this.insist(`drain ${source}, fate ${fate}`, () => this.stage.client.patch(StorageNodes, source, { spec: { drain: true } }));
    return drainMove(volume);
  }

  async #meet(move: string, fate: Fate, target: Node): Promise<void> {
    try {
      if (fate === 'overdue')
        await this.#untilMove(move, 'gave its source back', (phase, { status }) => (status?.attempts ?? 0) > 0 || isOver(phase), OVERDUE);
      else await this.#untilMove(move, 'is fenced', (phase) => FENCED.includes(phase) || isOver(phase), OVERDUE);
    } catch {
      // Who is killed and started again stands still no more: then there was nothing to wait for.
    }
    if (fate === 'cancel') await this.insist('cancel', () => this.stage.client.patch(Moves, move, { spec: { cancel: true } }));
    if (fate === 'cancel') await this.#untilMove(move, 'is taken back', (phase) => phase === 'Cancelling' || isOver(phase));
    this.stage.goOn(target);
  }
}
