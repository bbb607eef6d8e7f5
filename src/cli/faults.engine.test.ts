// Faults between two agents and their controller, on real disks and real TLS: cut wires, turned bits, lost answers, restarts. Every move ends
// with equal bytes, and nothing is sent twice that was proven.
import assert from 'node:assert/strict';
import { closeSync, fsyncSync, openSync, readdirSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FlockError } from '../model/errors.ts';
import { Moves } from '../model/move.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { Volumes } from '../model/volume.ts';
import { BentClient } from '../testing/bent-client.ts';
import { hashOf } from '../testing/content.ts';
import { arrives, behindProxy, full, ON_XFS } from '../testing/behind-proxy.ts';
import { startEngine, type Engine } from '../testing/engine.ts';
import { needsRoot } from '../testing/folders.ts';

const MIB = 1 << 20;
const SIZE = 32 * MIB;
const SMALL = 16 * MIB;

// ---- interrupted -----------------------------------------------------------------------------------------------------------------

for (const percent of [10, 50, 99])
  test(`a wire that is cut at ${percent} % costs less than a fifth of the volume`, { skip: needsRoot }, async (t) => {
    const { engine, proxy } = await behindProxy(t);
    const hash = await full(engine);
    let cuts = 0;
    proxy.onPiece = (_piece, at) => cuts > 0 || at < (SIZE * percent) / 100 || ((cuts += 1), false);
    await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
    const { status } = await engine.untilPhase('db-1', 'Retaining');
    assert.equal(cuts, 1);
    assert.ok(proxy.bytes < 1.2 * SIZE, `${proxy.bytes} bytes crossed the wire`);
    assert.ok(Number(status?.incoming?.bytesResumed) > 0);
    await arrives(engine, hash);
  });

for (const node of ['node-1', 'node-2'])
  test(
    `the agent of ${node === 'node-1' ? 'the source' : 'the target'} is stopped in the middle of the copy and started again`,
    { skip: needsRoot },
    async (t) => {
      const { engine, proxy } = await behindProxy(t);
      const hash = await full(engine);
      await engine.createMove('db-1', { volume: 'db', target: 'node-2', bandwidth: '16Mi' });
      await engine.until(Moves, 'db-1', ({ status }) => Number(status?.incoming?.bytesDone ?? 0) > SIZE / 4);
      await engine.stopAgent(node);
      const waits = await engine.untilBlocked('db-1', node === 'node-1' ? 'SourceUnreachable' : 'TargetUnreachable');
      assert.equal(waits.status?.phase, 'Syncing');
      if (node === 'node-1') await engine.until(Volumes, 'db', ({ status }) => status?.obstacle?.reason === 'NodeNotReady');
      await engine.client.patch(Moves, 'db-1', { spec: { bandwidth: '0' } });
      await engine.startAgent(node);
      await engine.untilPhase('db-1', 'Retaining');
      assert.ok(proxy.bytes < 1.2 * SIZE, `${proxy.bytes} bytes crossed the wire`);
      await arrives(engine, hash);
    },
  );

// ---- turned bits -----------------------------------------------------------------------------------------------------------------

test('a bit that turns on the wire is noticed, and the bytes are sent again', { skip: needsRoot }, async (t) => {
  const { engine, proxy } = await behindProxy(t);
  const hash = await full(engine, 'db', SMALL);
  let turned = 0;
  proxy.onPiece = (piece, at) => {
    if (turned === 0 && at > SMALL / 3) piece[piece.length >> 1]! ^= ++turned;
    return true;
  };
  await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
  const { status } = await engine.untilPhase('db-1', 'Retaining');
  assert.equal(turned, 1);
  assert.equal(status?.incoming?.retries, 1);
  assert.ok(engine.log.lines.some(({ level, message }) => level === 'warn' && message.startsWith('transfer failed')));
  await arrives(engine, hash);
});

/** Turns one bit in the only image of a pool. */
function turnBit(pool: string, offset: number): void {
  const image = readdirSync(pool).find((name) => name.endsWith('.img')) ?? '';
  const file = openSync(join(pool, image), 'r+');
  const byte = Buffer.alloc(1);
  readSync(file, byte, 0, 1, offset);
  byte[0]! ^= 4;
  writeSync(file, byte, 0, 1, offset);
  fsyncSync(file);
  closeSync(file);
}

for (const point of ['transfer.round.copied', 'transfer.round.completed'])
  test(
    `a bit that turns on the target's disk ${point === 'transfer.round.copied' ? 'before' : 'after'} the round is proven does not reach the application`,
    { skip: needsRoot },
    async (t) => {
      let engine: Engine | null = null;
      let turned = 0;
      const crash = (name: string): void => {
        if (name === point && engine && turned++ === 0) turnBit(engine.pool('node-2'), SMALL / 2);
      };
      const started = await behindProxy(t, { agent: (node) => (node === 'node-2' ? { crash } : {}) });
      engine = started.engine;
      const hash = await full(engine, 'db', SMALL);
      await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
      await engine.untilPhase('db-1', 'Retaining');
      const { status } = await engine.until(Moves, 'db-1', (move) =>
        ['Passed', 'Repaired'].includes(move.status?.incoming?.scrub?.state ?? ''),
      );
      assert.equal(status?.incoming?.scrub?.state, point === 'transfer.round.copied' ? 'Passed' : 'Repaired');
      if (point === 'transfer.round.completed')
        await engine.untilTold('db-1', ({ type, reason }) => type === 'Warning' && reason === 'ScrubRepaired');
      assert.equal(await hashOf(await engine.mount('db')), hash);
      await engine.endsClean();
    },
  );

// ---- lost answers ----------------------------------------------------------------------------------------------------------------

test(
  'the controller starts again between the end of the copy and the status, and the report of the round was lost once',
  { skip: needsRoot },
  async (t) => {
    const lost: string[] = [];
    const lose =
      (when: string) =>
      (kind: { kind: string }, _name: string, patch: object): void => {
        const { incoming } = (patch as { status?: { incoming?: { completeRound?: number } } }).status ?? {};
        const round = `${when} ${incoming?.completeRound}`;
        if (kind.kind !== 'Move' || incoming?.completeRound === undefined || lost.includes(round)) return;
        lost.push(round);
        throw new FlockError('Unavailable', 'the answer was lost');
      };
    const engine = await startEngine(t, {
      nodes: ['node-1', 'node-2'],
      filesystem: ON_XFS,
      agent: (node, client) =>
        node === 'node-2' ? { client: new BentClient(client, { beforePatch: lose('sent'), afterPatch: lose('written') }) } : {},
    });
    const hash = await full(engine, 'db', SMALL);
    engine.held.add('fence');
    await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
    await engine.until(Moves, 'db-1', ({ status }) => status?.incoming?.completeRound === 0);
    await engine.stopController();
    engine.held.clear();
    engine.startController();
    const { status } = await engine.untilPhase('db-1', 'Retaining');
    assert.deepEqual(lost, ['sent 0', 'written 0', 'sent 1', 'written 1']);
    assert.ok(Number(status?.incoming?.bytesSent) <= SMALL, 'a lost report sends nothing again');
    await arrives(engine, hash);
  },
);

test('a fatal error is on the move at once, with its reason and the try', { skip: needsRoot }, async (t) => {
  const { engine, proxy } = await behindProxy(t);
  const hash = await full(engine, 'db', SMALL);
  proxy.onPiece = () => false;
  await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
  const { status } = await engine.until(Moves, 'db-1', (move) => move.status?.incoming?.retries === 2);
  assert.equal(status?.obstacle?.reason, 'Unavailable');
  assert.match(status?.obstacle?.message ?? '', /node node-1 .*\(try [12]; it goes on by itself\)/u);
  proxy.onPiece = () => true;
  await engine.untilPhase('db-1', 'Retaining');
  await arrives(engine, hash);
});

// ---- exactly one -----------------------------------------------------------------------------------------------------------------

test(
  'a step that fails on either side, once at every named point, leaves one authoritative copy and equal bytes',
  { skip: needsRoot },
  async (t) => {
    const failed = new Set<string>();
    const crash = (name: string): void => {
      if (!/^(before|after|reserve|relabel|fence|activate|round):/u.test(name) || failed.has(name)) return;
      failed.add(name);
      throw new FlockError('Unavailable', `the test fails at ${name}`);
    };
    const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: ON_XFS, agent: () => ({ crash }) });
    const hash = await full(engine, 'db', SMALL);
    await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
    await engine.untilPhase('db-1', 'Retaining');
    // The source's agent says on its disk that it is superseded when it hears of the commit, which need not be at once.
    await engine.until(Volumes, 'db', ({ status }) => Object.values(status?.copies ?? {}).some(({ role }) => role === 'stale'));
    for (const name of [
      'reserve:created',
      'round:pulled',
      'fence:held',
      'fence:labelled',
      'activate:frozen',
      'activate:labelled',
      'relabel:written',
    ])
      assert.ok(failed.has(name), name);
    const { spec, status } = await engine.client.get(Volumes, 'db');
    const active = Object.entries(status?.copies ?? {}).filter(([, copy]) => copy.role === 'active');
    assert.deepEqual(
      active.map(([id]) => id),
      [spec.copy],
    );
    await arrives(engine, hash);
  },
);

test('five agents and one delete: nobody says a word of warning, and only the owner acts', { skip: needsRoot }, async (t) => {
  const nodes = ['node-1', 'node-2', 'node-3', 'node-4', 'node-5'];
  const engine = await startEngine(t, { nodes });
  await engine.until(StorageNodes, 'node-5', ({ status }) => status?.pools !== undefined);
  await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-3' });
  await engine.mount('db');
  await engine.unmount('db');
  await engine.client.delete(Volumes, 'db');
  await engine.untilGone(Volumes, 'db');
  await engine.endsClean();
  const loud = engine.log.lines.filter(({ level }) => level === 'warn' || level === 'error');
  assert.deepEqual(loud, []);
  const acted = engine.log.lines.filter(({ message }) => message === 'step taken').map(({ fields }) => (fields as { step: string }).step);
  assert.deepEqual(acted, ['create', 'remove']);
});

test('a whole move, and the deletion of the volume after it, says no word of warning', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1', 'node-2', 'node-3'], filesystem: ON_XFS });
  const hash = await full(engine, 'db', SMALL);
  await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
  await engine.untilPhase('db-1', 'Retaining');
  await arrives(engine, hash);
  assert.deepEqual(
    engine.log.lines.filter(({ level }) => level === 'warn' || level === 'error'),
    [],
  );
});
