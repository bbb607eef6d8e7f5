// A node that is measured: figures of its disks and its wire, and nothing left of it.
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { StorageNodes } from '../model/storage-node.ts';
import { flockctl, start } from '../testing/cli.ts';
import { startEngine } from '../testing/engine.ts';

test('disks, hash and wire are measured, what bounds a move is said, and nothing is left', async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1', 'node-2'] });
  const { client } = engine;
  await engine.volume('db', { size: '16Mi', node: 'node-1' });
  const before = await readdir(engine.pool('node-1'), { recursive: true });
  const words = ['bench', 'node-1', '--to', 'node-2', '--volume', 'db', '--seconds', '1'];
  const asked = await flockctl([...words, '-o', 'json'], { client });
  assert.equal(asked.code, 0, asked.err);
  const { node, to, pools, hash, wire, estimate } = JSON.parse(asked.out) as { [field: string]: unknown };
  assert.deepEqual([node, to], ['node-1', 'node-2']);
  const [pool] = Object.values(pools as { [name: string]: { read: number; write: number } });
  for (const rate of [pool?.read, pool?.write, hash, wire]) assert.ok(Number(rate) > 0, asked.out);
  assert.ok((estimate as { seconds: number }).seconds >= 0);
  assert.deepEqual(await readdir(engine.pool('node-1'), { recursive: true }), before);
  assert.equal((await client.get(StorageNodes, 'node-2')).spec?.measure, undefined);
  await engine.until(StorageNodes, 'node-2', ({ status }) => status?.transfer === undefined);
  await engine.endsClean();
});

test('who interrupts it leaves nothing either, and it can be asked again', async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1', 'node-2'] });
  const { client } = engine;
  const running = start(['bench', 'node-1', '--to', 'node-2', '--seconds', '5'], { client });
  await engine.until(StorageNodes, 'node-2', ({ status }) => status?.transfer !== undefined);
  running.interrupt();
  assert.equal((await running.done).code, 130);
  assert.equal((await client.get(StorageNodes, 'node-2')).spec?.measure, undefined);
  await engine.until(StorageNodes, 'node-2', ({ status }) => status?.transfer === undefined);
  const again = await flockctl(['bench', 'node-1', '--seconds', '1'], { client });
  assert.match(again.out, /hashing, one processor +\d/u, again.err);
  await engine.endsClean();
});

test('a node whose agent is elsewhere, a wire to itself, and one that nobody let in are refused in words', async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1', 'node-2'] });
  const { client } = engine;
  const itself = await flockctl(['bench', 'node-1', '--to', 'node-1'], { client });
  assert.match(itself.err, /no wire to itself/u);
  const unlet = await (await engine.agent('node-1')).bench({ seconds: 1, to: 'node-2' }, new AbortController().signal);
  assert.match(JSON.stringify(unlet.wire), /node node-2 does not say where it serves/u);
  await client.patch(StorageNodes, 'node-2', { spec: { measure: { by: 'node-9', until: new Date(Date.now() + 60_000).toISOString() } } });
  await engine.until(StorageNodes, 'node-2', ({ status }) => status?.transfer !== undefined);
  const other = await (await engine.agent('node-1')).bench({ seconds: 1, to: 'node-2' }, new AbortController().signal);
  assert.match(JSON.stringify(other.wire), /node node-1 may not measure the wire to node node-2/u);
  await client.patch(StorageNodes, 'node-2', { spec: { measure: null } });
  await engine.stopAgent('node-1');
  const away = await flockctl(['bench', 'node-1'], { client });
  assert.match(away.err, /what is to be measured is on node node-1|does not answer/u);
  await engine.startAgent('node-1');
  await engine.endsClean();
});
