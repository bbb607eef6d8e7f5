// The agent's small parts: its file of publications, what it knows of its pools.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { memoryDisk, MemoryPool } from '../pools/memory.ts';
import { temporaryFolder } from '../testing/folders.ts';
import { aCopy } from '../testing/labels.ts';
import { inventory } from './inventory.ts';
import { openPublications, publicationsIn } from './publications.ts';

test('publications outlive the agent, those that are not mounted any more are forgotten', async (t) => {
  const file = join(await temporaryFolder(t), 'publications.json');
  const mounted = new Set(['/one', '/two']);
  const mounts = { isMounted: async (target: string) => mounted.has(target) };
  const before = await openPublications(file, mounts);
  await before.add('copy', { target: '/one', readOnly: false });
  await before.add('copy', { target: '/two', readOnly: true });
  await before.add('copy', { target: '/one', readOnly: true });
  assert.equal(before.at('/one'), 'copy');
  mounted.delete('/two');
  const after = await openPublications(file, mounts);
  assert.deepEqual(after.of('copy'), [{ target: '/one', readOnly: true }]);
  await after.remove('copy', '/one');
  assert.equal(after.at('/one'), null);
  assert.deepEqual((await openPublications(file, mounts)).of('copy'), []);
});

test('publications are found by their volume after a restart too, without asking what copies there are', async (t) => {
  const file = join(await temporaryFolder(t), 'publications.json');
  const mounts = { isMounted: async () => true };
  const before = await openPublications(file, mounts);
  await before.add('copy', { target: '/one', readOnly: false, volume: 'db' });
  await before.add('other', { target: '/two', readOnly: false, volume: 'files' });
  assert.deepEqual((await openPublications(file, mounts)).ofVolume('db'), [{ copy: 'copy', target: '/one' }]);
});

test('publications of two volumes that come at once are both remembered, whichever write takes longer', async () => {
  let kept: object = {};
  const slow = Promise.withResolvers<void>();
  const writes = [Promise.resolve(), slow.promise, Promise.resolve()];
  const store = {
    read: async () => ({}),
    save: async (all: object) => {
      const text = JSON.stringify(all);
      await writes.shift();
      kept = JSON.parse(text) as object;
    },
  };
  const publications = await publicationsIn(store, { isMounted: async () => true });
  const both = [
    publications.add('one', { volume: 'one', target: '/one', readOnly: false }),
    publications.add('two', { volume: 'two', target: '/two', readOnly: false }),
  ];
  await Promise.race([both[1], new Promise((resolve) => setImmediate(resolve))]);
  slow.resolve();
  await Promise.all(both);
  assert.deepEqual(Object.keys(kept), ['one', 'two']);
});

test('a file of publications that cannot be read is an error that names it, not an empty one', async (t) => {
  const file = join(await temporaryFolder(t), 'publications.json');
  await writeFile(file, '{"half":');
  await assert.rejects(openPublications(file, { isMounted: async () => true }), { reason: 'Corrupt', message: new RegExp(file, 'u') });
});

test('a pool that cannot be read shows neither copies nor their absence, until it is looked at again', async () => {
  const disk = memoryDisk('one', 1n << 30n);
  const pool = new MemoryPool({ name: 'local', disk });
  const seen = inventory(new Map([['local', pool]]));
  const { name, label } = aCopy();
  await pool.create(name, 4096n, label);
  assert.equal((await seen.copies()).length, 1);
  disk.gone = 'another mount';
  assert.equal((await seen.copies()).length, 1, 'as last looked at');
  seen.touched('local');
  assert.deepEqual([await seen.copies(), [...(await seen.readable())]], [[], []]);
  assert.match((await seen.problems()).get('local') ?? '', /another mount/u);
  disk.gone = null;
  seen.touched('local');
  assert.equal((await seen.copies()).length, 1);
});
