// What people order, and what they decide when the records alone cannot say what is right. They write records as flockctl does, see all
// disks, and make no mistakes: what they decide is true from then on.
import { messageOf } from '../model/errors.ts';
import type { CopyLabel } from '../model/label.ts';
import { GROUP_VERSION, type Stored } from '../model/meta.ts';
import { Moves, type Move, type MoveSpec } from '../model/move.ts';
import { parseSize } from '../model/quantity.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { RESTORED, Volumes, type Volume } from '../model/volume.ts';
import { Application } from './applications.ts';
import type { VolumeTruth } from './truth.ts';
import { FOLDERS, type World } from './world.ts';

const SIZES = ['8Mi', '9Mi', '12Mi', '10000000'];
const LARGER = ['13Mi', '16Mi', '20Mi'];
const ENDED = ['Done', 'Cancelled', 'Failed'];
const MOST_VOLUMES = 5;

export class People {
  readonly applications = new Map<string, Application>();
  readonly #world: World;
  #made = 0;

  constructor(world: World) {
    this.#world = world;
  }

  /** Whatever the server refuses is told, and no more. */
  try(what: string, act: () => unknown): void {
    if (!this.#world.server.up) return;
    try {
      this.#world.rules.ordered(act);
      this.#world.note('people', what);
    } catch (error) {
      this.#world.note('people', `${what}: ${messageOf(error)}`);
    }
  }

  get #registry(): World['server']['registry'] {
    return this.#world.server.registry;
  }

  #node(pool = 'local'): string {
    return this.#world.chance.pick(this.#nodesWith(pool)) ?? '';
  }

  #nodesWith(pool: string): string[] {
    return [...this.#world.machines].flatMap(([name, { folders }]) => (pool === FOLDERS && folders === null ? [] : [name]));
  }

  /** Mostly where it is not yet, and where its pool is. */
  #elsewhere(name: string | undefined): string {
    const { node: at, pool } = this.#world.volumes().find(({ metadata }) => metadata.name === name)?.spec ?? {};
    const others = this.#nodesWith(this.#world.chance.happens(0.97) ? (pool ?? 'local') : 'local').filter((node) => node !== at);
    return (this.#world.chance.happens(0.95) ? this.#world.chance.pick(others) : null) ?? this.#node();
  }

  #volume(): Stored<Volume> | null {
    return this.#world.chance.pick(this.#world.volumes().filter(({ metadata }) => metadata.deletionTimestamp === undefined));
  }

  #move(running: boolean): Stored<Move> | null {
    return this.#world.chance.pick(this.#world.moves().filter(({ status }) => running !== ENDED.includes(status?.phase ?? 'Pending')));
  }

  create(anywhere = this.#world.chance.happens(0.5), most = MOST_VOLUMES, pool = this.#pool()): void {
    if (this.#world.volumes().length >= most) return;
    this.make({ ...this.#spec(pool ?? 'local'), ...(pool ? { pool } : {}), ...(anywhere ? {} : { node: this.#node(pool ?? 'local') }) });
  }

  /** Where nobody has heard yet that there is no room. */
  createAnywhere(): void {
    this.create(true, MOST_VOLUMES + 1, this.#nodesWith(FOLDERS).length > 0 ? 'local' : null);
  }

  make(spec: Volume['spec']): void {
    this.#made += 1;
    const name = `v${this.#made}`;
    this.try(`creates volume ${name} ${JSON.stringify(spec)}`, () => {
      this.#registry.create(Volumes, { apiVersion: GROUP_VERSION, kind: 'Volume', metadata: { name }, spec } as Volume);
      this.applications.set(name, new Application(this.#world, name));
    });
  }

  /** Null where there is but one: then it need not be named. */
  #pool(): string | null {
    if (this.#nodesWith(FOLDERS).length === 0) return null;
    return this.#world.chance.happens(0.55) ? FOLDERS : 'local';
  }

  #spec(pool: string): Volume['spec'] {
    const { chance } = this.#world;
    return {
      size: chance.pick(SIZES) ?? '8Mi',
      volumeMode: pool === 'local' && chance.happens(0.2) ? 'Block' : 'Filesystem',
      retainSource: chance.pick(['0s', '0s', '10s', '40s']) ?? '10s',
      ...(chance.happens(0.3) ? { allowedPause: '1ms' } : {}),
    };
  }

  delete(): void {
    const volume = this.#volume();
    if (volume && this.#world.volumes().length > 1) this.remove(volume.metadata.name);
  }

  remove(name: string): void {
    this.try(`deletes volume ${name}`, () => this.#registry.delete(Volumes, name));
  }

  grow(volume = this.#volume()): void {
    const size = this.#world.chance.pick(LARGER);
    if (volume)
      this.try(`grows ${volume.metadata.name} to ${size}`, () => this.#registry.patch(Volumes, volume.metadata.name, { spec: { size } }));
  }

  /** Where there is no room for what was asked, as the obstacle advises. */
  giveUpGrowth(): void {
    for (const { metadata, spec, status } of this.#world.volumes()) {
      const { capacity, obstacle } = status ?? {};
      if (obstacle?.reason !== 'NoSpace' || capacity === undefined || parseSize(spec.size) <= BigInt(capacity)) continue;
      this.try(`takes the growth of ${metadata.name} back`, () =>
        this.#registry.patch(Volumes, metadata.name, { spec: { size: capacity } }),
      );
    }
  }

  order(volume = this.#volume()?.metadata.name, target = this.#elsewhere(volume), first = 'm'): void {
    if (volume === undefined) return;
    const { chance } = this.#world;
    this.#made += 1;
    const name = `${first}${this.#made}`;
    const policy = chance.pick(['Wait', 'CutOver', 'Abort'] as const) ?? 'Wait';
    const spec: MoveSpec = { volume, target, ...(chance.happens(0.3) ? { stallPolicy: policy } : {}) };
    this.try(`orders move ${name} of ${volume} to ${target}`, () =>
      this.#registry.create(Moves, { apiVersion: GROUP_VERSION, kind: 'Move', metadata: { name }, spec } as Move),
    );
  }

  /** Two people at once, and the second one's move has the first name: it goes first, unless the other has begun. */
  orderTwice(): void {
    const volume = this.#volume()?.metadata.name;
    this.order(volume);
    this.#world.time.after(this.#world.chance.between(3, 40), () => this.order(volume, this.#elsewhere(volume), 'a'));
  }

  cancel(move = this.#move(true)): void {
    if (move) this.try(`cancels ${move.metadata.name}`, () => this.#registry.patch(Moves, move.metadata.name, { spec: { cancel: true } }));
  }

  /** One that is about to commit; or its volume is to be larger. */
  disturbLast(): void {
    const move = this.#world.chance.pick(this.#world.moves().filter(({ status }) => status?.phase === 'Verifying'));
    if (this.#world.chance.happens(0.7)) return this.cancel(move);
    this.grow(this.#world.volumes().find(({ metadata }) => metadata.name === move?.spec.volume) ?? null);
  }

  deleteMove(): void {
    const move = this.#move(this.#world.chance.happens(0.4));
    if (move) this.try(`deletes ${move.metadata.name}`, () => this.#registry.delete(Moves, move.metadata.name));
  }

  /** Everything off a node: by the controller, or one by one. */
  drain(): void {
    const node = this.#volume()?.spec.node ?? this.#node();
    if (this.#world.chance.happens(0.6))
      return this.try(`drains ${node}`, () => this.#registry.patch(StorageNodes, node, { spec: { drain: true } }));
    this.#cordon(node, true);
    for (const { metadata, spec } of this.#world.volumes())
      if (spec.node === node) this.order(metadata.name, this.#elsewhere(metadata.name));
  }

  #cordon(node: string, unschedulable: boolean): void {
    this.try(`${unschedulable ? 'cordons' : 'uncordons'} ${node}`, () =>
      this.#registry.patch(StorageNodes, node, { spec: unschedulable ? { unschedulable } : { unschedulable, drain: false } }),
    );
  }

  uncordonAll(): void {
    for (const node of this.#world.machines.keys()) this.#cordon(node, false);
  }

  /** Applications start and stop; one that is waited for gives way. */
  startOrStop(): void {
    const application = this.#world.chance.pick([...this.applications.values()]);
    if (application) application.wanted = !application.wanted;
  }

  /** Stops what moves wait for, and starts the rest. */
  giveWay(): void {
    const waited = new Set(
      this.#world
        .moves()
        .filter(({ status }) => status?.phase === 'ReadyToCutOver')
        .map(({ spec }) => spec.volume),
    );
    for (const [name, application] of this.applications) application.wanted = !waited.has(name) && this.#world.chance.happens(0.8);
  }

  // ---- when records and disks disagree -------------------------------------------------------------------------------------------

  /** Each volume whose records went back is named again as it is, deleted again, or its remains are removed. */
  decide(): void {
    if (!this.#world.server.up) return;
    for (const truth of this.#world.rules.truths.values()) {
      const record = this.#world.volumes().find(({ metadata }) => metadata.uid === truth.uid);
      if (record) this.#decideOn(truth, record);
      else this.#decideWithout(truth);
    }
  }

  #decideOn(truth: VolumeTruth, record: Stored<Volume>): void {
    if (truth.lost || truth.gone) this.#deleteAgain(truth, record);
    else if (truth.behind || (truth.rewritten && waitsForPerson(record))) this.#name(truth, record);
    else if (record.metadata.annotations?.[RESTORED] !== undefined) this.#confirm(record);
    else if (truth.rewritten) this.#removeKept(truth, record);
  }

  #decideWithout(truth: VolumeTruth): void {
    if (!truth.gone) this.#forget(truth);
    else if (truth.rewritten) this.#removeRemains(truth);
  }

  #deleteAgain(truth: VolumeTruth, record: Stored<Volume>): void {
    if (record.metadata.deletionTimestamp !== undefined) return this.#removeDoubted(record);
    this.try(`deletes ${truth.name}, which is lost`, () => this.#registry.delete(Volumes, truth.name));
  }

  #name(truth: VolumeTruth, record: Stored<Volume>): void {
    const { placed } = truth;
    if (!placed) return;
    const found = this.#world.machine(placed.node).copy(`${truth.uid}-${placed.copy}`);
    // One that was committed and not activated yet is proven for that very commit.
    const arriving = found?.label.role === 'incoming';
    const epoch = arriving ? placed.epoch : Math.max(placed.epoch, record.spec.epoch ?? 0, found?.label.epoch ?? 0) + 1;
    const spec = { node: placed.node, copy: placed.copy, epoch, pool: truth.pool ?? 'local', move: arriving ? placed.move : null };
    this.try(`names copy ${placed.copy} on ${placed.node} as ${truth.name} at epoch ${epoch}`, () => {
      this.#registry.patch(Volumes, truth.name, { metadata: { uid: truth.uid, annotations: { [RESTORED]: null } }, spec });
    });
  }

  /** The record says what is true. */
  #confirm({ metadata }: Stored<Volume>): void {
    this.try(`confirm the record of ${metadata.name}`, () => {
      this.#registry.patch(Volumes, metadata.name, { metadata: { uid: metadata.uid, annotations: { [RESTORED]: null } } });
    });
  }

  /** A superseded copy whose move did not commit by the records that came back: nobody else will ever release it. */
  #removeKept({ uid }: VolumeTruth, { metadata, spec }: Stored<Volume>): void {
    const moving = this.#world
      .moves()
      .some((move) => move.spec.volume === metadata.name && !ENDED.includes(move.status?.phase ?? 'Pending'));
    if (!moving) this.#removeByHand(({ volumeUid, copy, role }) => volumeUid === uid && copy !== spec.copy && role === 'stale');
  }

  /** Nothing was said of it in the records that came back. */
  #forget(truth: VolumeTruth): void {
    truth.gone = true;
    truth.lost = true;
    this.#removeRemains(truth);
  }

  #removeRemains({ uid }: VolumeTruth): void {
    this.#removeByHand(({ volumeUid }) => volumeUid === uid);
  }

  /** Agents remove nothing that is ahead of its record. */
  #removeDoubted({ metadata, status }: Stored<Volume>): void {
    this.#removeByHand(({ volumeUid, copy }) => volumeUid === metadata.uid && status?.copies?.[copy]?.obstacle?.reason === 'RecordBehind');
  }

  #removeByHand(which: (label: CopyLabel) => boolean): void {
    for (const machine of this.#world.machines.values())
      for (const [name, copy] of machine.copies) {
        if (!which(copy.label) || machine.inUse().some((used) => used.copy === copy) || copy.device !== null) continue;
        this.#world.note('people', `remove ${name} from ${machine.name} by hand`);
        for (const { copies } of machine.disks) copies.delete(name);
        machine.journals.delete(name);
        this.#world.rules.touched();
      }
  }
}

/** What an agent says of the named copy when only a person can know. */
const waitsForPerson = ({ spec, status }: Volume): boolean =>
  ['FencedWithoutMove', 'RecordNamesOld', 'DiskBehind', 'NotVerified'].includes(status?.copies?.[spec.copy ?? '']?.obstacle?.reason ?? '');
