// The controller, put together: watches feed queues, and while this replica leads, workers take from them. Restartable at any moment:
// everything it knows is in the records.
import type { Client } from '../api/client.ts';
import { CONTROLLER_LEASE, leadWhenElected, nodeLease, nodeOfLease } from '../api/election.ts';
import { informer, type Informer } from '../api/informer.ts';
import type { Log } from '../api/log.ts';
import { workQueue, type WorkQueue } from '../api/queue.ts';
import { hasEnded, isCopying, isDeleting, isUnfinished, phaseOf } from '../decide/observed.ts';
import { sourceSnapshot } from '../decide/snapshots.ts';
import type { Caps } from '../decide/moves.ts';
import type { Clock } from '../model/clock.ts';
import type { CrashPoint } from '../model/crash.ts';
import { SYSTEM_NAMESPACE } from '../model/meta.ts';
import { Moves, type Move } from '../model/move.ts';
import { Snapshots, type Snapshot } from '../model/snapshot.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import { Leases, type Lease } from '../model/system.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import type { ControllerMetrics } from './metrics.ts';
import { DrainController } from './drain.ts';
import { MoveController } from './moves.ts';
import { NodeController } from './nodes.ts';
import type { Again, ControllerPorts } from './ports.ts';
import { SnapshotController } from './snapshots.ts';
import { VolumeController } from './volumes.ts';

export interface ControllerOptions {
  client: Client;
  /** Unique among the replicas. */
  identity: string;
  caps: Caps;
  clock: Clock;
  random: () => number;
  crash: CrashPoint;
  log: Log;
  tell: ControllerPorts['tell'];
  metrics: ControllerMetrics;
}

/** Runs until the signal aborts: watches always, works while it leads. */
export async function runControllers(options: ControllerOptions, signal: AbortSignal): Promise<void> {
  const controllers = new Controllers(options);
  await controllers.run(signal);
}

type Queues = { [of in 'volumes' | 'moves' | 'nodes' | 'snapshots' | 'drains']: WorkQueue };

class Controllers {
  readonly #options: ControllerOptions;
  readonly #volumes: Informer<Volume>;
  readonly #moves: Informer<Move>;
  readonly #nodes: Informer<StorageNode>;
  readonly #snapshots: Informer<Snapshot>;
  readonly #leases: Informer<Lease>;
  /** Only while leading. */
  #queues: Queues | null = null;

  constructor(options: ControllerOptions) {
    this.#options = options;
    const { client, clock, random, log } = options;
    const watching = { clock, random, log };
    this.#volumes = informer(client, Volumes, watching);
    this.#moves = informer(client, Moves, watching);
    this.#nodes = informer(client, StorageNodes, watching);
    this.#snapshots = informer(client, Snapshots, watching);
    this.#leases = informer(client, Leases, { ...watching, namespace: SYSTEM_NAMESPACE });
  }

  async run(signal: AbortSignal): Promise<void> {
    const { client, identity, clock, random, log } = this.#options;
    const informers = [this.#volumes, this.#moves, this.#nodes, this.#snapshots, this.#leases];
    const watches = informers.map((each) => each.start(signal));
    await Promise.all(informers.map((each) => each.synced));
    this.#route();
    await leadWhenElected({ client, lease: CONTROLLER_LEASE, identity, clock, random, log }, signal, (leading) => this.#lead(leading));
    await Promise.all(watches);
  }

  async #lead(signal: AbortSignal): Promise<void> {
    const { log, metrics, identity } = this.#options;
    log.info({ identity }, 'leading');
    metrics.leading.set(1);
    const queues = this.#open();
    this.#queues = queues;
    this.#addAll();
    await new Promise<void>((resolve) => (signal.aborted ? resolve() : signal.addEventListener('abort', () => resolve(), { once: true })));
    this.#queues = null;
    await Promise.all(Object.values(queues).map((each) => each.stop()));
    metrics.leading.set(0);
    log.info({ identity }, 'not leading any more');
  }

  #open(): Queues {
    const { clock, random, log, metrics } = this.#options;
    const known = { moves: () => this.#moves.list(), nodes: () => this.#nodes.list(), volumes: () => this.#volumes.list() };
    const ports: ControllerPorts = { ...this.#options, known };
    const volumes = new VolumeController(ports);
    const moves = new MoveController(ports);
    const snapshots = new SnapshotController(ports);
    const drains = new DrainController(ports);
    const nodes = new NodeController(ports, { lease: (node) => this.#leases.get(nodeLease(node), SYSTEM_NAMESPACE) });
    const queue = (name: string, workers: number, work: (key: string) => Promise<Again>): WorkQueue =>
      workQueue({ work, workers, clock, random, log, onDepth: (depth) => metrics.queueDepth.set({ queue: name }, depth) });
    return {
      volumes: queue('volumes', 4, (key) => volumes.reconcile(key)),
      // One worker: the caps are counted and taken in one step.
      moves: queue('moves', 1, (key) => moves.reconcile(key)),
      nodes: queue('nodes', 1, (key) => nodes.reconcile(key)),
      snapshots: queue('snapshots', 2, (key) => snapshots.reconcile(key)),
      // One worker: each move finds the room that the last one left.
      drains: queue('drains', 1, (key) => drains.reconcile(key)),
    };
  }

  // ---- which change concerns what ------------------------------------------------------------------------------------------------

  #route(): void {
    this.#volumes.onChange((name) => {
      this.#queues?.volumes.add(name);
      this.#addMovesOf(name);
      this.#addSnapshotsOf(name);
      this.#addDrains();
    });
    this.#snapshots.onChange((name) => this.#snapshotChanged(name));
    this.#moves.onChange((name, move, previous) => {
      this.#queues?.moves.add(name);
      const volume = (move ?? previous)?.spec.volume ?? '';
      this.#queues?.volumes.add(volume);
      // A retained source ends when a later move uses it.
      this.#addMovesOf(volume);
      if (copies(previous) && !copies(move)) this.#addWaiting();
      this.#addDrains();
    });
    this.#nodes.onChange((name) => {
      this.#queues?.nodes.add(name);
      this.#addWaiting();
      this.#addAllOf(name);
      this.#addDrains();
    });
    this.#leases.onChange((key) => {
      const node = nodeOfLease(key.slice(key.indexOf('/') + 1));
      if (node !== null) this.#queues?.nodes.add(node);
    });
  }

  /** Of the volume, and the one that it begins with. */
  #addSnapshotsOf(volume: string): void {
    const record = this.#volumes.get(volume);
    const source = record === null ? null : sourceSnapshot(record);
    if (source !== null) this.#queues?.snapshots.add(source);
    for (const { metadata, spec } of this.#snapshots.list()) if (spec.volume === volume) this.#queues?.snapshots.add(metadata.name);
  }

  #snapshotChanged(name: string): void {
    this.#queues?.snapshots.add(name);
    for (const volume of this.#volumes.list()) if (sourceSnapshot(volume) === name) this.#queues?.volumes.add(volume.metadata.name);
  }

  /** Whatever changed may give room, or be the last volume. */
  #addDrains(): void {
    for (const { metadata, spec, status } of this.#nodes.list()) if (spec?.drain || status?.drain) this.#queues?.drains.add(metadata.name);
  }

  #addMovesOf(volume: string): void {
    for (const move of this.#moves.list()) if (move.spec.volume === volume && !hasEnded(move)) this.#queues?.moves.add(move.metadata.name);
  }

  /** What may wait for a node, or for another move to end. */
  #addWaiting(): void {
    for (const move of this.#moves.list().filter(mayWait)) this.#queues?.moves.add(move.metadata.name);
    for (const volume of this.#volumes.list().filter(isUnsettled)) this.#queues?.volumes.add(volume.metadata.name);
  }

  /** What says so when its node falls silent or comes back. */
  #addAllOf(node: string): void {
    for (const move of this.#moves.list().filter((each) => isUnfinished(each) && isBetween(each, node)))
      this.#queues?.moves.add(move.metadata.name);
    for (const volume of this.#volumes.list().filter((each) => each.spec.node === node)) this.#queues?.volumes.add(volume.metadata.name);
    for (const { metadata } of this.#snapshots.list().filter(({ status }) => status?.obstacle)) this.#queues?.snapshots.add(metadata.name);
  }

  #addAll(): void {
    for (const { metadata } of this.#volumes.list()) this.#queues?.volumes.add(metadata.name);
    for (const { metadata } of this.#moves.list()) this.#queues?.moves.add(metadata.name);
    for (const { metadata } of this.#nodes.list()) this.#queues?.nodes.add(metadata.name);
    for (const { metadata } of this.#snapshots.list()) this.#queues?.snapshots.add(metadata.name);
    this.#addDrains();
  }
}

const copies = (move: Move | null): boolean => move !== null && isCopying(move);
const mayWait = (move: Move): boolean => isUnfinished(move) && (phaseOf(move) === 'Pending' || move.status?.obstacle !== undefined);
const isBetween = (move: Move, node: string): boolean => move.status?.source?.node === node || move.spec.target === node;
const isUnsettled = (volume: Volume): boolean => !volume.spec.copy || volume.status?.obstacle !== undefined || isDeleting(volume);
