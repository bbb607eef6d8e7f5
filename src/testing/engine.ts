// The whole engine in one process, with real disks and real TLS sockets: a controller and agents over records in memory. Only *.test.ts
// import it.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { runAgent } from '../agent/main.ts';
import { openAuthority, requestCertificate, type Authority } from '../api/certificates.ts';
import type { Client } from '../api/client.ts';
import { LocalClient } from '../api/local-client.ts';
import { Registry } from '../api/registry.ts';
import { MemoryTable } from '../api/table.ts';
import { runController } from '../controller/main.ts';
import type { Caps } from '../decide/moves.ts';
import { systemClock } from '../model/clock.ts';
import type { Kind } from '../model/kind.ts';
import { GROUP_VERSION, type ApiObject, type Stored } from '../model/meta.ts';
import { Moves, type Move, type MoveSpec } from '../model/move.ts';
import { Volumes, type Volume, type VolumeSpec } from '../model/volume.ts';
import type { NodeIdentity } from '../transfer/transfer.ts';
import { localAgent, type LocalAgent } from '../cli/agent-socket.ts';
import { temporaryFilesystem, temporaryFolder, type FilesystemOrder, type Test } from './folders.ts';
import { keptLog, type KeptLog } from './kept-log.ts';
import { memorySettings } from './memory-settings.ts';

export interface Engine {
  client: Client;
  log: KeptLog;
  folder: string;
  /** Where a node's pool lies. */
  pool(node: string): string;
  agent(node: string): Promise<LocalAgent>;
  startAgent(node: string): Promise<void>;
  stopAgent(node: string): Promise<void>;
  createVolume(name: string, spec: VolumeSpec): Promise<Stored<Volume>>;
  createMove(name: string, spec: MoveSpec): Promise<Stored<Move>>;
  /** Resolves with the object once it is so; rejects after a minute, saying how it was. */
  until<T extends ApiObject>(kind: Kind<T>, name: string, isSo: (object: Stored<T>) => boolean): Promise<Stored<T>>;
  untilGone<T extends ApiObject>(kind: Kind<T>, name: string): Promise<void>;
}

export interface EngineOptions {
  nodes: readonly string[];
  filesystem?: FilesystemOrder;
  caps?: Partial<Caps>;
  /** A pool's configuration besides name, type and path. */
  pool?: object;
}

interface RunningAgent {
  stop: AbortController;
  done: Promise<void>;
}

const PATIENCE = 60_000;

export async function startEngine(t: Test, options: EngineOptions): Promise<Engine> {
  const engine = new TestEngine(options, await temporaryFolder(t));
  // Last in, first out: agents stop before their disks go.
  for (const node of options.nodes) engine.disks.set(node, await diskOf(t, options));
  t.after(() => engine.stop());
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
  readonly folder: string;
  readonly disks = new Map<string, string>();
  readonly #options: EngineOptions;
  readonly #agents = new Map<string, RunningAgent>();
  readonly #controller = new AbortController();
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
    this.#controlling = runController(
      { client: this.client, log: this.log, ...(this.#options.caps ? { caps: this.#options.caps } : {}) },
      this.#controller.signal,
    );
    for (const node of this.#options.nodes) await this.startAgent(node);
  }

  async stop(): Promise<void> {
    for (const node of [...this.#agents.keys()]) await this.stopAgent(node);
    this.#controller.abort();
    await this.#controlling;
  }

  pool(node: string): string {
    return join(this.disks.get(node) ?? '', 'pool');
  }

  #socket(node: string): string {
    return join(this.folder, node, 'agent.sock');
  }

  agent(node: string): Promise<LocalAgent> {
    return localAgent(node, this.#socket(node));
  }

  async startAgent(node: string): Promise<void> {
    const stop = new AbortController();
    const identity = await this.#identity(node);
    await mkdir(this.pool(node), { recursive: true });
    const done = runAgent(
      {
        node,
        folder: join(this.folder, node),
        pools: [{ name: 'local', type: 'image', path: this.pool(node), ...this.#options.pool }],
        client: this.client,
        identity: () => identity,
        log: this.log,
        version: 'test',
        listen: { host: '127.0.0.1', port: 0 },
        progressMs: 100,
      },
      stop.signal,
    );
    this.#agents.set(node, { stop, done });
  }

  async stopAgent(node: string): Promise<void> {
    const running = this.#agents.get(node);
    this.#agents.delete(node);
    running?.stop.abort();
    await running?.done;
  }

  async #identity(node: string): Promise<NodeIdentity> {
    const authority = this.#authority as Authority;
    const { key, csr } = await requestCertificate();
    const certificate = await authority.issueNode(csr, { node, uid: crypto.randomUUID() });
    return { cluster: authority.cluster, node, key, certificate, authority: authority.bundle };
  }

  createVolume(name: string, spec: VolumeSpec): Promise<Stored<Volume>> {
    return this.client.create(Volumes, { apiVersion: GROUP_VERSION, kind: 'Volume', metadata: { name }, spec });
  }

  createMove(name: string, spec: MoveSpec): Promise<Stored<Move>> {
    return this.client.create(Moves, { apiVersion: GROUP_VERSION, kind: 'Move', metadata: { name }, spec });
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
}
