// Moves as people order them, on real disks: under a writer, there and back, one after the other, fast and slow, on every kind of pool.
import assert from 'node:assert/strict';
import { appendFile, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { isCopying } from '../decide/observed.ts';
import { isReason } from '../model/errors.ts';
import { Moves, type MoveSpec } from '../model/move.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import { Volumes } from '../model/volume.ts';
import { BentClient, type Bend } from '../testing/bent-client.ts';
import { hashOf, write } from '../testing/content.ts';
import { startEngine, type Engine } from '../testing/engine.ts';
import { needsRoot, temporaryFolder, type Test } from '../testing/folders.ts';

const MIB = 1 << 20;
const XFS = { type: 'xfs', size: 2n << 30n } as const;

const twoNodes = (t: Test): Promise<Engine> =>
  startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: XFS, caps: { idleRoundMs: 300, maxRounds: 3 } });

/** Runs `turn` without pause until it is stopped; resolves then with how often it ran whole. */
function untilStopped(turn: (count: number) => Promise<void>): () => Promise<number> {
  let stopped = false;
  const running = (async () => {
    let count = 0;
    for (; !stopped; count += 1) await turn(count);
    return count;
  })();
  running.catch(() => undefined);
  return () => {
    stopped = true;
    return running;
  };
}

async function treeOf(path: string): Promise<{ [name: string]: string }> {
  const names = (await readdir(path)).filter((name) => name !== 'lost+found').toSorted();
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, await hashOf(join(path, name))] as const)));
}

// ---- under a writer --------------------------------------------------------------------------------------------------------------

test(
  'a counter that is written all the while loses nothing in a planned switch, and only what changed goes back',
  { skip: needsRoot },
  async (t) => {
    const engine = await twoNodes(t);
    await engine.volume('db', { size: '300Mi', pool: 'local', node: 'node-1', filesystem: 'xfs' });
    const path = await engine.mount('db');
    await write(join(path, 'content'), { length: 48 * MIB, seed: 21 });
    const content = await hashOf(join(path, 'content'));
    const counting = async (): Promise<() => Promise<number>> => {
      const file = await open(join(path, 'counter'), 'a');
      const stop = untilStopped(async (count) => {
        await file.appendFile(`${count}\n`);
        await file.datasync();
      });
      return async () => {
        const count = await stop();
        await file.close();
        return count;
      };
    };
    const counted = async (): Promise<number> => (await readFile(join(path, 'counter'), 'utf8')).split('\n').length - 1;

    const first = await counting();
    await engine.createMove('there', { volume: 'db', target: 'node-2' });
    await engine.untilBlocked('there', 'WaitingForUnpublish');
    const acknowledged = await first();
    await engine.unmount('db');
    const there = await engine.until(Moves, 'there', ({ status }) => status?.incoming?.scrub?.state === 'Passed');
    await engine.mount('db');
    assert.equal(await counted(), acknowledged);
    assert.ok(Number(there.status?.incoming?.bytesSent) >= 48 * MIB);

    const second = await counting();
    await engine.createMove('back', { volume: 'db', target: 'node-1' });
    await engine.untilBlocked('back', 'WaitingForUnpublish');
    const more = await second();
    await engine.unmount('db');
    const back = await engine.untilPhase('back', 'Retaining');
    await engine.mount('db');
    assert.equal(await counted(), acknowledged + more);
    assert.equal(await hashOf(join(path, 'content')), content);
    assert.equal(back.status?.reused, true);
    assert.ok(Number(back.status?.incoming?.bytesSent) < 16 * MIB, `${back.status?.incoming?.bytesSent} bytes went back`);
    assert.equal((await engine.client.get(Volumes, 'db')).spec.node, 'node-1');
    assert.equal((await engine.untilPhase('there', 'Done')).status?.phase, 'Done');
    await engine.endsClean();
  },
);

test(
  'files that are appended to and renamed during the rounds arrive as they were at the unmount; a writer that stays keeps the source',
  { skip: needsRoot },
  async (t) => {
    const engine = await twoNodes(t);
    await engine.volume('db', { size: '64Mi', pool: 'local', node: 'node-1' });
    const path = await engine.mount('db');
    const stop = untilStopped(async (count) => {
      await appendFile(join(path, `log-${count % 7}`), `line ${count} `.repeat(200));
      await rename(join(path, `log-${count % 7}`), join(path, `log-${(count + 3) % 7}`)).catch(() => undefined);
    });
    await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
    const ready = await engine.untilBlocked('db-1', 'WaitingForUnpublish');
    assert.equal(
      ready.status?.obstacle?.message,
      `ready: stop the application and unmount the volume at ${path} on node node-1 (flockctl volume unmount db)`,
    );
    const writer = await open(join(path, 'held'), 'w');
    await assert.rejects(engine.unmount('db'), (error) => {
      assert.ok(isReason(error, 'InUse'), String(error));
      assert.match(error.message, new RegExp(`is busy: used by .*process ${process.pid} `, 'u'));
      return true;
    });
    assert.equal((await engine.client.get(Moves, 'db-1')).status?.phase, 'ReadyToCutOver');
    await writer.close();
    await stop();
    const before = await treeOf(path);
    await engine.unmount('db');
    await engine.untilPhase('db-1', 'Retaining');
    await engine.mount('db');
    assert.deepEqual(await treeOf(path), before);
    await engine.endsClean();
  },
);

test('after a large first round, four appended kilobytes cost a small one', { skip: needsRoot }, async (t) => {
  const engine = await twoNodes(t);
  await engine.volume('db', { size: '128Mi', pool: 'local', node: 'node-1' });
  const path = await engine.mount('db');
  await write(join(path, 'big'), { length: 64 * MIB, seed: 8 });
  await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
  await engine.untilBlocked('db-1', 'WaitingForUnpublish');
  await appendFile(join(path, 'big'), Buffer.alloc(4096, 'x'));
  const hash = await hashOf(join(path, 'big'));
  await engine.unmount('db');
  const { status } = await engine.untilPhase('db-1', 'Retaining');
  const [first = 0, ...later] = (status?.incoming?.rounds ?? []).map(Number);
  assert.ok(first >= 64 * MIB && later.length > 0);
  for (const size of later) assert.ok(size < 8 * MIB, `a later round of ${size} bytes`);
  await engine.mount('db');
  assert.equal(await hashOf(join(path, 'big')), hash);
  await engine.endsClean();
});

/** Dirties two megabytes again and again, so that no round gets small. */
function dirtying(device: string): () => Promise<number> {
  return untilStopped((count) => write(device, { offset: (count % 4) * 2 * MIB, length: 2 * MIB, seed: count }));
}

const STALLED: { stallPolicy: NonNullable<MoveSpec['stallPolicy']>; check: (engine: Engine, move: string) => Promise<void> }[] = [
  {
    stallPolicy: 'Wait',
    check: async (engine, move) => {
      const { status } = await engine.untilBlocked(move, 'PauseTooLong');
      assert.match(status?.obstacle?.message ?? '', /would stop the application for about \d+ s, 0\.001 s are allowed; allow more/u);
    },
  },
  { stallPolicy: 'CutOver', check: async (engine, move) => void (await engine.untilBlocked(move, 'WaitingForUnpublish')) },
  {
    stallPolicy: 'Abort',
    check: async (engine, move) => {
      const { status } = await engine.untilPhase(move, 'Failed');
      assert.equal(status?.obstacle?.reason, 'Stalled');
    },
  },
];

test('rounds that do not get smaller end as the policy says', { skip: needsRoot }, async (t) => {
  const engine = await twoNodes(t);
  for (const { stallPolicy, check } of STALLED)
    await t.test(stallPolicy, async () => {
      const name = stallPolicy.toLowerCase();
      await engine.volume(name, { size: '16Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
      const device = await engine.mount(name);
      const stop = dirtying(device);
      await engine.createMove(`move-${name}`, { volume: name, target: 'node-2', allowedPause: '1ms', stallPolicy });
      await check(engine, `move-${name}`);
      await stop();
      const hash = await hashOf(device);
      // With nothing written any more the next idle round makes the rest fit.
      if (stallPolicy !== 'Abort') await engine.untilBlocked(`move-${name}`, 'WaitingForUnpublish');
      await engine.unmount(name);
      if (stallPolicy !== 'Abort') await engine.untilPhase(`move-${name}`, 'Retaining');
      assert.equal(await hashOf(await engine.mount(name)), hash);
    });
  await engine.endsClean();
});

// ---- progress and its limits -----------------------------------------------------------------------------------------------------

test(
  'a limited move shows what is done and left, how fast, until when, and why it waits; a new limit holds at once',
  { skip: needsRoot },
  async (t) => {
    const engine = await twoNodes(t);
    await engine.volume('db', { size: '24Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
    const device = await engine.mount('db');
    await write(device, { length: 24 * MIB, seed: 5 });
    const hash = await hashOf(device);
    await engine.createMove('db-1', { volume: 'db', target: 'node-2', bandwidth: '2Mi' });
    const { status } = await engine.until(Moves, 'db-1', (move) => Number(move.status?.incoming?.bytesDone ?? 0) > MIB);
    const { bytesTotal, bytesDone, bytesLeft, bytesSent, rate = 0, etaSeconds = 0, round } = status?.incoming ?? {};
    assert.equal(status?.phase, 'Syncing');
    assert.equal(bytesTotal, String(24 * MIB));
    assert.equal(Number(bytesDone) + Number(bytesLeft), 24 * MIB);
    assert.ok(Number(bytesDone) < 12 * MIB, 'the limit holds');
    assert.ok(Number(bytesSent) > 0 && rate > 0 && etaSeconds > 0, JSON.stringify(status.incoming));
    assert.equal(round, 0);
    await engine.client.patch(Moves, 'db-1', { spec: { bandwidth: '0' } });
    const ready = await engine.untilBlocked('db-1', 'WaitingForUnpublish');
    assert.equal(ready.status?.incoming?.bytesSent, String(24 * MIB));
    await engine.untilTold('db-1', ({ reason, message }) => reason === 'RoundCopied' && /round 0: 25165824 bytes sent/u.test(message));
    await engine.untilTold('db-1', ({ reason }) => reason === 'WaitingForUnpublish');
    await engine.unmount('db');
    await engine.untilPhase('db-1', 'Retaining');
    assert.equal(await hashOf(await engine.mount('db')), hash);
    await engine.endsClean();
  },
);

test('three moves between two nodes run one after the other, and all arrive', { skip: needsRoot }, async (t) => {
  const engine = await twoNodes(t);
  const names = ['a', 'b', 'c'];
  for (const name of names) await engine.volume(name, { size: '16Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
  const copying = new Set<string>();
  let most = 0;
  const watching = new AbortController();
  const { resourceVersion } = await engine.client.list(Moves);
  const watched = (async () => {
    for await (const event of engine.client.watch(Moves, { resourceVersion, signal: watching.signal })) {
      if (event.type === 'BOOKMARK') continue;
      copying[isCopying(event.object) ? 'add' : 'delete'](event.object.metadata.name);
      most = Math.max(most, copying.size);
    }
  })();
  await Promise.all(names.map((name) => engine.createMove(`move-${name}`, { volume: name, target: 'node-2' })));
  await engine.untilBlocked('move-c', 'Queued');
  for (const name of names) await engine.untilPhase(`move-${name}`, 'Retaining');
  watching.abort();
  await watched;
  assert.equal(most, 1);
  await engine.untilTold('move-c', ({ reason, message }) => reason === 'Queued' && message.includes('at most 1 at once'));
  await engine.endsClean();
});

test('a second move of a volume waits for the first, and then goes from where that put it', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1', 'node-2', 'node-3'], filesystem: XFS });
  await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
  const device = await engine.mount('db');
  await write(device, { length: 4 * MIB, seed: 5 });
  const hash = await hashOf(device);
  await engine.createMove('first', { volume: 'db', target: 'node-2' });
  await engine.untilBlocked('first', 'WaitingForUnpublish');
  await engine.createMove('second', { volume: 'db', target: 'node-3' });
  const { status } = await engine.untilBlocked('second', 'Queued');
  assert.equal(status?.obstacle?.message, 'move first of the same volume comes first');
  await engine.unmount('db');
  const moved = await engine.untilPhase('second', 'Retaining');
  assert.equal(moved.status?.source?.node, 'node-2');
  assert.equal((await engine.client.get(Volumes, 'db')).spec.node, 'node-3');
  assert.equal(await hashOf(await engine.mount('db')), hash);
  await engine.endsClean();
});

test('a source that is kept for a moment only is wiped after the scrub, and the move is done', { skip: needsRoot }, async (t) => {
  const engine = await twoNodes(t);
  await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1', volumeMode: 'Block', retainSource: '1s', wipe: 'zero' });
  const device = await engine.mount('db');
  await write(device, { length: 4 * MIB, seed: 5 });
  const hash = await hashOf(device);
  await engine.unmount('db');
  await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
  const { status } = await engine.untilPhase('db-1', 'Done');
  assert.equal(status?.incoming?.scrub?.state, 'Passed');
  assert.deepEqual(
    (await readdir(engine.pool('node-1'))).filter((name) => !name.startsWith('.flock-')),
    ['journals'],
  );
  const volume = await engine.client.get(Volumes, 'db');
  assert.deepEqual(Object.keys(volume.status?.copies ?? {}), [volume.spec.copy]);
  assert.equal(await hashOf(await engine.mount('db')), hash);
  await engine.endsClean();
});

// ---- every kind of pool ----------------------------------------------------------------------------------------------------------

test(
  'without reflinks a mounted volume is told the pause before anything stops, and moves once that is allowed',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: { type: 'ext4', size: 128n << 20n } });
    assert.equal((await engine.client.get(StorageNodes, 'node-1')).status?.pools?.['local']?.points, false);
    await engine.volume('db', { size: '32Mi', pool: 'local', node: 'node-1' });
    const path = await engine.mount('db');
    await write(join(path, 'content'), { length: 8 * MIB, seed: 5 });
    await engine.createMove('db-1', { volume: 'db', target: 'node-2', allowedPause: '1ms' });
    const { status } = await engine.untilBlocked('db-1', 'PauseTooLong');
    assert.equal(status?.phase, 'Syncing');
    await write(join(path, 'late'), { length: MIB, seed: 6 });
    await engine.client.patch(Moves, 'db-1', { spec: { allowedPause: '5m' } });
    await engine.untilBlocked('db-1', 'WaitingForUnpublish');
    const before = await treeOf(path);
    await engine.unmount('db');
    const moved = await engine.until(Moves, 'db-1', (move) => move.status?.incoming?.scrub !== undefined);
    assert.equal(moved.status?.incoming?.scrub?.state, 'Impossible');
    await engine.mount('db');
    assert.deepEqual(await treeOf(path), before);
    await engine.endsClean();
  },
);

test('without reflinks a volume that nobody uses is copied once', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: { type: 'ext4', size: 128n << 20n } });
  await engine.volume('db', { size: '32Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
  const device = await engine.mount('db');
  await write(device, { length: 8 * MIB, offset: 4 * MIB, seed: 5 });
  const hash = await hashOf(device);
  await engine.unmount('db');
  // The record has to say that nobody uses it: the agent writes that after the unmount.
  await engine.until(Volumes, 'db', (volume) => volume.status?.phase === 'Available');
  await engine.createMove('db-1', { volume: 'db', target: 'node-2', allowedPause: '1ms' });
  const { status } = await engine.untilPhase('db-1', 'Retaining');
  assert.deepEqual(status?.incoming?.rounds?.length, 1);
  assert.equal(status?.incoming?.bytesSent, String(8 * MIB));
  assert.equal(await hashOf(await engine.mount('db')), hash);
  await engine.endsClean();
});

test('on btrfs a mounted block volume moves in rounds and comes back as a delta', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: { type: 'btrfs', size: 512n << 20n } });
  await engine.volume('db', { size: '32Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
  const device = await engine.mount('db');
  await write(device, { length: 16 * MIB, seed: 5 });
  await engine.createMove('there', { volume: 'db', target: 'node-2' });
  await engine.untilBlocked('there', 'WaitingForUnpublish');
  await write(device, { length: MIB, offset: 20 * MIB, seed: 6 });
  const hash = await hashOf(device);
  await engine.unmount('db');
  const { status } = await engine.until(Moves, 'there', (move) => move.status?.incoming?.scrub?.state === 'Passed');
  assert.equal(status?.incoming?.bytesSent, String(17 * MIB));
  assert.equal(await hashOf(await engine.mount('db')), hash);
  await engine.unmount('db');
  await engine.createMove('back', { volume: 'db', target: 'node-1' });
  const back = await engine.untilPhase('back', 'Retaining');
  assert.equal(back.status?.incoming?.bytesSent, '0');
  assert.equal(await hashOf(await engine.mount('db')), hash);
  await engine.endsClean();
});

// ---- the way of the bytes --------------------------------------------------------------------------------------------------------

test(
  'bytes take the transfer network; one that is only preferred is done without, one that is required is not',
  { skip: needsRoot },
  async (t) => {
    const NETWORKS: { [node: string]: object } = {
      // lo has this one: it goes before the address to listen on.
      'node-1': { network: { cidr: '127.0.0.0/8', policy: 'required' }, listen: { host: '127.0.0.9', port: 0 } },
      // Nobody has this one.
      'node-2': { network: { cidr: '203.0.113.0/24', policy: 'preferred' }, listen: { host: '127.0.0.3', port: 0 } },
    };
    const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: XFS, agent: (node) => NETWORKS[node] ?? {} });
    await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
    engine.held.add('fence');
    await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
    const { status } = await engine.until(StorageNodes, 'node-1', (node) => node.status?.transfer !== undefined);
    assert.equal(status?.transfer?.address, '127.0.0.1');
    await engine.letGo();
    await engine.untilPhase('db-1', 'Retaining');
    assert.ok(engine.log.lines.some(({ message }) => message === 'ended: the target at 127.0.0.3 closed the connection'));
    await engine.stopAgent('node-2');
    const required = { network: { cidr: '203.0.113.0/24', policy: 'required' } } as const;
    await assert.rejects(engine.startAgent('node-2', required), (error) => {
      assert.ok(isReason(error, 'Unavailable'), String(error));
      assert.match(
        error.message,
        /^no address of this host is in the transfer network 203\.0\.113\.0\/24, which is required; it has 127\.0\.0\.1/u,
      );
      return true;
    });
    await assert.rejects(
      engine.startAgent('node-2', { network: { cidr: '10.0.0.0/99', policy: 'required' } }),
      (error: Error) => isReason(error, 'Invalid') && /write it like 10\.1\.0\.0\/16/u.test(error.message),
    );
    await engine.startAgent('node-2');
    await engine.endsClean();
  },
);

for (const [address, says] of [
  ['0.0.0.0', /node node-1 says that it serves volume data at 0\.0\.0\.0, which is no address to reach it at: start the agent/u],
  ['127.0.0.77', /node-1.*ECONNREFUSED 127\.0\.0\.77:/u],
] as const)
  test(
    `a move whose source is told to be at ${address} says that it cannot reach it there, and goes on when it can`,
    { skip: needsRoot },
    async (t) => {
      let isBent = true;
      const read: Bend['read'] = (kind, object) => {
        const { status } = object as StorageNode;
        if (!isBent || kind.kind !== 'StorageNode' || !status?.transfer) return object;
        return { ...object, status: { ...status, transfer: { ...status.transfer, address } } } as typeof object;
      };
      const engine = await startEngine(t, {
        nodes: ['node-1', 'node-2'],
        filesystem: XFS,
        agent: (node, client) => (node === 'node-2' ? { client: new BentClient(client, { read }) } : {}),
      });
      await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
      await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
      const blocked = await engine.untilBlocked('db-1', 'Unavailable');
      assert.match(blocked.status?.obstacle?.message ?? '', says);
      isBent = false;
      // Another look at the node: watches tell of changes only.
      await engine.client.patch(StorageNodes, 'node-1', { metadata: { annotations: { 'flock.dev/test': 'again' } } });
      await engine.untilPhase('db-1', 'Retaining');
      await engine.endsClean();
    },
  );

test('one folder has one agent', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1'] });
  const elsewhere = await temporaryFolder(t);
  await assert.rejects(engine.startAgent('node-1', { socket: join(elsewhere, 's') }), (error) => isReason(error, 'Conflict'));
  await rm(elsewhere, { recursive: true });
  await engine.endsClean();
});
