// Where a volume may be mounted: nothing is hidden by it, and a mount that failed leaves nothing behind.
import assert from 'node:assert/strict';
import { mkdir, readdir, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { flockctl } from '../testing/cli.ts';
import { fakePrograms } from '../testing/devices.ts';
import { startEngine } from '../testing/engine.ts';
import { needsRoot } from '../testing/folders.ts';

test('a volume is mounted only where it hides nothing', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1'], pool: { overcommit: 'unlimited' } });
  await engine.volume('db', { size: '16Mi', pool: 'local' });
  await engine.volume('other', { size: '16Mi', pool: 'local' });
  const { folder } = engine;
  const pool = engine.pool('node-1');
  await mkdir(join(folder, 'full'));
  await writeFile(join(folder, 'full', 'a-file'), 'precious');
  await writeFile(join(folder, 'full', 'b-file'), '');
  await writeFile(join(folder, 'file'), '');
  await symlink(folder, join(folder, 'link'));
  await engine.mount('other', join(folder, 'taken'));
  const cases: [what: string, target: string, code: number, says: RegExp][] = [
    ['nothing', '', 2, /the mount point is empty/u],
    ['the whole machine', '/', 2, /\/ cannot be a mount point: it would hide .*, where this node keeps its own files/u],
    ["the cluster's folder", folder, 2, /would hide .*node-1, where this node keeps its own files/u],
    ["the node's folder", join(folder, 'node-1'), 2, /would hide/u],
    ['a folder in it', join(folder, 'node-1', 'mnt'), 2, /is inside .*node-1, where only this node's own files belong/u],
    ['a pool', pool, 2, /would hide/u],
    ['a folder in a pool', join(pool, 'mnt'), 2, /is inside/u],
    ['what has a pool in it', engine.disk('node-1'), 2, /would hide/u],
    ['a file', join(folder, 'file'), 2, /is no folder/u],
    ['a path below a file', join(folder, 'file', 'mnt'), 2, /a part of the path is no folder/u],
    ['a link', join(folder, 'link'), 2, /is a symbolic link/u],
    ['a pool by way of a link', join(folder, 'link', 'node-1'), 2, /would hide/u],
    ['a folder with something in it', join(folder, 'full'), 4, /is not empty: a-file and 1 more would be hidden/u],
    ["another volume's", join(folder, 'taken'), 4, /is where copy .* is published/u],
    ['a mount of somebody else', '/proc', 4, /\/proc is taken by a mount of proc/u],
  ];
  for (const [what, target, code, says] of cases)
    await t.test(what, async () => {
      const ran = await flockctl(['volume', 'mount', 'db', target], { client: engine.client });
      assert.equal(ran.code, code, ran.err);
      assert.match(ran.err, says);
    });
  assert.deepEqual((await readdir(folder)).toSorted(), ['file', 'full', 'link', 'node-1', 'taken'], 'nothing was made');
  await engine.endsClean();
});

test('a mount that fails takes back the folders that were made for it, and no others', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1'], pool: { overcommit: 'unlimited' } });
  await engine.volume('db', { size: '16Mi', pool: 'local' });
  await engine.volume('raw', { size: '16Mi', pool: 'local', volumeMode: 'Block' });
  const there = join(engine.folder, 'there');
  await mkdir(there);
  const restore = await fakePrograms(t, { mount: 'echo no such luck >&2; exit 32' });
  for (const [volume, target] of [
    ['db', join(there, 'a', 'b')],
    ['db', there],
    ['raw', join(there, 'c', 'device')],
  ] as const) {
    const ran = await flockctl(['volume', 'mount', volume, target], { client: engine.client });
    assert.notEqual(ran.code, 0);
    assert.deepEqual(await readdir(there), []);
  }
  restore();
  assert.ok((await stat(there)).isDirectory());
  await engine.endsClean();
});
