// What flockctl node show tells of a node's pools: what lies there and is not served, by name and with the way out.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StorageNodes } from '../model/storage-node.ts';
import { Volumes } from '../model/volume.ts';
import { flockctl, pool, putNode, putVolume, records } from '../testing/cli.ts';

test('damaged copies are named with their volume and what is wrong; copies without a volume and foreign files apart from them', async () => {
  const client = records();
  const { metadata, spec } = await putVolume(client, 'db');
  const obstacle = { reason: 'CopyDamaged', message: 'the image is gone' };
  const copies = { [spec.copy ?? '']: { node: 'node-1', pool: 'local', role: 'active' as const, obstacle } };
  await client.patch(Volumes, 'db', { status: { copies } }, { subresource: 'status' });
  await putNode(client, 'node-1', {
    pools: { local: pool({ damaged: [`${metadata.uid}-${spec.copy}`, 'old-one'], orphaned: { gone: 'files' }, foreign: ['holiday.jpg'] }) },
  });
  const { out } = await flockctl(['node', 'show', 'node-1'], { client });
  assert.match(
    out,
    new RegExp(
      `Damaged copies.*:\n  local: ${metadata.uid}-${spec.copy} \\(of db\\): the image is gone\n  local: old-one \\(of no known volume\\)`,
      'u',
    ),
  );
  assert.match(out, /Copies without a volume .*restore their records.*:\n  local: gone \(of files\)/u);
  assert.match(out, /Not ours, never touched:\n  local: holiday\.jpg/u);
});

test('where no move needs bytes of a node, its listener is said to be closed', async () => {
  const client = records();
  await putNode(client, 'node-1');
  await client.patch(StorageNodes, 'node-1', { status: { transfer: null } }, { subresource: 'status' });
  assert.match((await flockctl(['node', 'show', 'node-1'], { client })).out, /^Transfer: +closed: no move needs bytes of this node now$/mu);
  assert.match((await flockctl(['node', 'list'], { client })).out, /^node-1 .* closed /mu);
});

test('of a node where nothing lies that is not served, none of this is told', async () => {
  const client = records();
  await putNode(client, 'node-1');
  const { out } = await flockctl(['node', 'show', 'node-1'], { client });
  assert.doesNotMatch(out, /Damaged|without a volume|Not ours/u);
});
