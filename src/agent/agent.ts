// One node's agent, put together: watches feed a queue of volumes, the queue's workers reconcile, transfers run beside it, and the local
// socket serves who is on this machine. Restartable at any moment: everything it knows is in the records and on the disks.
import { heartbeat } from '../api/election.ts';
import { informer, type Informer } from '../api/informer.ts';
import { workQueue, type WorkQueue } from '../api/queue.ts';
import { hasEnded } from '../decide/observed.ts';
import { sourceSnapshot } from '../decide/snapshots.ts';
import { FlockError, messageOf } from '../model/errors.ts';
import { Moves, type Move } from '../model/move.ts';
import { readPoint } from '../model/points.ts';
import type { Stored } from '../model/meta.ts';
import { Snapshots, type Snapshot } from '../model/snapshot.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import type { CopyName, PointName, Pool } from '../pools/pool.ts';
import type { SourceOptions, SourceServer } from '../transfer/transfer.ts';
import { CopyActs } from './acts.ts';
import { authorizeMeasuring, authorizer, measuredBy } from './authorize.ts';
import { Bench } from './bench.ts';
import { socketCalls } from './calls.ts';
import { Copies } from './copies.ts';
import { damages, inventory, type Inventory } from './inventory.ts';
import { turns } from '../host/turns.ts';
import type { AgentMetrics } from './metrics.ts';
import type { Alongside, LocalNode } from './local-node.ts';
import { NodeReport, type BrokenPool, type NodeFacts, type Orphans } from './node-report.ts';
import type { AgentPorts } from './ports.ts';
import type { Publications } from './publications.ts';
import { Publishing } from './publishing.ts';
import { VolumeReconciler } from './reconcile.ts';
import { needsSource, Serving } from './serving.ts';
import type { Call } from './socket.ts';
import { Transfers, type TransferSettings } from './transfers.ts';

export interface AgentOptions extends Omit<AgentPorts, 'known' | 'isLeaseFresh' | 'pools'> {
  pools: Map<string, Pool>;
  broken: Map<string, BrokenPool>;
  /** Opens pools that could not be opened before. */
  reopen: () => Promise<void>;
  random: () => number;
  /** What it remembers of its mounts. */
  publications: () => Promise<Publications>;
  /** Opens the local socket. */
  listen: (calls: { [path: string]: Call }, metrics: () => Promise<string>) => Promise<LocalSocket>;
  /** Between two reports of the node and looks at its pools, ms. */
  reportMs: number;
  facts: NodeFacts;
  transfers: TransferSettings;
  /** Opens the data listener. */
  serve: (options: Pick<SourceOptions, 'authorize' | 'authorizeMeasuring'>) => Promise<SourceServer>;
  metrics: AgentMetrics;
  /** What else is served on this machine. */
  alongside?: Alongside;
}

/** For how long a mount or unmount waits until its record says so, ms. */
const RECORDED = 5_000;

export interface LocalSocket {
  close(): Promise<void>;
}

export interface Agent {
  /** Ends in order: nothing new, transfers stopped, the record says that the agent stopped. */
  stop(): Promise<void>;
}

export async function startAgent(options: AgentOptions): Promise<Agent> {
  const agent = new NodeAgent(options);
  try {
    await agent.start();
    return agent;
  } catch (error) {
    // A node whose agent does not serve must not look alive.
    await agent.stop();
    throw error;
  }
}

class NodeAgent implements Agent {
  readonly #options: AgentOptions;
  readonly #stop = new AbortController();
  readonly #volumes: Informer<Volume>;
  readonly #moves: Informer<Move>;
  readonly #nodes: Informer<StorageNode>;
  readonly #snapshots: Informer<Snapshot>;
  readonly #queue: WorkQueue;
  readonly #inventory: Inventory;
  readonly #ports: AgentPorts;
  readonly #report: NodeReport;
  readonly #running: Promise<unknown>[] = [];
  /** Copies that are here and their volumes, by name, as last looked at. */
  #local = new Map<CopyName, string>();
  /** What was wrong with the pools and single copies then. */
  #problems = '';
  /** The watch of volumes has told of all: before that, a volume that it does not show may be there. */
  #isSynced = false;
  #copies: Copies | null = null;
  #reporting: Promise<void> = Promise.resolve();
  #nextReport: Promise<void> | null = null;
  #reconciler: VolumeReconciler | null = null;
  #transfers: Transfers | null = null;
  #publishing: Publishing | null = null;
  #serving: Serving | null = null;
  #socket: LocalSocket | null = null;
  #alongside: { close(): Promise<void> } | null = null;

  constructor(options: AgentOptions) {
    this.#options = options;
    const { client, node, clock, random, log } = options;
    const watching = { clock, random, log };
    this.#volumes = informer(client, Volumes, watching);
    this.#moves = informer(client, Moves, watching);
    this.#nodes = informer(client, StorageNodes, watching);
    this.#snapshots = informer(client, Snapshots, watching);
    const beat = heartbeat({ client, node, ...watching });
    this.#running.push(beat.start(this.#stop.signal));
    this.#inventory = inventory(options.pools, options.broken);
    this.#ports = {
      ...options,
      isLeaseFresh: () => beat.isFresh(),
      known: {
        movesOf: (volume) => this.#moves.list().filter((move) => move.spec.volume === volume),
        snapshotsOf: (volume) => this.#snapshots.list().filter((snapshot) => snapshot.spec.volume === volume),
        node: (name) => this.#nodes.get(name),
        volume: (name) => this.#volumes.get(name),
      },
    };
    this.#queue = workQueue({
      work: (volume) => this.#work(volume),
      workers: 4,
      ...watching,
      onDepth: (depth) => options.metrics.queueDepth.set(depth),
    });
    this.#report = new NodeReport({
      node,
      client,
      clock,
      facts: options.facts,
      pools: options.pools,
      broken: options.broken,
      inventory: this.#inventory,
      useMs: 3 * options.reportMs,
      transfer: () => this.#serving?.address ?? null,
      orphans: () => this.#orphans(),
    });
  }

  async start(): Promise<void> {
    const { mounts, transfers, client, node, serve, metrics, listen, clock } = this.#options;
    const publications = await this.#options.publications();
    const lock = turns();
    const copies = new Copies(this.#ports, this.#inventory, publications);
    const shared = { copies, inventory: this.#inventory, publications, lock };
    const publishing = new Publishing(this.#ports, shared);
    const running = new Transfers(this.#ports, transfers, (volume) => this.#queue.add(volume));
    const acts = new CopyActs(this.#ports, { ...shared, transfers: running, publishing, roomChanged: () => this.#reportSoon() });
    this.#copies = copies;
    this.#transfers = running;
    this.#publishing = publishing;
    this.#reconciler = new VolumeReconciler(this.#ports, { ...shared, acts });
    this.#serving = new Serving(
      () =>
        serve({
          authorize: authorizer({ client, node, mounts }, { copies, lock }),
          authorizeMeasuring: (peer) => authorizeMeasuring({ client, node, clock }, peer),
        }),
      () => void this.#reportNow(),
    );
    await this.#reportNow();
    const offered = this.#offered(publishing);
    this.#socket = await listen(socketCalls(offered, running, this.#bench()), () => metrics.text());
    await this.#watch();
    this.#running.push(this.#reportForEver());
    this.#alongside = (await this.#options.alongside?.(offered)) ?? null;
  }

  /** Only the owner reacts: a change that does not concern this node wakes nobody here. */
  async #watch(): Promise<void> {
    const { node } = this.#options;
    const { signal } = this.#stop;
    const watches = [this.#volumes, this.#moves, this.#nodes, this.#snapshots];
    this.#running.push(...watches.map((each) => each.start(signal)));
    await Promise.all(watches.map((each) => each.synced));
    this.#isSynced = true;
    this.#volumes.onChange((name, volume, previous) => {
      if (this.#isLocal(name) || concerns(volume, node) || concerns(previous, node)) this.#queue.add(name);
    });
    this.#moves.onChange((_name, move, previous) => {
      const either = move ?? previous;
      if (either) this.#moveChanged(either, move === null);
    });
    this.#nodes.onChange((name) => name === node && this.#serve(undefined));
    this.#snapshots.onChange((_name, snapshot, previous) => this.#snapshotChanged(snapshot ?? previous));
    await this.#look();
  }

  /** A volume that begins with it waits for it too. */
  #snapshotChanged(snapshot: Stored<Snapshot> | null): void {
    if (snapshot?.status?.node !== this.#options.node) return;
    this.#queue.add(snapshot.spec.volume);
    for (const volume of this.#volumes.list()) if (sourceSnapshot(volume) === snapshot.metadata.name) this.#queue.add(volume.metadata.name);
  }

  #moveChanged(move: Move, gone: boolean): void {
    const { node } = this.#options;
    const isSource = move.status?.source?.node === node;
    if (!isSource && move.spec.target !== node) return;
    if (isSource) this.#serve(gone || hasEnded(move) ? move.metadata.uid : undefined);
    this.#queue.add(move.spec.volume);
  }

  /** The listener is open while any move needs it, or somebody measures; a move that ended is served no more. */
  #serve(ended: string | undefined): void {
    const { node, log, clock } = this.#options;
    if (ended !== undefined) this.#serving?.drop(ended);
    const measured = measuredBy(this.#nodes.get(node), clock.now()) !== null;
    const needed = measured || this.#moves.list().some((each) => needsSource(each, node));
    this.#serving
      ?.want(needed)
      .catch((error: unknown) => log.error({ error: messageOf(error) }, 'the data listener cannot be opened or closed'));
  }

  async #work(volume: string): Promise<void> {
    await this.#reconciler?.reconcile(volume);
  }

  // ---- now and then --------------------------------------------------------------------------------------------------------------

  async #reportForEver(): Promise<void> {
    const { clock, reportMs } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      await clock.sleep(reportMs, signal).catch(() => undefined);
      if (signal.aborted) return;
      await this.#options.reopen();
      for (const pool of this.#options.pools.keys()) this.#inventory.touched(pool);
      await this.#lookAtMounts();
      await this.#look();
      // Who measures may have gone without a word.
      this.#serve(undefined);
      await this.#reportNow();
    }
  }

  /**
   * Volumes whose copies came or went are looked at; and all of this node when a pool or a copy broke or came back, for they say
   * why. What is blocked here is looked at every time: its cause may have gone between two looks, and then nothing else tells of it. So
   * is what has a point of a move that is over: it was being frozen for a target that had gone already.
   */
  async #look(): Promise<void> {
    const copies = await this.#inventory.copies();
    const found = new Map(copies.map(({ name, label }) => [name, label.volume]));
    const problems = JSON.stringify([...(await this.#inventory.problems()), ...(await damages(this.#inventory))]);
    const changed = [...found, ...this.#local].filter(([name]) => found.has(name) !== this.#local.has(name)).map(([, volume]) => volume);
    const here = this.#volumes.list().filter((volume) => concerns(volume, this.#options.node));
    const concerned = here.filter((volume) => problems !== this.#problems || isBlocked(volume, this.#options.node));
    this.#local = found;
    this.#problems = problems;
    const late = copies.filter(({ points }) => points.some((point) => this.#isOver(point))).map(({ label }) => label.volume);
    for (const name of [...changed, ...late, ...concerned.map(({ metadata }) => metadata.name)]) this.#queue.add(name);
  }

  #isOver(point: PointName): boolean {
    const read = readPoint(point);
    return read !== null && !this.#moves.list().some((move) => read.isOf(move.metadata.uid) && !hasEnded(move));
  }

  /** Whoever unmounted without a word gets his volume free all the same. */
  async #lookAtMounts(): Promise<void> {
    const { log } = this.#options;
    const ended = await this.#publishing?.endUnmounted().catch((error: unknown) => {
      log.warn({ error: messageOf(error) }, 'whether what was mounted still is could not be seen; it is tried again');
    });
    for (const { volume, targets } of ended ?? []) this.#unmounted(volume, targets);
  }

  #unmounted(name: string, targets: readonly string[]): void {
    const { log, tell, node } = this.#options;
    const at = targets.join(', ');
    log.info({ volume: name, targets }, 'unmounted by others than this agent');
    const volume = this.#volumes.get(name);
    if (volume)
      tell(
        volume,
        'Normal',
        'UnmountedByOthers',
        `volume ${name} is not mounted at ${at} on node ${node} any more, and nothing has its device open: it is taken for unmounted. Unmount it by flockctl volume unmount ${name}, and that is known at once`,
      );
    this.#queue.add(name);
  }

  #isLocal(volume: string): boolean {
    return [...this.#local.values()].includes(volume);
  }

  /** Of many that ask while a report is under way, the next one answers all: it tells of what all of them did. */
  #reportSoon(): Promise<void> {
    this.#nextReport ??= this.#reporting.then(() => {
      this.#nextReport = null;
      this.#report.tellUse();
      return this.#reportNow();
    });
    return this.#nextReport;
  }

  /** One after the other: of two at once the older could be the last. */
  #reportNow(): Promise<void> {
    this.#reporting = this.#reporting.then(() => this.#reportOnce());
    return this.#reporting;
  }

  async #reportOnce(): Promise<void> {
    const { log } = this.#options;
    try {
      await this.#report.write(!this.#stop.signal.aborted);
    } catch (error) {
      log.warn({ error: messageOf(error) }, 'the node could not be reported; it is tried again');
    }
  }

  async #orphans(): Promise<ReadonlyMap<string, Orphans> | null> {
    if (!this.#isSynced) return null;
    const byPool = new Map<string, Orphans>();
    for (const { name, label, pool } of await this.#inventory.copies()) {
      if (this.#volumes.get(label.volume)?.metadata.uid === label.volumeUid) continue;
      byPool.set(pool.name, { ...byPool.get(pool.name), [name]: label.volume });
    }
    return byPool;
  }

  #bench(): Bench {
    const { pools, clock, transfers } = this.#options;
    return new Bench({ pools, clock, transfers, known: this.#ports.known });
  }

  // ---- on this machine -----------------------------------------------------------------------------------------------------------

  #offered(publishing: Publishing): LocalNode {
    const { node, pools, broken } = this.#options;
    return {
      node,
      pools: () => [...new Set([...pools.keys(), ...broken.keys()])].toSorted(),
      volume: (name) => this.#volumes.get(name),
      publish: async (order) => {
        const done = await publishing.publish(order);
        await this.#recorded(order.volume);
        return done;
      },
      unpublish: async (order) => {
        try {
          await publishing.unpublish(order);
        } finally {
          // Also of several mounts some may have ended before one did not.
          await this.#recorded(order.volume);
        }
      },
      published: (volume) => publishing.published(volume),
      fill: (volume) => publishing.fill(volume),
    };
  }

  /**
   * The record says how it is in use before who asked for that goes on, to a move for instance. What is done is done: with a server that is
   * away, or work on the volume that takes long, the record follows later.
   */
  async #recorded(volume: string): Promise<void> {
    const waited = new AbortController();
    const looked = this.#work(volume).catch(() => this.#queue.add(volume));
    await Promise.race([looked, this.#options.clock.sleep(RECORDED, waited.signal).catch(() => undefined)]);
    waited.abort();
  }

  async stop(): Promise<void> {
    this.#stop.abort(new FlockError('Unavailable', 'the agent is stopping'));
    await this.#alongside?.close();
    await this.#socket?.close();
    // The queue first: what ends asks for another look, which would start the next transfer.
    await this.#queue.stop();
    await this.#transfers?.stopAll();
    await this.#serving?.want(false);
    await Promise.all(this.#running);
    await this.#copies?.letGoAll();
    await this.#reportNow();
  }
}

const concerns = (volume: Volume | null, node: string): boolean =>
  volume !== null && (volume.spec.node === node || Object.values(volume.status?.copies ?? {}).some((copy) => copy.node === node));

const isBlocked = (volume: Volume, node: string): boolean =>
  Object.values(volume.status?.copies ?? {}).some((copy) => copy.node === node && copy.obstacle !== undefined);
