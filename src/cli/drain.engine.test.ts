// A node is drained by the command that people type: its volumes are elsewhere afterwards, whole, and it takes none; or it is taken back.
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Moves } from '../model/move.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { Volumes } from '../model/volume.ts';
import { flockctl, start, whenWritten } from '../testing/cli.ts';
import { startEngine } from '../testing/engine.ts';
import { needsRoot } from '../testing/folders.ts';

const skip = needsRoot;
const NODES = ['node-1', 'node-2', 'node-3'];

test('a drained node has no volume any more, waits for those in use, and takes none until it is taken back', { skip }, async (t) => {
  const engine = await startEngine(t, { nodes: NODES, filesystem: { type: 'xfs', size: 400n << 20n } });
  const { client } = engine;
  for (const name of ['a', 'b']) await engine.volume(name, { size: '100Mi', pool: 'local', node: 'node-1' });
  const at = await engine.mount('a');
  await writeFile(join(at, 'kept'), 'here', { flush: true });
  const draining = start(['node', 'drain', 'node-1'], { client });
  await whenWritten(draining, 'WaitingForUnpublish');
  const refused = await flockctl(['volume', 'create', 'c', '--size', '16Mi', '--node', 'node-1'], { client });
  assert.equal(refused.code, 4);
  assert.match(refused.err, /node node-1 is being drained; choose another node/u);
  await engine.unmount('a');
  const done = await draining.done;
  assert.deepEqual(
    [done.code, done.out],
    [
      0,
      'node node-1 is drained: no volume depends on node node-1 any more. It takes no volumes until: flockctl node drain node-1 --cancel\n',
    ],
  );
  const { items } = await client.list(Volumes);
  assert.deepEqual(
    items.filter(({ spec }) => spec.node === 'node-1'),
    [],
  );
  assert.equal(await readFile(join(await engine.mount('a'), 'kept'), 'utf8'), 'here');
  assert.match((await flockctl(['node', 'show', 'node-1'], { client })).out, /^Drain: +done: no volume depends/mu);
  assert.equal((await flockctl(['node', 'drain', 'node-1', '--cancel'], { client })).out, 'node node-1 is not drained any more\n');
  await engine.until(StorageNodes, 'node-1', ({ status }) => status?.drain === undefined);
  await engine.volume('c', { size: '16Mi', pool: 'local', node: 'node-1' });
  await engine.endsClean();
});

test('a drain that is taken back cancels its moves, and the volume stays in use', { skip }, async (t) => {
  const engine = await startEngine(t, { nodes: NODES, filesystem: { type: 'xfs', size: 400n << 20n } });
  const { client } = engine;
  await engine.volume('a', { size: '100Mi', pool: 'local', node: 'node-1' });
  const at = await engine.mount('a');
  assert.equal((await flockctl(['node', 'drain', 'node-1', '--no-wait'], { client })).code, 0);
  await engine.untilPhase('a-drain-1', 'ReadyToCutOver');
  const taken = await flockctl(['node', 'drain', 'node-1', '--cancel'], { client });
  assert.equal(taken.out, 'node node-1 is not drained any more; cancelled: a-drain-1\n');
  await engine.until(Moves, 'a-drain-1', ({ status }) => status?.phase === 'Cancelled');
  await writeFile(join(at, 'still'), 'writable', { flush: true });
  assert.equal((await client.get(Volumes, 'a')).spec.node, 'node-1');
  await engine.endsClean();
});
