// Two nodes with a pool each and a volume to move between them over a real TLS connection on the loopback. Only *.test.ts import it.
import { systemClock, type Clock } from '../model/clock.ts';
import { noCrash, type CrashPoint } from '../model/crash.ts';
import { FlockError } from '../model/errors.ts';
import { alignedBuffer } from '../host/aligned.ts';
import { memoryDisk, MemoryPool } from '../pools/memory.ts';
import type { BlockHandle, Pool } from '../pools/pool.ts';
import { pullRound } from '../transfer/receiver.ts';
import { serveTransfers } from '../transfer/sender.ts';
import type { NodeIdentity } from '../api/certificates.ts';
import type { Log } from '../api/log.ts';
import type { Hello, Offer, Progress, PullOptions, RoundOrder, RoundReport, SourceOptions, SourceServer } from '../transfer/transfer.ts';
import { temporaryFolder, type Test } from './folders.ts';
import { aCluster } from './identities.ts';
import { keptLog, type KeptLog } from './kept-log.ts';
import { aCopy, VOLUME_UID } from './labels.ts';
import { afterwards } from './afterwards.ts';

export const MIB = 1024 * 1024;
export const MOVE_UID = 'fedcba98-7654-4321-8fed-cba987654321';
export const SOURCE = aCopy('s1');
export const TARGET = aCopy('t1', { role: 'incoming', moveUid: MOVE_UID });

const cluster = aCluster();

export interface RigOptions {
  /** Bytes. */
  size: number;
  source?: Pool;
  target?: Pool;
  points?: boolean;
  targetSize?: number;
  clock?: Clock;
}

export interface Rig {
  source: Pool;
  target: Pool;
  server: SourceServer;
  log: KeptLog;
  /** What the source's authoriser answers from now on. */
  offer: Offer;
  progress: Progress[];
  crash: { source: CrashPoint; target: CrashPoint };
  options(change?: Partial<PullOptions>): Promise<PullOptions>;
  pull(order: Partial<RoundOrder>, change?: Partial<PullOptions>): Promise<RoundReport>;
  sourceOptions(): SourceOptions;
  /** Another process at the source's place. */
  restartSource(change?: Partial<SourceOptions>): Promise<void>;
}

export const hello: Hello = {
  protocol: 1,
  purpose: 'round',
  move: 'move-db',
  moveUid: MOVE_UID,
  volumeUid: VOLUME_UID,
  copy: 's1',
  epoch: 1,
};

export async function aRig(t: Test, options: RigOptions): Promise<Rig> {
  const clock = options.clock ?? systemClock;
  const [a, b] = [await (await cluster)('node-a'), await (await cluster)('node-b')];
  const source = options.source ?? (await aMemoryPool(t, 'source', options.points ?? true));
  const target = options.target ?? (await aMemoryPool(t, 'target', true));
  await source.create(SOURCE.name, BigInt(options.size), SOURCE.label);
  await target.create(TARGET.name, BigInt(options.targetSize ?? options.size), TARGET.label);
  const log = keptLog();
  const rig: Rig = {
    source,
    target,
    server: undefined as unknown as SourceServer,
    log,
    offer: { pool: source, copy: SOURCE.name, fenced: false },
    progress: [],
    crash: { source: noCrash, target: noCrash },
    options: async (change = {}) => ({
      source: { host: rig.server.address, port: rig.server.port, node: 'node-a' },
      identity: () => b,
      hello,
      target: { pool: target, copy: TARGET.name, fresh: true },
      limit: () => null,
      onProgress: (progress) => void rig.progress.push(progress),
      signal: new AbortController().signal,
      clock,
      log,
      crash: (name) => rig.crash.target(name),
      ...change,
    }),
    pull: async (order, change) => pullRound(await rig.options(change), { round: 0, final: false, ...order }),
    sourceOptions: () => sourceOptions(rig, a, { clock, log }),
    restartSource: async (change = {}) => {
      await rig.server?.close();
      rig.server = await serveTransfers({ ...rig.sourceOptions(), ...change });
    },
  };
  await rig.restartSource();
  afterwards(t, () => rig.server.close());
  return rig;
}

function sourceOptions(rig: Rig, identity: NodeIdentity, parts: { clock: Clock; log: Log }): SourceOptions {
  return {
    listen: { host: '127.0.0.1', port: 0 },
    identity: () => identity,
    authorize: async (said, peer) => {
      if (peer.node !== 'node-b') throw new FlockError('Forbidden', `node ${peer.node} is not the move's target`);
      if (said.moveUid !== MOVE_UID) throw new FlockError('NotFound', `there is no move ${said.move}`);
      if (said.epoch !== hello.epoch) throw new FlockError('Conflict', `the copy is at epoch ${hello.epoch}, not ${said.epoch}`);
      return rig.offer;
    },
    ...parts,
    crash: (name) => rig.crash.source(name),
  };
}

export async function aMemoryPool(t: Test, name: string, points = true): Promise<MemoryPool> {
  const disk = memoryDisk(`${name}-uuid`, BigInt(1024 * MIB));
  return new MemoryPool({ name, disk, points, journals: await temporaryFolder(t) });
}

/** Opens, acts, closes. */
export async function withCopy<T>(
  of: { pool: Pool; copy: string; mode: 'read' | 'write'; point?: string },
  act: (handle: BlockHandle) => Promise<T>,
): Promise<T> {
  const handle = await of.pool.open(of.copy, of.point ?? 'live', of.mode);
  try {
    return await act(handle);
  } finally {
    await handle.close();
  }
}

/** Writes bytes that follow from `seed` alone. */
export async function fill(pool: Pool, copy: string, range: { offset: number; length: number; seed: number }): Promise<void> {
  await withCopy({ pool, copy, mode: 'write' }, async (handle) => {
    for (let at = 0; at < range.length; at += MIB) {
      const buffer = alignedBuffer(Math.min(MIB, range.length - at));
      pseudoRandom(buffer, range.seed + at);
      await handle.write(buffer, BigInt(range.offset + at));
    }
    await handle.sync();
  });
}

export function pseudoRandom(buffer: Buffer, seed: number): void {
  let state = (seed * 2654435761 + 1) >>> 0;
  for (let at = 0; at + 4 <= buffer.length; at += 4) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    buffer.writeUInt32LE(state, at);
  }
}

export async function contentOf(pool: Pool, copy: string, length: number, point = 'live'): Promise<Buffer> {
  return withCopy({ pool, copy, mode: 'read', point }, async (handle) => {
    const whole = alignedBuffer(length);
    for (let at = 0; at < length; at += MIB) await handle.read(whole.subarray(at, Math.min(at + MIB, length)), BigInt(at));
    return whole;
  });
}

/** Whether source and target hold the same bytes now. */
export async function same(rig: Rig, size: number): Promise<boolean> {
  const [left, right] = [await contentOf(rig.source, SOURCE.name, size), await contentOf(rig.target, TARGET.name, size)];
  return left.equals(right);
}
