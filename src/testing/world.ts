// A small world in one process: records in memory, controllers and agents as they are, machines that outlive them, time that the test
// owns. Nothing happens but by `turn`, and the same seed gives the same run. After every act the rules are checked. Only *.test.ts
// import it.
import { CopyActs } from '../agent/acts.ts';
import { authorizer } from '../agent/authorize.ts';
import { Copies } from '../agent/copies.ts';
import { inventory, type Inventory } from '../agent/inventory.ts';
import { turns } from '../host/turns.ts';
import type { AgentPorts } from '../agent/ports.ts';
import { Publishing } from '../agent/publishing.ts';
import { VolumeReconciler } from '../agent/reconcile.ts';
import { Transfers } from '../agent/transfers.ts';
import type { Client } from '../api/client.ts';
import { LocalClient } from '../api/local-client.ts';
import { Registry } from '../api/registry.ts';
import { MemoryTable } from '../api/table.ts';
import { MoveController } from '../controller/moves.ts';
import { SnapshotController } from '../controller/snapshots.ts';
import { VolumeController } from '../controller/volumes.ts';
import { whyNotPublish } from '../decide/publishing.ts';
import { DEFAULT_CAPS, type Caps } from '../decide/moves.ts';
import { messageOf } from '../model/errors.ts';
import { GROUP_VERSION, type Stored } from '../model/meta.ts';
import { Moves, type Move, type MoveSpec } from '../model/move.ts';
import { Snapshots, type Snapshot } from '../model/snapshot.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import { Volumes, type Volume, type VolumeSpec } from '../model/volume.ts';
import { memoryDisk, MemoryPool } from '../pools/memory.ts';
import type { Pool } from '../pools/pool.ts';
import type { Authorize } from '../transfer/transfer.ts';
import { fakeClock, type FakeClock } from './fake-clock.ts';
import { copyAt, fakeMounts, fakePublications, fakeTransfer, machine, textAt, writeText, type Machine } from './fake-machine.ts';
import { keptLog, type KeptLog } from './kept-log.ts';
import { FlockError } from '../model/errors.ts';

export interface WorldOptions {
  nodes?: number;
  controllers?: number;
  /** Bytes of each node's pool. */
  capacity?: bigint;
  points?: boolean;
  caps?: Partial<Caps>;
  seed?: number;
  /** Above 0 all act at once, and this is how likely each of their calls lets others go first, again and again, below 1. */
  interleave?: number;
  /** How likely a look at what is known shows what was known before, 0 to 1. */
  stale?: number;
}

/** Where and when somebody dies: at the nth passing of a crash point. */
export interface Death {
  who: string;
  at: string;
  nth: number;
}

interface Actor {
  name: string;
  act: () => Promise<void>;
}

interface Agent {
  life: Life;
  reconciler: VolumeReconciler;
  publishing: Publishing;
  transfers: Transfers;
  copies: Copies;
  inventory: Inventory;
  pool: Pool;
  authorize: Authorize;
}

/** One life of a process: whoever died does nothing any more, whatever it still tries. */
interface Life {
  over: boolean;
}

const DAY = 24 * 3_600_000;
/** The smallest that ext4 is made on. */
const LEAST = 8n << 20n;

export class World {
  readonly clock: FakeClock = fakeClock();
  readonly log: KeptLog = keptLog();
  readonly registry: Registry;
  readonly client: Client;
  readonly machines = new Map<string, Machine>();
  readonly told: string[] = [];
  /** What was tried and failed, as it would reach a queue. */
  readonly failures: string[] = [];
  /** Crash points that were passed, as `who point`. */
  readonly passed = new Map<string, number>();
  /** What an application was told is written: block by block. */
  readonly acknowledged = new Map<bigint, string>();
  /** Watches of whoever starts now have not told of any move yet. */
  watchesAreEmpty = false;
  /** Pairs `a>b` of nodes that do not reach each other. */
  readonly cut = new Set<string>();
  /** Snapshots (by name) that no agent's watch has told of yet. */
  readonly unheard = new Set<string>();
  readonly silent = new Set<string>();
  death: Death | null = null;
  /** Asked before each call of a client: who calls what; waits as long as the test wants. */
  beforeCall: (who: string, method: string) => Promise<void> = () => Promise.resolve();
  readonly #options: Required<WorldOptions>;
  readonly #agents = new Map<string, Agent>();
  readonly #controllers = new Map<
    string,
    { life: Life; moves: MoveController; volumes: VolumeController; snapshots: SnapshotController }
  >();
  #random: number;

  constructor(options: WorldOptions = {}) {
    this.#options = { nodes: 2, controllers: 1, capacity: 1n << 30n, points: true, caps: {}, seed: 1, interleave: 0, stale: 0, ...options };
    this.#random = this.#options.seed;
    let uids = 0;
    const uid = (): string => `${String((uids += 1)).padStart(8, '0')}-0000-4000-8000-${String(this.#options.seed).padStart(12, '0')}`;
    this.registry = new Registry({ table: new MemoryTable(), clock: this.clock, uid });
    this.client = new LocalClient({ registry: this.registry, clock: this.clock });
    for (let number = 1; number <= this.#options.nodes; number += 1) {
      const name = `node-${number}`;
      this.machines.set(name, machine(memoryDisk(`pool-${number}`, this.#options.capacity)));
      this.start(name);
    }
    for (let number = 1; number <= this.#options.controllers; number += 1) this.startController(`controller-${number}`);
  }

  // ---- chance, lives and crash points ----------------------------------------------------------------------------------------------

  /** Numbers from 0 to 1 that depend on the seed alone (mulberry32). */
  #chance(): number {
    this.#random = (this.#random + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#random ^ (this.#random >>> 15), 1 | this.#random);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  #crash(who: string, life: Life): (point: string) => void {
    return (point) => {
      if (life.over) throw new Error(`${who} is dead`);
      const key = `${who} ${point}`;
      const count = (this.passed.get(key) ?? 0) + 1;
      this.passed.set(key, count);
      if (this.death?.who !== who || this.death.at !== point || this.death.nth !== count) return;
      life.over = true;
      throw new Error(`${who} died at ${point}`);
    };
  }

  /** Everything of it throws once the life is over; a call that dawdles may find the world changed. */
  #mortal<T extends object>(who: string, life: Life, target: T, dawdles = false): T {
    const alive = (): void => {
      if (life.over) throw new Error(`${who} is dead`);
    };
    return new Proxy(target, {
      get: (of, key) => {
        const value: unknown = Reflect.get(of, key, of);
        if (typeof value !== 'function') return value;
        const call = (...given: unknown[]): unknown => {
          alive();
          return (value as (...all: unknown[]) => unknown).apply(of, given);
        };
        if (!dawdles || key === 'watch') return call;
        return async (...given: unknown[]): Promise<unknown> => {
          await this.#dawdle();
          await this.beforeCall(who, String(key));
          return call(...given);
        };
      },
    });
  }

  /** So long that any of the others may come in between, as often as chance will have it. */
  async #dawdle(): Promise<void> {
    if (this.#options.interleave === 0) return;
    while (this.#chance() < this.#options.interleave) await new Promise((resolve) => setImmediate(resolve));
    this.check();
  }

  /** A view that a watch keeps, which may be behind: what it shows was true once, and never goes back. */
  #view<T>(now: () => T[]): () => T[] {
    let shown: T[] | null = null;
    return () => {
      if (shown === null || this.#chance() >= this.#options.stale) shown = structuredClone(now());
      return shown;
    };
  }

  // ---- who acts --------------------------------------------------------------------------------------------------------------------

  moves(): Stored<Move>[] {
    return this.registry.list(Moves).items;
  }

  volumes(): Stored<Volume>[] {
    return this.registry.list(Volumes).items;
  }

  snapshots(): Stored<Snapshot>[] {
    return this.registry.list(Snapshots).items;
  }

  nodes(): Stored<StorageNode>[] {
    return this.registry.list(StorageNodes).items;
  }

  move(name = 'move'): Stored<Move> {
    return this.registry.get(Moves, name);
  }

  volume(name = 'db'): Stored<Volume> {
    return this.registry.get(Volumes, name);
  }

  agent(node: string): Agent {
    const agent = this.#agents.get(node);
    if (!agent) throw new Error(`the agent of ${node} does not run`);
    return agent;
  }

  machine(node: string): Machine {
    const found = this.machines.get(node);
    if (!found) throw new Error(`there is no ${node}`);
    return found;
  }

  startController(name: string): void {
    const life = { over: false };
    const { clock, log } = this;
    const ports = {
      client: this.#mortal(name, life, this.client, true),
      known: { moves: this.#view(() => this.moves()), nodes: () => this.nodes(), volumes: () => this.volumes() },
      caps: { ...DEFAULT_CAPS, ...this.#options.caps },
      clock,
      crash: this.#crash(name, life),
      log,
      tell: (_about: object, type: string, reason: string, message: string) => void this.told.push(`${type} ${reason}: ${message}`),
    };
    this.#controllers.set(name, {
      life,
      moves: new MoveController(ports),
      volumes: new VolumeController(ports),
      snapshots: new SnapshotController(ports),
    });
  }

  /** A new agent on the machine as it is. */
  start(node: string): void {
    const life = { over: false };
    const of = this.machine(node);
    const mortal = <T extends object>(target: T): T => this.#mortal(node, life, target);
    const pool = mortal(new MemoryPool({ name: 'local', disk: of.disk, points: this.#options.points, journals: '/journals' }) as Pool);
    const moves = this.#view(() => (this.watchesAreEmpty ? [] : this.moves()));
    const ports: AgentPorts = {
      node,
      client: this.#mortal(node, life, this.client, true),
      known: {
        movesOf: (volume) => moves().filter((move) => move.spec.volume === volume),
        snapshotsOf: (volume) =>
          this.snapshots().filter(({ spec, metadata }) => spec.volume === volume && !this.unheard.has(metadata.name)),
        node: (name) => this.nodes().find(({ metadata }) => metadata.name === name) ?? null,
        volume: (name) => this.volumes().find(({ metadata }) => metadata.name === name) ?? null,
      },
      pools: new Map([['local', pool]]),
      mounts: mortal(fakeMounts(of)),
      transfer: mortal(fakeTransfer(node, of, (from, to) => this.#dial(from, to))),
      clock: this.clock,
      crash: this.#crash(node, life),
      log: this.log,
      tell: (_about, type, reason, message) => void this.told.push(`${type} ${reason}: ${message}`),
      isLeaseFresh: () => !this.silent.has(node),
    };
    this.#agents.set(node, agentOf(ports, pool, life, fakePublications(of)));
  }

  #dial(from: string, to: string): Authorize {
    const there = this.#agents.get(to);
    if (!there || there.life.over || this.cut.has(`${from}>${to}`)) throw new FlockError('Unavailable', `node ${to} does not answer`);
    const uid = this.nodes().find(({ metadata }) => metadata.name === from)?.metadata.uid ?? null;
    return (hello, peer) => there.authorize(hello, { ...peer, uid });
  }

  /** The agent's process ends at once; its machine goes on. */
  kill(node: string): void {
    this.agent(node).life.over = true;
  }

  // ---- time and turns --------------------------------------------------------------------------------------------------------------

  #actors(): Actor[] {
    const controllers = [...this.#controllers].map(([name, { moves, volumes, snapshots }]) => ({
      name,
      act: async (): Promise<void> => {
        for (const { metadata } of this.volumes()) await this.#try(name, () => volumes.reconcile(metadata.name));
        for (const { metadata } of this.moves()) await this.#try(name, () => moves.reconcile(metadata.name));
        for (const { metadata } of this.snapshots()) await this.#try(name, () => snapshots.reconcile(metadata.name));
      },
    }));
    const agents = [...this.#agents].map(([name, { reconciler, life }]) => ({
      name,
      act: async (): Promise<void> => {
        await this.#report(name, !life.over && !this.silent.has(name));
        if (!life.over) for (const volume of this.#namesOn(name)) await this.#try(name, () => reconciler.reconcile(volume));
      },
    }));
    return [...controllers, ...agents];
  }

  #namesOn(node: string): Set<string> {
    const local = [...this.machine(node).disk.copies.values()].map(({ label }) => label.volume);
    return new Set([...this.volumes().map(({ metadata }) => metadata.name), ...local]);
  }

  async #try(who: string, work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.failures.push(`${who}: ${messageOf(error)}`);
    }
  }

  async #act({ act }: Actor): Promise<void> {
    await act();
    this.check();
  }

  /** What the agent's own report says, without its timing. */
  async #report(name: string, ready: boolean): Promise<void> {
    const { disk } = this.machine(name);
    const free = String(disk.capacity - [...disk.copies.values()].reduce((sum, { size }) => sum + size, 0n));
    const status: StorageNode['status'] = {
      transfer: { address: name, port: 1 },
      filesystems: ['ext4', 'xfs'],
      canMount: true,
      pools: { local: { type: 'image', free, points: this.#options.points, healthy: disk.gone === null } },
      conditions: [
        { type: 'Ready', status: ready ? 'True' : 'Unknown', reason: 'World', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' },
      ],
    };
    if (!this.nodes().some(({ metadata }) => metadata.name === name))
      await this.client.create(StorageNodes, { apiVersion: GROUP_VERSION, kind: 'StorageNode', metadata: { name }, spec: {} });
    await this.client.patch(StorageNodes, name, { status }, { subresource: 'status' });
  }

  /** One alone acts once. */
  async act(name: string): Promise<void> {
    for (const actor of this.#actors()) if (actor.name === name) await this.#act(actor);
  }

  /** Everybody acts once. */
  async turn(): Promise<void> {
    if (this.#options.interleave > 0) await Promise.all(this.#actors().map((actor) => this.#act(actor)));
    else for (const actor of this.#actors()) await this.#act(actor);
    await this.clock.settle();
    this.check();
  }

  /** Until nothing changes any more, without time passing. */
  async settle(): Promise<void> {
    for (let turns = 0, quiet = 0; quiet < 2; turns += 1) {
      if (turns > 200) throw new Error(`no peace after ${turns} turns: ${JSON.stringify(this.moves().map(({ status }) => status))}`);
      const before = this.registry.version;
      await this.turn();
      this.#revive();
      quiet = this.registry.version === before ? quiet + 1 : 0;
    }
  }

  /** Whoever died is started again, as a supervisor would. */
  #revive(): void {
    for (const [name, { life }] of this.#controllers) if (life.over) this.startController(name);
    if (this.death && this.#agents.get(this.death.who)?.life.over) {
      this.start(this.death.who);
      this.death = null;
    }
  }

  async pass(ms: number): Promise<void> {
    await this.clock.advance(ms);
    await this.settle();
  }

  /** Long enough for every wait of a move that goes on: retention, retries, the scrub. */
  async passLong(): Promise<void> {
    for (const part of [60_000, DAY, 60_000]) await this.pass(part);
  }

  // ---- what people and applications do ---------------------------------------------------------------------------------------------

  async create(spec: Partial<VolumeSpec> = {}, name = 'db'): Promise<void> {
    const whole = { size: String(LEAST), node: 'node-1', ...spec };
    await this.client.create(Volumes, { apiVersion: GROUP_VERSION, kind: 'Volume', metadata: { name }, spec: whole });
    await this.settle();
  }

  async order(target: string, { name = 'move', ...spec }: Partial<MoveSpec> & { name?: string } = {}): Promise<void> {
    await this.client.create(Moves, {
      apiVersion: GROUP_VERSION,
      kind: 'Move',
      metadata: { name },
      spec: { volume: 'db', target, ...spec },
    });
  }

  async cancel(name = 'move'): Promise<void> {
    await this.client.patch(Moves, name, { spec: { cancel: true } });
  }

  /** Mounts it and writes, as an application does: what is acknowledged has to be there later. */
  async publish(node: string, target = '/srv/db'): Promise<void> {
    await this.agent(node).publishing.publish({ volume: 'db', target, readOnly: false });
    this.check();
  }

  write(node: string, block: bigint, text: string, target = '/srv/db'): void {
    const { mounts, disk } = this.machine(node);
    const mounted = mounts.get(target);
    if (!mounted) throw new Error(`nothing is mounted at ${target} of ${node}`);
    writeText(copyAt(disk, mounted.device), block, text);
    this.acknowledged.set(block, text);
  }

  async unpublish(node: string): Promise<void> {
    await this.agent(node).publishing.unpublish({ volume: 'db' });
  }

  /** Publishes it where the record says and reads back all that was acknowledged; what is lost, by block. */
  async lost(): Promise<string[]> {
    const node = this.volume().spec.node ?? '';
    await this.publish(node, '/mnt/check');
    const { mounts, disk } = this.machine(node);
    const copy = copyAt(disk, mounts.get('/mnt/check')?.device ?? '');
    const wrong = [...this.acknowledged].filter(([block, text]) => textAt(copy, block) !== text).map(([block]) => String(block));
    await this.agent(node).publishing.unpublish({ volume: 'db', target: '/mnt/check' });
    return wrong;
  }

  // ---- the rules -------------------------------------------------------------------------------------------------------------------

  /** Names of all copies on all disks, as `node role epoch`. */
  copies(): string[] {
    return [...this.machines].flatMap(([node, { disk }]) =>
      [...disk.copies.values()].map(({ label }) => `${node} ${label.role} ${label.epoch}`),
    );
  }

  check(): void {
    for (const volume of this.volumes()) {
      const using = [...this.machines].filter(([, of]) => isUsed(of, volume.metadata.uid)).map(([node]) => node);
      if (using.length > 1) throw new Error(`rule 1: ${volume.metadata.name} is in use on ${using.join(' and ')}`);
      const serving = [...this.machines].filter(([node, of]) => this.#wouldServe(node, of, volume)).map(([node]) => node);
      if (serving.length > 1) throw new Error(`rule 1: ${volume.metadata.name} would be served by ${serving.join(' and ')}`);
      this.#checkNamed(volume);
    }
  }

  #wouldServe(node: string, { disk }: Machine, volume: Stored<Volume>): boolean {
    const copy = disk.copies.get(`${volume.metadata.uid}-${volume.spec.copy}`);
    if (!copy) return false;
    const seen = {
      id: copy.label.copy,
      pool: 'local',
      label: copy.label,
      size: copy.size,
      published: [],
      held: false,
      points: [],
      proof: null,
    };
    return whyNotPublish({ node, volume, moves: this.moves(), copy: seen, leaseFresh: true }) === null;
  }

  /** G-07: what the record names is there, once it was made. */
  #checkNamed({ metadata, spec, status }: Stored<Volume>): void {
    const entry = status?.copies?.[spec.copy ?? ''];
    if (metadata.deletionTimestamp !== undefined || !entry?.created || !spec.node) return;
    const { disk } = this.machine(spec.node);
    if (disk.gone === null && !disk.copies.has(`${metadata.uid}-${spec.copy}`))
      throw new Error(`rule 2: the copy of ${metadata.name} that the record names is not on ${spec.node}`);
  }
}

function isUsed({ disk, mounts }: Machine, uid: string): boolean {
  const devices = new Set([...mounts.values()].map(({ device }) => device));
  return [...disk.copies.values()].some(({ device, label }) => label.volumeUid === uid && device !== null && devices.has(device));
}

function agentOf(ports: AgentPorts, pool: Pool, life: Life, publications: ReturnType<typeof fakePublications>): Agent {
  const lock = turns();
  const seen = inventory(ports.pools);
  const copies = new Copies(ports, seen, publications);
  const shared = { copies, inventory: seen, publications, lock };
  const publishing = new Publishing(ports, shared);
  const settings = {
    identity: () => ({ cluster: 'world', node: ports.node, key: '', certificate: '', authority: '' }),
    progressMs: 5_000,
    retry: { first: 1_000, longest: 30_000 },
  };
  const transfers = new Transfers(ports, settings, () => undefined);
  const acts = new CopyActs(ports, { ...shared, transfers, publishing, roomChanged: async () => undefined });
  const reconciler = new VolumeReconciler(ports, { ...shared, acts });
  const authorize = authorizer(ports, { copies, lock });
  return { life, reconciler, publishing, transfers, copies, inventory: seen, pool, authorize };
}
