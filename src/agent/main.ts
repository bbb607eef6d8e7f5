// An agent process: its parts from its options, and its end in order. Nothing is decided here.
import { join } from 'node:path';
import { backoffDelay } from '../api/backoff.ts';
import type { Client } from '../api/client.ts';
import { listAll } from '../api/list-all.ts';
import { eventRecorder } from '../api/event-recorder.ts';
import type { Log } from '../api/log.ts';
import { DEFAULT_BACKOFF } from '../api/queue.ts';
import { serveMetrics } from '../api/metrics-server.ts';
import { readWaited } from '../host/pressure.ts';
import { hostAbilities } from '../host/probe.ts';
import { systemClock } from '../model/clock.ts';
import { killAt, type CrashPoint } from '../model/crash.ts';
import { FlockError, isReason, messageOf } from '../model/errors.ts';
import { nodeName } from '../model/names.ts';
import { StorageNodes, type PoolStatus } from '../model/storage-node.ts';
import { beFolder, tryLockFile } from '../host/files.ts';
import type { PoolConfiguration } from '../pools/configuration.ts';
import { dropJournal, readJournal } from '../transfer/journal.ts';
import { pullRound } from '../transfer/receiver.ts';
import { checkCarried } from '../transfer/tree/carried.ts';
import { Restraint } from '../transfer/restraint.ts';
import { scrub } from '../transfer/scrub.ts';
import { serveTransfers } from '../transfer/sender.ts';
import type { NodeIdentity } from '../api/certificates.ts';
import { startAgent } from './agent.ts';
import { hostMounts } from './host-mounts.ts';
import type { Alongside } from './local-node.ts';
import { agentMetrics, type AgentMetrics } from './metrics.ts';
import { NodePools } from './pools.ts';
import { openPublications } from './publications.ts';
import { serveSocket } from './socket.ts';
import {
  isLoopback,
  isWildcard,
  publishedAddress,
  transferAddress,
  whyNotReached,
  whyOutside,
  type OwnAddress,
  type TransferNetwork,
} from './transfer-network.ts';

export interface RunAgentOptions {
  node: string;
  /** Folder of this agent's own files; made if it is not there. */
  folder: string;
  pools: readonly PoolConfiguration[];
  client: Client;
  identity: () => NodeIdentity;
  log: Log;
  version: string;
  /** Where other agents reach this one when no transfer network says otherwise. */
  listen: { host: string; port: number };
  network?: TransferNetwork;
  /** This machine's address as the server sees it, once there was a connection: told to others when the agent listens on all. */
  toServer?: () => string | null;
  /** The local socket; `agent.sock` in the folder by default. */
  socket?: string;
  /** Between two writes of a move's progress, ms; 5 s by default. */
  progressMs?: number;
  /** Between two looks at the pools and reports of the node, ms; 10 s by default. */
  reportMs?: number;
  /** Called at the named places between two writes; by default FLOCK_CRASH_AT says where to end. */
  crash?: CrashPoint;
  /** Whether blocks are compressed where the wire is slow; `off` by default. */
  compression?: 'auto' | 'off';
  /** Folder of the kernel's pressure figures: copying in the background gives way by them. Without it, it gives way to nobody. */
  pressure?: string;
  /** Where to serve /metrics besides the local socket; nowhere by default. */
  metrics?: { host: string; port: number };
  /** What else is served on this machine, from the agent's start to its stop. */
  alongside?: Alongside;
}

/** Runs until the signal aborts. Throws Conflict when another agent uses the folder. */
export async function runAgent(options: RunAgentOptions, signal: AbortSignal): Promise<void> {
  const node = nodeName(options.node);
  await beFolder(options.folder, 0o700);
  const lock = await tryLockFile(join(options.folder, 'lock'), 'exclusive');
  if (!lock) throw new FlockError('Conflict', `another agent runs in ${options.folder}; stop it, or give this one its own --dir`);
  try {
    await runLocked({ ...options, node }, signal);
  } finally {
    await lock.release();
  }
}

async function runLocked(options: RunAgentOptions, signal: AbortSignal): Promise<void> {
  const { node, client, log, folder, identity, crash = killAt(process.env.FLOCK_CRASH_AT) } = options;
  const recorder = eventRecorder({ client, component: 'flock-agent', instance: node, clock: systemClock, log });
  const metrics = agentMetrics(node);
  const abilities = await hostAbilities();
  const pools = await NodePools.open({
    configurations: options.pools,
    file: join(folder, 'pools.json'),
    recorded: await recordedPools(options, signal),
    owners: () => poolOwners(client, node),
    crash,
  });
  const address = transferAddress(options.listen.host, options.network);
  const own = (): OwnAddress => ({ listening: address, toServer: options.toServer?.() ?? null });
  tellAddress(options, own());
  const socket = options.socket ?? join(folder, 'agent.sock');
  const mounts = hostMounts(abilities.canMount, [folder, ...options.pools.flatMap((pool) => ('path' in pool ? [pool.path] : []))]);
  const held = restraintBy(options, metrics);
  const metricsServer = options.metrics ? await serveMetrics(options.metrics, () => metrics.text()) : null;
  try {
    const agent = await startAgent({
      node,
      client,
      pools: pools.pools,
      broken: pools.broken,
      reopen: () => pools.open(),
      mounts,
      publications: () => openPublications(join(folder, 'publications.json'), mounts),
      listen: (calls, text) => serveSocket(socket, calls, text),
      transfer: { pullRound, scrub, checkCarried, readJournal, dropJournal },
      clock: systemClock,
      random: Math.random,
      crash,
      log,
      reportMs: options.reportMs ?? 10_000,
      facts: {
        agentVersion: options.version,
        socket,
        filesystems: abilities.filesystems,
        canMount: abilities.canMount,
        whyNotReached: () => whyNotReached(node, own()),
        whyOutside: () => whyOutside(options.listen.host, options.network),
        heldBack: () => held.restraint?.heldBack?.by ?? null,
      },
      transfers: {
        identity,
        ...(isWildcard(address) ? {} : { localAddress: address }),
        ...held,
        progressMs: options.progressMs ?? 5_000,
        retry: { first: 1_000, longest: 30_000 },
      },
      serve: async (authorizing) => {
        const listen = { host: address, port: options.listen.port };
        const onBytes = (bytes: number): void => metrics.bytesServed.inc(bytes);
        const compressing = options.compression === undefined ? {} : { compression: options.compression };
        const server = await serveTransfers({
          listen,
          identity,
          ...authorizing,
          clock: systemClock,
          log,
          crash,
          onBytes,
          ...held,
          ...compressing,
        });
        return { ...server, address: publishedAddress({ ...own(), listening: server.address }) };
      },
      metrics,
      ...(options.alongside ? { alongside: options.alongside } : {}),
      tell: (about, type, reason, message) => {
        metrics.events.inc({ reason, type });
        recorder.record(about, type, reason, message);
      },
    });
    log.info({ node, folder }, 'agent runs');
    await new Promise<void>((resolve) => (signal.aborted ? resolve() : signal.addEventListener('abort', () => resolve(), { once: true })));
    await agent.stop();
    log.info({ node }, 'agent stopped');
  } finally {
    await recorder.flush();
    metricsServer?.close();
  }
}

function restraintBy({ pressure: folder }: RunAgentOptions, { pressure, ceiling }: AgentMetrics): { restraint?: Restraint } {
  if (folder === undefined) return {};
  const restraint = new Restraint({
    clock: systemClock,
    waited: () => readWaited(folder),
    onSecond: (bytes, shares) => {
      ceiling.set(bytes ?? Infinity);
      for (const [resource, share] of Object.entries(shares)) pressure.set({ resource }, share);
    },
  });
  return { restraint };
}

/** Which address others are told, when nobody chose it; and that it is of no use to them. */
function tellAddress({ node, listen, network, log }: RunAgentOptions, own: OwnAddress): void {
  const address = publishedAddress(own);
  const only = isLoopback(address) ? ', which only this machine reaches' : '';
  if (isWildcard(own.listening))
    log.info(
      { node, address },
      `listens for other agents on all addresses; they are told ${address}${only}: from there it reaches its server. Choose another with --listen or --network`,
    );
  const why = whyNotReached(node, own);
  if (why !== null) log.warn({ node, address }, why);
  const outside = whyOutside(listen.host, network);
  if (outside !== null) log.warn({ node }, outside);
}

/** Nodes by the UUIDs of their pools, but for this one's. */
async function poolOwners(client: Client, node: string): Promise<ReadonlyMap<string, string>> {
  const { items } = await listAll(client, StorageNodes);
  const others = items.filter(({ metadata }) => metadata.name !== node);
  return new Map(
    others.flatMap(({ metadata, status }) =>
      Object.values(status?.pools ?? {}).flatMap(({ uuid }) => (uuid === undefined ? [] : [[uuid, metadata.name] as const])),
    ),
  );
}

/** Which disks the pools were on. A server that does not answer is waited for: a node that boots before it comes up by itself. */
async function recordedPools({ client, node, log }: RunAgentOptions, signal: AbortSignal): Promise<{ [pool: string]: PoolStatus }> {
  for (let failures = 0; ; failures += 1) {
    try {
      return (await client.get(StorageNodes, node)).status?.pools ?? {};
    } catch (error) {
      if (isReason(error, 'NotFound')) return {};
      if (!isReason(error, 'Unavailable')) throw error;
      log.warn({ node, failures }, `the agent waits for its server: ${messageOf(error)}`);
      await systemClock.sleep(backoffDelay(failures, DEFAULT_BACKOFF, Math.random), signal);
    }
  }
}
