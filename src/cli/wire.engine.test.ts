// What a wire and a disk can do to a move besides being cut: be slow, lose, reset, mix up, forget, refuse, fail. Real agents, real TLS, real
// disks; every move ends with equal bytes, or stands still with its source untouched and goes on when the cause is gone.
import assert from 'node:assert/strict';
import { closeSync, openSync, writeSync } from 'node:fs';
import { statfs, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { run } from '../host/run.ts';
import { Moves } from '../model/move.ts';
import { arrives, behindProxy, full } from '../testing/behind-proxy.ts';
import { hashOf } from '../testing/content.ts';
import type { Engine } from '../testing/engine.ts';
import { needsRoot, type Test } from '../testing/folders.ts';
import type { TcpProxy, Verdict } from '../testing/tcp-proxy.ts';

const skip = needsRoot;
const MIB = 1 << 20;
const SIZE = 16 * MIB;

/** What happens once, when that many bytes have crossed. */
const once = (at: number, what: Verdict): TcpProxy['onPiece'] => {
  let done = false;
  return (_piece, seen) => {
    if (done || seen < at) return true;
    done = true;
    return what;
  };
};

const WIRES: readonly [string, (proxy: TcpProxy) => void][] = [
  ['resets a connection', (proxy) => void (proxy.onPiece = once(SIZE / 2, 'reset'))],
  ['loses a piece', (proxy) => void (proxy.onPiece = once(SIZE / 2, 'swallow'))],
  ['delays every piece', (proxy) => void (proxy.hold = () => sleep(2))],
  ['cuts every connection after a quarter', (proxy) => void (proxy.onPiece = everyQuarter(proxy))],
];

/** Each connection gets so far and no farther. */
function everyQuarter(proxy: TcpProxy): TcpProxy['onPiece'] {
  const begun = new Map<number, number>();
  return (_piece, at, connection) => {
    if (!begun.has(connection)) begun.set(connection, at);
    return proxy.connections > 6 || at - (begun.get(connection) ?? at) < SIZE / 4;
  };
}

for (const [what, bend] of WIRES)
  test(`a wire that ${what} costs time and less than half a volume more`, { skip }, async (t) => {
    const { engine, proxy } = await behindProxy(t);
    const hash = await full(engine, 'db', SIZE);
    bend(proxy);
    await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
    await engine.untilPhase('db-1', 'Retaining');
    assert.ok(proxy.bytes < 1.5 * SIZE, `${proxy.bytes} bytes crossed the wire`);
    await arrives(engine, hash);
  });

test('two moves whose connections are mixed up both arrive with their own bytes', { skip }, async (t) => {
  const { engine, proxy } = await behindProxy(t, { caps: { perNode: 2 } });
  const hashes = [await full(engine, 'db', SIZE), await full(engine, 'web', SIZE)];
  const seen = new Set<number>();
  let swaps = 0;
  // The second connection waits for the first, so that both are in the middle of their volumes.
  proxy.onPiece = (_piece, at, connection) => {
    if (at > SIZE / 4) seen.add(connection);
    const [one, other] = [...seen];
    if (swaps === 0 && one !== undefined && other !== undefined) {
      proxy.swap(one, other);
      swaps += 1;
    }
    return true;
  };
  for (const name of ['db', 'web']) await engine.createMove(`${name}-1`, { volume: name, target: 'node-2', bandwidth: '16Mi' });
  for (const name of ['db', 'web']) await engine.untilPhase(`${name}-1`, 'Retaining');
  assert.equal(swaps, 1);
  assert.equal(await hashOf(await engine.mount('web')), hashes[1]);
  await arrives(engine, hashes[0] ?? '');
});

/** Numbers that look random and are the same in every run. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

for (const seed of [1, 2])
  test(`a wire that does everything now and then, seed ${seed}, brings the bytes in the end`, { skip }, async (t) => {
    const { engine, proxy } = await behindProxy(t);
    const hash = await full(engine, 'db', SIZE);
    const next = numbers(seed);
    const verdicts: readonly Verdict[] = [false, 'reset', 'swallow', true];
    let faults = 0;
    proxy.hold = () => (next() < 0.05 ? sleep(20) : null);
    // Not while nothing has crossed yet: what brings nothing is tried less and less often, and that takes its time.
    proxy.onPiece = (piece, at) => {
      if (at < MIB || faults >= 5 || next() > 0.03) return true;
      faults += 1;
      const verdict = verdicts[Math.floor(next() * verdicts.length)] ?? true;
      if (verdict === true) piece[Math.floor(next() * piece.length)]! ^= 1;
      return verdict;
    };
    await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
    await engine.untilPhase('db-1', 'Retaining');
    assert.ok(faults > 0);
    await arrives(engine, hash);
  });

// ---- disks -----------------------------------------------------------------------------------------------------------------------

/** The move has begun to copy, slowly. */
async function copying(
  t: Test,
  options: Parameters<typeof behindProxy>[1] = {},
): Promise<{ engine: Engine; hash: string; hurry: () => Promise<void> }> {
  const { engine } = await behindProxy(t, options);
  const hash = await full(engine, 'db', SIZE);
  await engine.createMove('db-1', { volume: 'db', target: 'node-2', bandwidth: '16Mi' });
  await engine.until(Moves, 'db-1', ({ status }) => Number(status?.incoming?.bytesDone ?? 0) > SIZE / 8);
  const hurry = async (): Promise<void> => void (await engine.client.patch(Moves, 'db-1', { spec: { bandwidth: '0' } }));
  return { engine, hash, hurry };
}

/** It says what stands in its way, and whoever uses the volume at the source does not notice. */
async function standsStill(engine: Engine, hash: string): Promise<void> {
  const { status } = await engine.until(Moves, 'db-1', (move) => move.status?.obstacle !== undefined);
  assert.equal(status?.phase, 'Syncing');
  assert.equal(await hashOf(await engine.mount('db')), hash);
  await engine.unmount('db');
}

test('a target disk that is read-only after a restart blocks the move, and it goes on when it is writable again', { skip }, async (t) => {
  const { engine, hash, hurry } = await copying(t);
  await engine.stopAgent('node-2');
  await run('mount', ['-o', 'remount,ro', engine.disk('node-2')]);
  await engine.startAgent('node-2');
  await standsStill(engine, hash);
  await run('mount', ['-o', 'remount,rw', engine.disk('node-2')]);
  await hurry();
  await engine.untilPhase('db-1', 'Retaining');
  await arrives(engine, hash);
});

test('a target disk that is full in the middle of the copy, journal and all, blocks the move until it is not', { skip }, async (t) => {
  const { engine, hash, hurry } = await copying(t, { pool: { overcommit: 'unlimited' } });
  const filler = join(engine.disk('node-2'), 'somebody-elses');
  await fill(filler);
  await standsStill(engine, hash);
  await unlink(filler);
  await hurry();
  await engine.untilPhase('db-1', 'Retaining');
  await arrives(engine, hash);
});

/** Takes what is free, to the last block. */
async function fill(path: string): Promise<void> {
  const file = openSync(path, 'w');
  const { bavail, bsize } = await statfs(join(path, '..'));
  await run('fallocate', ['-l', String(Math.max(bsize, (bavail - 4) * bsize)), path]);
  try {
    for (;;) writeSync(file, Buffer.alloc(4096), 0, 4096, bavail * bsize);
  } catch {
    closeSync(file);
  }
}

test('a target disk that fails in the middle of the copy blocks the move, and it goes on when the disk is back', { skip }, async (t) => {
  const { engine, hash, hurry } = await copying(t);
  const at = engine.disk('node-2');
  const device = (await run('findmnt', ['-n', '-o', 'SOURCE', at])).stdout.trim();
  await run('xfs_io', ['-x', '-c', 'shutdown', at]);
  await standsStill(engine, hash);
  await engine.stopAgent('node-2');
  await run('umount', [at]);
  await run('mount', [device, at]);
  await engine.startAgent('node-2');
  await hurry();
  await engine.untilPhase('db-1', 'Retaining');
  await arrives(engine, hash);
});
