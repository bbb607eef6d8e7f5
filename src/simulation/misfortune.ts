// What goes wrong, and rights itself after a while: processes, power, network, server, disks, clocks. Everything can be ended at once, when
// a history comes to its rest.
import type { Application } from './applications.ts';
import type { Chance } from './chance.ts';
import type { Stored } from '../model/meta.ts';
import type { Volume } from '../model/volume.ts';
import type { MemoryDisk } from '../pools/memory.ts';
import type { Backup } from './server.ts';
import { CAPACITY, type Machine } from './machine.ts';
import { SKEW } from './rules.ts';
import type { World } from './world.ts';

const MEAN_LASTING = 20_000;
const CUT_OVER = new Set(['ReadyToCutOver', 'Fencing', 'FinalDelta']);

export class Misfortune {
  readonly #world: World;
  readonly #chance: Chance;
  readonly #applications: () => readonly Application[];
  /** How to end what lasts. */
  readonly #lasting = new Set<() => void>();
  #backup: (Backup & { volumes: readonly Stored<Volume>[] }) | null = null;

  constructor(world: World, applications: () => readonly Application[]) {
    this.#world = world;
    this.#applications = applications;
    this.#chance = world.chance.fork();
  }

  /** Begins, and ends by itself after a while. */
  #last(what: string, end: () => void, mean = MEAN_LASTING): void {
    this.#world.note('misfortune', what);
    const once = (): void => {
      if (!this.#lasting.delete(once)) return;
      this.#world.note('misfortune', `over: ${what}`);
      end();
    };
    this.#lasting.add(once);
    this.#world.time.after(this.#chance.around(mean), once);
  }

  endAll(): void {
    for (const end of Array.from(this.#lasting)) end();
  }

  #node(): string {
    return this.#chance.pick([...this.#world.machines.keys()]) ?? '';
  }

  #process(): string {
    return this.#chance.pick([...this.#world.machines.keys(), ...this.#world.controllers]) ?? '';
  }

  kill(): void {
    this.#world.kill(this.#process());
  }

  /** Somebody restarts it in order. */
  restart(): void {
    this.#world.stop(this.#process());
  }

  powerCut(): void {
    const node = this.#node();
    if (!this.#world.machine(node).powered) return;
    this.#world.powerOff(node);
    this.#last(`${node} has no power`, () => this.#world.powerOn(node), 30_000);
  }

  /** In one direction or in both. */
  cut(): void {
    const [from, to] = [this.#process(), this.#chance.happens(0.5) ? 'server' : this.#node()];
    if (from === to) return;
    const { cut } = this.#world.weather;
    const both = this.#chance.happens(0.6);
    const ways = both ? [`${from}>${to}`, `${to}>${from}`] : [this.#chance.happens(0.5) ? `${from}>${to}` : `${to}>${from}`];
    for (const way of ways) cut.add(way);
    this.#last(`cut ${ways.join(' and ')}`, () => ways.forEach((way) => cut.delete(way)), 25_000);
  }

  /** The wire of a move breaks in its cut-over, for so long that the source is given back. */
  siege(): void {
    const move = this.#chance.pick(this.#world.moves().filter(({ status }) => CUT_OVER.has(status?.phase ?? '')));
    const way = `${move?.spec.target}>${move?.status?.source?.node}`;
    if (!move || this.#world.weather.cut.has(way)) return;
    this.#world.weather.cut.add(way);
    this.#last(`cut ${way} in the cut-over of ${move.metadata.name}`, () => this.#world.weather.cut.delete(way), 40_000);
  }

  storm(): void {
    const { weather } = this.#world;
    weather.loss = this.#chance.between(0.02, 0.15);
    weather.repeats = this.#chance.between(0, 0.1);
    weather.slow = this.#chance.between(0.02, 0.3);
    weather.delay = this.#chance.between(200, 4_000);
    weather.oldLists = this.#chance.between(0, 0.8);
    this.#last(`messages are lost (${weather.loss.toFixed(2)}), late and repeated`, () =>
      Object.assign(weather, { loss: 0, repeats: 0, slow: 0, delay: 0, oldLists: 0 }),
    );
  }

  serverStops(): void {
    const { server } = this.#world;
    if (!server.up) return;
    server.stop();
    // Now and then for minutes: Leases run out, and watches are too old afterwards.
    this.#last('the server is down', () => server.start(), this.#chance.happens(0.1) ? 180_000 : 10_000);
  }

  watchesDrop(): void {
    this.#world.server.dropWatches('the connection was reset');
  }

  /** Of the node that a new volume would go to: nobody has heard of it yet. */
  fullFirst(): void {
    const left = ({ disk, capacity }: Machine): bigint => [...disk.copies.values()].reduce((sum, { size }) => sum - size, capacity);
    const [first] = [...this.#world.machines.values()].toSorted((one, other) => Number(left(other) - left(one)));
    if (first) this.fullPool(first.disk);
  }

  #disk(): MemoryDisk {
    const { disk, disks } = this.#world.machine(this.#node());
    return this.#chance.pick(disks) ?? disk;
  }

  fullPool(disk = this.#disk()): void {
    disk.capacity = [...disk.copies.values()].reduce((sum, { size }) => sum + size, 0n) + (4n << 20n);
    this.#last(`${disk.uuid} is full`, () => void (disk.capacity = CAPACITY));
  }

  poolGone(): void {
    const disk = this.#disk();
    disk.gone = 'it is not mounted';
    this.#last(`${disk.uuid} is not mounted`, () => void (disk.gone = null));
  }

  blindness(): void {
    const machine = this.#world.machine(this.#node());
    machine.blindness = 0.5;
    this.#last(`${machine.name} looks at devices and finds nothing`, () => void (machine.blindness = 0));
  }

  /** Somebody unmounts a volume under its application, which has files open and goes on with them for a while. */
  pullAway(): void {
    const application = this.#chance.pick(this.#applications());
    if (application?.pulledAway())
      this.#last(`files of ${application.volume} stay open without a mount`, () => application.closes(), 9_000);
  }

  /** A node that was taken over, or is confused, asks for what is not its own. */
  intruder(): void {
    const move = this.#chance.pick(this.#world.moves().filter(({ status }) => status?.source !== undefined));
    if (move) void this.#world.intrude(this.#node(), move);
  }

  /** Seen by the next life of the process. */
  clocks(): void {
    this.#world.setClock(this.#process(), this.#chance.between(-SKEW / 2, SKEW / 2));
  }

  /** An exchanged disk: what was on it is lost, and nobody claims otherwise. */
  diskLost(): void {
    const node = this.#node();
    const machine = this.#world.machine(node);
    const disk = this.#chance.pick(machine.disks) ?? machine.disk;
    if (machine.powered) this.#world.powerOff(node);
    this.#last(`${node} lost its disk, the ${disk.uuid}`, () => this.#world.powerOn(node), 15_000);
    this.#world.rules.diskLost(node, disk);
    for (const name of disk.copies.keys()) machine.journals.delete(name);
    disk.copies.clear();
    this.#world.rules.touched();
  }

  // ---- records from before -------------------------------------------------------------------------------------------------------

  backup(): void {
    if (!this.#world.server.up) return;
    this.#backup = { ...this.#world.server.backup(), volumes: this.#world.volumes() };
    this.#world.note('people', 'take a backup of the records');
  }

  /** When a backup says of a copy that is served still that its epoch was a lower one. */
  restoreBehind(): void {
    const { volumes } = this.#backup ?? { volumes: [] };
    const now = this.#world.volumes();
    const isBehind = volumes.some(({ metadata, spec }) =>
      now.some(
        (volume) => volume.metadata.uid === metadata.uid && volume.spec.copy === spec.copy && (volume.spec.epoch ?? 0) > (spec.epoch ?? 0),
      ),
    );
    if (isBehind) this.restore();
  }

  /** The server is stopped, given the backup, and started. */
  restore(): void {
    const { server } = this.#world;
    if (!server.up || !this.#backup) return;
    const backup = this.#backup;
    this.#backup = null;
    server.stop();
    server.restore(backup);
    server.start();
    this.#world.note('people', 'restored the records from the backup');
    this.#world.rules.rolledBack(this.#world.volumes());
  }
}
