// A cluster in one process: the shipped controllers and agents over records, disks and wires of the simulation. Starts processes, and starts
// them again when they died. What happens to it is chosen elsewhere (people.ts, applications.ts).
import type { Log } from '../api/log.ts';
import { startAgent, type Agent } from '../agent/agent.ts';
import type { AgentMetrics } from '../agent/metrics.ts';
import { publicationsIn } from '../agent/publications.ts';
import type { BrokenPool } from '../agent/node-report.ts';
import type { Call } from '../agent/socket.ts';
import { runControllers } from '../controller/controller.ts';
import type { ControllerMetrics } from '../controller/metrics.ts';
import { DEFAULT_CAPS, type Caps } from '../decide/moves.ts';
import { FlockError, messageOf } from '../model/errors.ts';
import type { ApiObject, Stored } from '../model/meta.ts';
import { Moves, type Move } from '../model/move.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import type { MemoryDisk } from '../pools/memory.ts';
import type { Pool } from '../pools/pool.ts';
import type { Hello } from '../transfer/transfer.ts';
import { Chance } from './chance.ts';
import { Deaths } from './deaths.ts';
import { Life } from './life.ts';
import { Line } from './line.ts';
import { FolderPool } from './folders.ts';
import { Machine, mountsOf, NodePool } from './machine.ts';
import { transferOf } from './pull.ts';
import { Rules, SKEW } from './rules.ts';
import { Server } from './server.ts';
import { VirtualTime } from './time.ts';
import { fairWeather } from './weather.ts';
import { Wires } from './wire.ts';

/** Shorter than in real life, so that a history has several of everything. */
const CAPS: Caps = { ...DEFAULT_CAPS, perNode: 2, maxRounds: 4, fencedMs: 20_000 };
const MEAN_RESTART = 2_000;
/** Name of the pools of directories. */
export const FOLDERS = 'folders';
/** Ten times what a history has: somebody tries the same again and again. */
const MOST_EVENTS = 500_000;

interface Running {
  life: Life;
  /** Ends it in order. */
  stop: () => Promise<void>;
  /** Its local socket; null before it listens. */
  calls: { [path: string]: Call } | null;
}

interface NodePoolParts {
  type: Pool['type'];
  disk: MemoryDisk;
  open: () => Pool;
}

export class World {
  readonly chance: Chance;
  readonly time = new VirtualTime();
  readonly weather = fairWeather();
  readonly machines = new Map<string, Machine>();
  readonly controllers: string[] = [];
  readonly server: Server;
  readonly rules: Rules;
  readonly deaths: Deaths;
  readonly wires: Wires;
  /** Of all applications, so that each is later than another. */
  writes = 0;
  /** Told of who is stunned at which point. */
  onStun: (point: string) => void = () => {};
  readonly #running = new Map<string, Running>();
  /** Wall clocks by place, ms from the truth. */
  readonly #skews = new Map<string, number>();
  readonly #points: boolean;
  readonly #tell: ((line: string) => void) | null;
  #uids = 0;

  constructor(seed: number, tell: ((line: string) => void) | null) {
    this.chance = new Chance(seed);
    this.#tell = tell;
    this.#points = this.chance.happens(0.85);
    const clock = {
      now: () => Date.UTC(2026, 0, 1) + this.time.now,
      monotonic: () => this.time.now,
      sleep: () => new Promise<void>(() => {}),
    };
    this.rules = new Rules({ machines: this.machines, time: this.time, moves: () => this.moves(), volumes: () => this.volumes() });
    this.deaths = new Deaths(this.chance.fork(), (point) => this.rules.break('crash points', `${point} is not in the list of deaths.ts`));
    this.server = new Server(
      clock,
      () => this.#uid(),
      (kind, seen) => this.rules.wrote(kind.kind, seen),
    );
    this.wires = new Wires({ time: this.time, weather: this.weather, uidOf: (node) => this.#uidOf(node) });
    const nodes = 2 + this.chance.below(3);
    const withFolders = this.chance.happens(0.7);
    for (let number = 1; number <= nodes; number += 1) {
      const name = `node-${number}`;
      this.machines.set(name, new Machine(name, withFolders && (number <= 2 || this.chance.happens(0.7))));
    }
    for (const node of this.machines.keys()) this.startAgent(node);
    for (const name of ['controller-1', 'controller-2']) {
      this.controllers.push(name);
      this.startController(name);
    }
  }

  /** UIDs differ in their first digits, which ids are made from. */
  #uid(): string {
    this.#uids += 1;
    const mixed = Math.imul(this.#uids, 0x9e3779b1) >>> 0;
    return `${mixed.toString(16).padStart(8, '0')}-${(this.#uids & 0xffff).toString(16).padStart(4, '0')}-4000-8000-000000000000`;
  }

  #uidOf(node: string): string | null {
    return this.server.registry.list(StorageNodes).items.find(({ metadata }) => metadata.name === node)?.metadata.uid ?? null;
  }

  /** Kept for a person to read, when one reads. */
  note(who: string, what: string): void {
    this.#tell?.(`${(this.time.now / 1000).toFixed(3).padStart(10)} ${who.padEnd(13)} ${what}`);
  }

  moves(): Stored<Move>[] {
    return this.server.registry.list(Moves).items;
  }

  volumes(): Stored<Volume>[] {
    return this.server.registry.list(Volumes).items;
  }

  machine(node: string): Machine {
    const found = this.machines.get(node);
    if (!found) throw new Error(`there is no ${node}`);
    return found;
  }

  /** Lets time pass, unless a rule is broken meanwhile. */
  async pass(ms: number): Promise<void> {
    await this.time.runUntil(this.time.now + ms, () => {
      this.rules.check();
      if (this.time.happened > MOST_EVENTS) this.rules.break('everything comes to an end', `${MOST_EVENTS} events, and no end of it`);
      return this.rules.breach !== null;
    });
  }

  // ---- processes ---------------------------------------------------------------------------------------------------------------

  #born(name: string, role: 'agent' | 'controller'): Life {
    const chance = this.chance.fork();
    const skew = this.#skews.get(name) ?? chance.between(-SKEW / 2, SKEW / 2);
    this.#skews.set(name, skew);
    this.note(name, 'starts');
    return new Life({
      name,
      role,
      time: this.time,
      chance,
      deaths: this.deaths,
      clock: { skew, speed: chance.between(0.98, 1.02) },
      onStun: (point) => {
        this.note(name, `stands still at ${point}`);
        this.onStun(point);
      },
      onEnd: (why) => {
        this.note(name, `ends: ${why}`);
        this.#running.delete(name);
        this.time.after(this.chance.around(MEAN_RESTART), () => this.#again(name, role));
      },
    });
  }

  /** As a supervisor does, unless somebody started it since or its machine is off. */
  #again(name: string, role: 'agent' | 'controller'): void {
    if (this.#running.has(name)) return;
    if (role === 'controller') return this.startController(name);
    if (this.machine(name).powered) this.startAgent(name);
  }

  #parts(life: Life): { client: Line; clock: Life['clock']; random: () => number; crash: Life['crash']; log: Log; tell: Tell } {
    const { server, weather, time } = this;
    const told = (fields: object, message: string): void => {
      if (this.#tell && !life.over) this.note(life.name, `${message} ${shown(fields)}`);
    };
    return {
      client: new Line({ life, place: life.name, server, weather, time }),
      clock: life.clock,
      random: () => life.chance.next(),
      crash: life.crash,
      log: { debug: () => undefined, info: told, warn: told, error: told },
      tell: (about, type, reason, message) => told({}, `tells of ${about.metadata.name} (${type} ${reason}): ${message}`),
    };
  }

  startController(name: string): void {
    const life = this.#born(name, 'controller');
    const stop = new AbortController();
    const parts = this.#parts(life);
    const ended = runControllers(
      { ...parts, identity: `${name}-${this.time.happened}`, caps: CAPS, metrics: NO_METRICS as ControllerMetrics },
      stop.signal,
    );
    this.#running.set(name, {
      life,
      calls: null,
      stop: async () => {
        stop.abort(new FlockError('Unavailable', 'the controller is stopping'));
        await ended;
      },
    });
    ended.then(
      () => life.end('it stopped'),
      (error: unknown) => life.end(messageOf(error)),
    );
  }

  startAgent(node: string): void {
    const machine = this.machine(node);
    const life = this.#born(node, 'agent');
    const parts = this.#parts(life);
    const { touched } = this.rules;
    const pools = new Map<string, Pool>();
    const broken = new Map<string, BrokenPool>();
    const reopen = async (): Promise<void> => {
      for (const [name, pool] of this.#poolsOf(machine, life)) {
        const { disk } = pool;
        if (pools.has(name)) continue;
        broken.delete(name);
        if (disk.gone === null) pools.set(name, life.mortal(pool.open(), touched));
        else broken.set(name, { type: pool.type, message: disk.gone });
      }
    };
    void reopen();
    const mounts = life.mortal(
      mountsOf(machine, life.chance, (copy) => this.rules.formats(copy)),
      touched,
    );
    const running: Running = { life, calls: null, stop: () => Promise.resolve() };
    const started = startAgent({
      ...parts,
      node,
      pools,
      broken,
      reopen,
      mounts,
      transfer: transferOf({ machine, life, wires: this.wires, scrubbed: (uid, same) => this.rules.scrubbed(uid, same) }),
      publications: () => publicationsIn(life.mortal(machine.store(), touched), mounts),
      listen: async (calls) => {
        running.calls = calls;
        return { close: async () => void (running.calls = null) };
      },
      reportMs: 10_000,
      facts: { agentVersion: '0', socket: `/${node}`, filesystems: ['ext4', 'xfs'], canMount: true },
      transfers: {
        identity: () => ({ cluster: 'simulation', node, key: '', certificate: '', authority: '' }),
        progressMs: 5_000,
        retry: { first: 1_000, longest: 30_000 },
      },
      serve: async ({ authorize }) => this.wires.listen(node, life, authorize),
      metrics: NO_METRICS as AgentMetrics,
    });
    this.#running.set(node, running);
    this.#supervise(running, started);
  }

  #poolsOf(machine: Machine, life: Life): [string, NodePoolParts][] {
    const { disk, folders } = machine;
    const { crash } = life;
    const local = (): Pool => new NodePool(machine, { name: 'local', disk, points: this.#points, crash });
    const all: [string, NodePoolParts][] = [['local', { type: 'image', disk, open: local }]];
    if (folders === null) return all;
    const beside = (): Pool => new FolderPool({ name: FOLDERS, machine, disk: folders, crash, pause: () => life.pause() });
    return [...all, [FOLDERS, { type: 'directory', disk: folders, open: beside }]];
  }

  #supervise(running: Running, started: Promise<Agent>): void {
    const { life } = running;
    running.stop = async () => {
      const agent = await started;
      await agent.stop();
      life.end('it stopped');
    };
    started.catch((error: unknown) => life.end(messageOf(error)));
  }

  /** A node asks for the bytes of a move that is not to it. */
  async intrude(intruder: string, move: Stored<Move>): Promise<void> {
    const life = this.#running.get(intruder)?.life;
    const source = move.status?.source?.node;
    if (!life || source === undefined || move.spec.target === intruder) return;
    if (await this.wires.intrude(intruder, life, { ...helloOf(move), source }))
      this.rules.break(
        'rule 9, whom a source serves',
        `${intruder} was served the bytes of ${move.metadata.name}, which is to ${move.spec.target}`,
      );
  }

  isRunning(name: string): boolean {
    return this.#running.has(name);
  }

  kill(name: string): void {
    this.#running.get(name)?.life.end('killed');
  }

  /** In order; it is started again afterwards. */
  stop(name: string): void {
    const running = this.#running.get(name);
    running?.stop().catch((error: unknown) => running.life.end(messageOf(error)));
  }

  setClock(name: string, skew: number): void {
    this.#skews.set(name, skew);
  }

  powerOff(node: string): void {
    this.#running.get(node)?.life.end('its machine lost its power');
    this.machine(node).powerOff(this.chance);
    this.rules.touched();
  }

  powerOn(node: string): void {
    const machine = this.machine(node);
    if (machine.powered) return;
    machine.powered = true;
    if (!this.#running.has(node)) this.startAgent(node);
  }

  /** Asks the agent of a node over its local socket. Throws Unavailable when it does not answer, and what it refuses. */
  async call(node: string, path: string, body: { [field: string]: unknown }): Promise<void> {
    const running = this.#running.get(node);
    const call = running?.calls?.[path];
    if (!running || !call) throw new FlockError('Unavailable', `the agent of ${node} does not listen`);
    await new Promise<void>((resolve, reject) => {
      running.life.whenOver(() => reject(new FlockError('Unavailable', `the agent of ${node} died`)));
      call({ node, ...body }, new AbortController().signal).then(() => resolve(), reject);
    });
  }
}

function helloOf({ metadata, status }: Stored<Move>): Hello {
  const { source, epoch = 0, volumeUid = '', incoming } = status ?? {};
  const purpose = incoming?.verified ? 'scrub' : 'round';
  return { protocol: 1, purpose, move: metadata.name, moveUid: metadata.uid, volumeUid, copy: source?.copy ?? '', epoch };
}

type Tell = (about: ApiObject, type: 'Normal' | 'Warning', reason: string, message: string) => void;

const silent = { inc: () => undefined, set: () => undefined };
/** Nobody looks at them here. */
const NO_METRICS: unknown = { events: silent, bytesServed: silent, queueDepth: silent, leading: silent, text: async () => '' };

const shown = (fields: object): string =>
  Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}=${typeof value === 'object' ? JSON.stringify(value) : String(value)}`)
    .join(' ');
