// The whole engine in one process, with real disks and real TLS sockets: a controller and agents over records in memory. Only *.test.ts
// import it.
import assert from 'node:assert/strict';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { runAgent, type RunAgentOptions } from '../agent/main.ts';
import { openAuthority, requestCertificate, type Authority } from '../api/certificates.ts';
import type { Client } from '../api/client.ts';
import { LocalClient } from '../api/local-client.ts';
import { Registry } from '../api/registry.ts';
import { MemoryTable } from '../api/table.ts';
import { runController } from '../controller/main.ts';
import type { Caps } from '../decide/moves.ts';
import { isUnfinished } from '../decide/observed.ts';
import { tryLockFile } from '../host/files.ts';
import { loopDevices } from '../host/loop.ts';
import { mounts } from '../host/mounts.ts';
import { systemClock } from '../model/clock.ts';
import { FlockError, isReason } from '../model/errors.ts';
import type { Kind } from '../model/kind.ts';
import { GROUP_VERSION, type ApiObject, type Stored } from '../model/meta.ts';
import { Moves, type Move, type MoveSpec } from '../model/move.ts';
import { StorageNodes, type PoolStatus, type StorageNode } from '../model/storage-node.ts';
import { Events, type Event } from '../model/system.ts';
import { Volumes, type Volume, type VolumeSpec } from '../model/volume.ts';
import type { NodeIdentity } from '../api/certificates.ts';
import { localAgent, type LocalAgent } from '../cli/agent-socket.ts';
import { temporaryFilesystem, temporaryFolder, type FilesystemOrder, type Test } from './folders.ts';
import { keptLog, type KeptLog } from './kept-log.ts';
import { memorySettings } from './memory-settings.ts';
import { afterwards } from './afterwards.ts';

export interface Engine {
  client: Client;
  log: KeptLog;
  folder: string;
  /** Steps of the controller's work on moves and volumes (decide/) that are not taken: a move stands still before them. */
  held: Set<string>;
  /** Nothing is held any more, and every move is looked at again. */
  letGo(): Promise<void>;
  /** Where a node's pool lies. */
  pool(node: string): string;
  /** The pool's disk, as mounted. */
  disk(node: string): string;
  agent(node: string): Promise<LocalAgent>;
  /** Resolves when it runs; rejects with the reason of its end if it ends before. `change` is of this start alone. */
  startAgent(node: string, change?: Partial<RunAgentOptions>): Promise<void>;
  stopAgent(node: string): Promise<void>;
  startController(): void;
  stopController(): Promise<void>;
  /** A certificate of this cluster, of the node's record as it is now. */
  identity(node: string): Promise<NodeIdentity>;
  /** Made, and Available. */
  volume(name: string, spec: VolumeSpec): Promise<Stored<Volume>>;
  createVolume(name: string, spec: VolumeSpec): Promise<Stored<Volume>>;
  createMove(name: string, spec: MoveSpec): Promise<Stored<Move>>;
  /** Path at which it is published from now on, on the node that has it. */
  mount(volume: string, at?: string): Promise<string>;
  unmount(volume: string): Promise<void>;
  /** Resolves with the object once it is so; rejects after half a minute, saying how it was. */
  until<T extends ApiObject>(kind: Kind<T>, name: string, isSo: (object: Stored<T>) => boolean): Promise<Stored<T>>;
  untilPhase(move: string, phase: NonNullable<NonNullable<Move['status']>['phase']>): Promise<Stored<Move>>;
  untilBlocked(move: string, reason: string): Promise<Stored<Move>>;
  untilGone<T extends ApiObject>(kind: Kind<T>, name: string): Promise<void>;
  /** What a node reports of its pools, once it reports any. */
  pools(node: string): Promise<{ [pool: string]: PoolStatus }>;
  /** Events are written a moment after what they tell of. */
  untilTold(about: string, isSo: (event: Event) => boolean): Promise<void>;
  /** Unmounts and deletes every volume; then no image, lock, journal, loop device or mount is left but the pools' own and `foreign` files. */
  endsClean(foreign?: readonly string[]): Promise<void>;
}

export interface EngineOptions {
  nodes: readonly string[];
  filesystem?: FilesystemOrder;
  caps?: Partial<Caps>;
  /** A pool's configuration besides name, type and path. */
  pool?: object;
  /** What is different about a node's agent, at every start. */
  agent?: (node: string, client: Client) => Partial<RunAgentOptions>;
}

interface RunningAgent {
  stop: AbortController;
  done: Promise<void>;
}

const PATIENCE = 30_000;

export async function startEngine(t: Test, options: EngineOptions): Promise<Engine> {
  const engine = new TestEngine(options, await temporaryFolder(t));
  // Last in, first out: agents stop before their disks go.
  await Promise.all(options.nodes.map(async (node) => engine.disks.set(node, await diskOf(t, options))));
  afterwards(t, () => engine.stop());
  await engine.start();
  return engine;
}

async function diskOf(t: Test, { filesystem }: EngineOptions): Promise<string> {
  if (!filesystem) return temporaryFolder(t);
  return (await temporaryFilesystem(t, filesystem)).path;
}

class TestEngine implements Engine {
  readonly client: Client;
  readonly log = keptLog();
  readonly held = new Set<string>();
  readonly folder: string;
  readonly disks = new Map<string, string>();
  readonly #options: EngineOptions;
  readonly #agents = new Map<string, RunningAgent>();
  #controller = new AbortController();
  #controlling: Promise<void> = Promise.resolve();
  #authority: Authority | null = null;

  constructor(options: EngineOptions, folder: string) {
    this.#options = options;
    this.folder = folder;
    this.client = new LocalClient({
      registry: new Registry({ table: new MemoryTable(), clock: systemClock, uid: () => crypto.randomUUID() }),
      clock: systemClock,
    });
  }

  async start(): Promise<void> {
    this.#authority = await openAuthority(memorySettings(), systemClock);
    this.startController();
    await Promise.all(this.#options.nodes.map((node) => this.startAgent(node)));
  }

  async stop(): Promise<void> {
    for (const node of this.#options.nodes) await this.stopAgent(node);
    await this.stopController();
  }

  startController(): void {
    const { caps } = this.#options;
    this.#controller = new AbortController();
    const crash = (point: string): void => {
      const step = point.startsWith('before:') ? point.slice('before:'.length) : '';
      if (this.held.has(step)) throw new FlockError('Unavailable', `the test holds ${step} back`);
    };
    this.#controlling = runController({ client: this.client, log: this.log, crash, ...(caps ? { caps } : {}) }, this.#controller.signal);
  }

  async stopController(): Promise<void> {
    this.#controller.abort();
    await this.#controlling;
  }

  async letGo(): Promise<void> {
    this.held.clear();
    const annotations = { 'flock.dev/test': String(performance.now()) };
    for (const { metadata } of (await this.client.list(Moves)).items)
      await this.client.patch(Moves, metadata.name, { metadata: { annotations } });
  }

  disk(node: string): string {
    return this.disks.get(node) ?? '';
  }

  pool(node: string): string {
    return join(this.disk(node), 'pool');
  }

  #socket(node: string): string {
    return join(this.folder, node, 'agent.sock');
  }

  agent(node: string): Promise<LocalAgent> {
    return localAgent(node, this.#socket(node));
  }

  async startAgent(node: string, change: Partial<RunAgentOptions> = {}): Promise<void> {
    const stop = new AbortController();
    const identity = await this.identity(node);
    await mkdir(this.pool(node), { recursive: true });
    const running = Promise.withResolvers<void>();
    const done = runAgent(
      {
        node,
        folder: join(this.folder, node),
        pools: [{ name: 'local', type: 'image', path: this.pool(node), ...this.#options.pool }],
        client: this.client,
        identity: () => identity,
        log: this.#toldWhenRunning(running.resolve),
        version: 'test',
        listen: { host: '127.0.0.1', port: 0 },
        progressMs: 100,
        reportMs: 500,
        ...this.#options.agent?.(node, this.client),
        ...change,
      },
      stop.signal,
    );
    done.catch(() => undefined);
    await Promise.race([running.promise, done]);
    this.#agents.set(node, { stop, done });
  }

  #toldWhenRunning(tell: () => void): KeptLog {
    return {
      ...this.log,
      info: (fields, message) => {
        this.log.info(fields, message);
        if (message === 'agent runs') tell();
      },
    };
  }

  async stopAgent(node: string): Promise<void> {
    const running = this.#agents.get(node);
    this.#agents.delete(node);
    running?.stop.abort();
    await running?.done;
  }

  async identity(node: string): Promise<NodeIdentity> {
    const authority = this.#authority as Authority;
    const { key, csr } = await requestCertificate();
    const record = await this.#nodeRecord(node);
    const certificate = await authority.issueNode(csr, { node, uid: record.metadata.uid });
    return { cluster: authority.cluster, node, key, certificate, authority: authority.bundle };
  }

  async #nodeRecord(name: string): Promise<Stored<StorageNode>> {
    try {
      return await this.client.get(StorageNodes, name);
    } catch (error) {
      if (!isReason(error, 'NotFound')) throw error;
      return this.client.create(StorageNodes, { apiVersion: GROUP_VERSION, kind: 'StorageNode', metadata: { name } });
    }
  }

  createVolume(name: string, spec: VolumeSpec): Promise<Stored<Volume>> {
    return this.client.create(Volumes, { apiVersion: GROUP_VERSION, kind: 'Volume', metadata: { name }, spec });
  }

  async volume(name: string, spec: VolumeSpec): Promise<Stored<Volume>> {
    await this.createVolume(name, spec);
    return this.until(Volumes, name, (volume) => volume.status?.phase === 'Available');
  }

  createMove(name: string, spec: MoveSpec): Promise<Stored<Move>> {
    return this.client.create(Moves, { apiVersion: GROUP_VERSION, kind: 'Move', metadata: { name }, spec });
  }

  async mount(volume: string, at = join(this.folder, `at-${volume}`)): Promise<string> {
    const { spec } = await this.client.get(Volumes, volume);
    await (await this.agent(spec.node ?? '')).publish({ volume, target: at });
    return at;
  }

  async unmount(volume: string): Promise<void> {
    const { spec } = await this.client.get(Volumes, volume);
    await (await this.agent(spec.node ?? '')).unpublish({ volume });
  }

  untilPhase(move: string, phase: NonNullable<NonNullable<Move['status']>['phase']>): Promise<Stored<Move>> {
    return this.until(Moves, move, ({ status }) => status?.phase === phase);
  }

  untilBlocked(move: string, reason: string): Promise<Stored<Move>> {
    return this.until(Moves, move, ({ status }) => status?.obstacle?.reason === reason);
  }

  async until<T extends ApiObject>(kind: Kind<T>, name: string, isSo: (object: Stored<T>) => boolean): Promise<Stored<T>> {
    const signal = AbortSignal.timeout(PATIENCE);
    const { items, resourceVersion } = await this.client.list(kind, { fieldSelector: `metadata.name=${name}` });
    let [last] = items;
    if (last && isSo(last)) return last;
    for await (const event of this.client.watch(kind, { resourceVersion, fieldSelector: `metadata.name=${name}`, signal })) {
      if (event.type === 'BOOKMARK') continue;
      last = event.object;
      if (event.type !== 'DELETED' && isSo(last)) return last;
    }
    throw new Error(`${kind.kind} ${name} did not become so; it is ${JSON.stringify(last, null, 1)}`);
  }

  async untilGone<T extends ApiObject>(kind: Kind<T>, name: string): Promise<void> {
    const signal = AbortSignal.timeout(PATIENCE);
    const { items, resourceVersion } = await this.client.list(kind, { fieldSelector: `metadata.name=${name}` });
    let [last] = items;
    if (!last) return;
    for await (const event of this.client.watch(kind, { resourceVersion, fieldSelector: `metadata.name=${name}`, signal })) {
      if (event.type === 'DELETED') return;
      if (event.type !== 'BOOKMARK') last = event.object;
    }
    throw new Error(`${kind.kind} ${name} did not go; it is ${JSON.stringify(last, null, 1)}`);
  }

  async pools(node: string): Promise<{ [pool: string]: PoolStatus }> {
    const { status } = await this.until(StorageNodes, node, (record) => record.status?.pools !== undefined);
    return status?.pools ?? {};
  }

  async untilTold(about: string, isSo: (event: Event) => boolean): Promise<void> {
    const isTold = (event: Event): boolean => event.involvedObject.name === about && isSo(event);
    const { items, resourceVersion } = await this.client.list(Events);
    if (items.some(isTold)) return;
    for await (const event of this.client.watch(Events, { resourceVersion, signal: AbortSignal.timeout(PATIENCE) }))
      if (event.type !== 'BOOKMARK' && isTold(event.object)) return;
    throw new Error(`nobody told so of ${about}`);
  }

  async endsClean(foreign: readonly string[] = []): Promise<void> {
    await this.letGo();
    for (const { metadata } of (await this.client.list(Volumes)).items) {
      for (const node of this.#agents.keys()) await (await this.agent(node)).unpublish({ volume: metadata.name });
      if (metadata.deletionTimestamp === undefined) await this.client.delete(Volumes, metadata.name);
      await this.untilGone(Volumes, metadata.name);
    }
    for (const { metadata } of (await this.client.list(Moves)).items) await this.until(Moves, metadata.name, (move) => !isUnfinished(move));
    for (const node of this.#options.nodes) await this.#holdsNothing(node, foreign);
    const left = (await mounts()).map(({ target }) => target).filter((target) => target.startsWith(`${this.folder}/`));
    assert.deepEqual(left, [], 'mounts are left');
  }

  async #holdsNothing(node: string, foreign: readonly string[]): Promise<void> {
    const pool = this.pool(node);
    const own = ['journals', 'retired'];
    const files = (await readdir(pool)).filter((file) => !file.startsWith('.flock-') && !own.includes(file) && !foreign.includes(file));
    assert.deepEqual(files, [], `files are left in the pool of ${node}`);
    // Only pools of directories have it.
    assert.deepEqual(await readdir(join(pool, 'retired')).catch(() => []), [], `fenced copies are left in the pool of ${node}`);
    // Not there when the pool was never opened.
    assert.deepEqual(await readdir(join(pool, 'journals')).catch(() => []), [], `journals are left in the pool of ${node}`);
    const loops = (await loopDevices()).filter(({ file }) => file.startsWith(`${pool}/`));
    assert.deepEqual(loops, [], `loop devices are left on ${node}`);
    const lock = await tryLockFile(join(pool, '.flock-pool.lock'), 'exclusive');
    assert.ok(lock, `the pool of ${node} is still locked`);
    await lock.release();
  }
}
