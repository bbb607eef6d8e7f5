// flockctl in this process, against records in memory: what it wrote and its exit code. Only *.test.ts import it.
import { randomUUID } from 'node:crypto';
import type { Client } from '../api/client.ts';
import { httpClient } from '../api/http-client.ts';
import { LocalClient } from '../api/local-client.ts';
import { Registry } from '../api/registry.ts';
import { MemoryTable } from '../api/table.ts';
import { connectionFor } from '../cli/connection.ts';
import type { Context, Screen } from '../cli/context.ts';
import { run } from '../cli/program.ts';
import { systemClock, type Clock } from '../model/clock.ts';
import { GROUP_VERSION, type Stored } from '../model/meta.ts';
import { Moves, type Move, type MoveSpec, type MoveStatus } from '../model/move.ts';
import { StorageNodes, type PoolStatus, type StorageNode, type StorageNodeStatus } from '../model/storage-node.ts';
import { Volumes, type Volume, type VolumeSpec, type VolumeStatus } from '../model/volume.ts';

export interface Ran {
  code: number;
  out: string;
  err: string;
}

export interface Invocation {
  done: Promise<Ran>;
  /** Ctrl-C. */
  interrupt: () => void;
  /** What it wrote so far, both screens. */
  written: () => string;
}

export interface Surroundings {
  client?: Client;
  connect?: Context['connect'];
  env?: Context['env'];
  clock?: Clock;
  terminal?: boolean;
  columns?: number;
}

export function start(words: string[], around: Surroundings): Invocation {
  const interruption = new AbortController();
  const written: [string, string][] = [];
  const screen = (name: string): Screen => ({
    write: (text) => void written.push([name, text]),
    isTerminal: around.terminal ?? false,
    columns: around.columns ?? 100,
  });
  const of = (name: string): string => written.flatMap(([to, text]) => (to === name ? [text] : [])).join('');
  const context: Context = {
    out: screen('out'),
    err: screen('err'),
    env: around.env ?? {},
    clock: around.clock ?? systemClock,
    interrupted: interruption.signal,
    connect: around.connect ?? (async () => around.client ?? new LocalClient({ registry: registry(), clock: systemClock })),
    leaveFolder: () => undefined,
  };
  const done = run(words, context).then((code) => ({ code, out: of('out'), err: of('err') }));
  return { done, interrupt: () => interruption.abort(), written: () => written.map(([, text]) => text).join('') };
}

export const flockctl = (words: string[], around: Surroundings): Promise<Ran> => start(words, around).done;

const registry = (): Registry => new Registry({ table: new MemoryTable(), clock: systemClock, uid: randomUUID });

export const records = (): Client => new LocalClient({ registry: registry(), clock: systemClock });

const GIB = 2n ** 30n;
export const pool = (changes: Partial<PoolStatus> = {}): PoolStatus => ({
  type: 'image',
  capacity: String(20n * GIB),
  booked: String(0),
  free: String(20n * GIB),
  size: String(22n * GIB),
  used: String(GIB),
  thin: true,
  points: true,
  healthy: true,
  ...changes,
});

const READY = {
  type: 'Ready',
  status: 'True',
  reason: 'AgentReady',
  message: 'ready',
  lastTransitionTime: '2026-01-01T00:00:00Z',
} as const;

export async function putNode(client: Client, name: string, status: StorageNodeStatus = {}): Promise<Stored<StorageNode>> {
  await client.create(StorageNodes, { apiVersion: GROUP_VERSION, kind: StorageNodes.kind, metadata: { name } });
  const whole: StorageNodeStatus = {
    conditions: [READY],
    pools: { local: pool() },
    filesystems: ['ext4', 'xfs'],
    canMount: true,
    transfer: { address: '127.0.0.1', port: 9807 },
    agentVersion: '0.1.0',
    ...status,
  };
  return client.patch(StorageNodes, name, { status: whole }, { subresource: 'status' });
}

export async function putVolume(
  client: Client,
  name: string,
  { spec = {}, status = {} }: { spec?: Partial<VolumeSpec>; status?: VolumeStatus } = {},
): Promise<Stored<Volume>> {
  const placed: VolumeSpec = { size: '2Gi', pool: 'local', node: 'node-1', epoch: 1, copy: 'c1', ...spec };
  await client.create(Volumes, { apiVersion: GROUP_VERSION, kind: Volumes.kind, metadata: { name }, spec: placed });
  const whole: VolumeStatus = {
    phase: 'Available',
    capacity: String(2n * GIB),
    copies: { c1: { node: 'node-1', pool: 'local', role: 'active', epoch: 1, size: String(2n * GIB), allocated: '4096' } },
    ...status,
  };
  return client.patch(Volumes, name, { status: whole }, { subresource: 'status' });
}

export async function putMove(client: Client, name: string, spec: MoveSpec, status: MoveStatus): Promise<Stored<Move>> {
  await client.create(Moves, { apiVersion: GROUP_VERSION, kind: Moves.kind, metadata: { name }, spec });
  return client.patch(Moves, name, { status }, { subresource: 'status' });
}

/** Resolves once the invocation has written this. */
export async function whenWritten(running: Invocation, text: string): Promise<void> {
  const signal = AbortSignal.timeout(10_000);
  while (!running.written().includes(text)) await systemClock.sleep(5, signal);
}

/** Against real servers, as this environment and the options name them. */
export const overHttp = (env: { [name: string]: string }): Surroundings => ({
  env,
  connect: async (where) => httpClient(connectionFor(where, env)),
});
