import assert from 'node:assert/strict';
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { beMounted, beUnmounted } from '../host/mounts.ts';
import { needsRoot, temporaryFilesystem, temporaryFolder } from '../testing/folders.ts';
import { aCopy } from '../testing/labels.ts';
import { rejects } from './contract-world.ts';
import { beInitialised } from './image-marker.ts';
import { openPool } from './open.ts';

const MiB = 1n << 20n;
const skip = needsRoot;
const configuration = (path: string) => ({ name: 'local', type: 'image', path }) as const;

test('a folder is marked once, and is that pool from then on', async (t) => {
  const folder = await temporaryFolder(t);
  const path = join(folder, 'pool');
  const uuid = await beInitialised(path);
  await rejects(
    beInitialised(join(folder, 'wrong', 'pool')),
    'NotPermitted',
    /cannot be made .*: mount its filesystem or correct its path/u,
  );
  assert.equal(await beInitialised(path), uuid);
  assert.equal((await openPool(configuration(path), { uuid })).uuid, uuid);
  assert.equal((await openPool(configuration(path), { uuid: null })).uuid, uuid);
});

test('a pool that was known is never made anew: not in an empty folder, not in a missing one', async (t) => {
  const folder = await temporaryFolder(t);
  const uuid = '11111111-2222-4333-8444-555555555555';
  await mkdir(join(folder, 'empty'));
  for (const path of [join(folder, 'empty'), join(folder, 'missing')]) {
    await rejects(openPool(configuration(path), { uuid }), 'NotPermitted', /[Mm]ount/u);
  }
  assert.deepEqual(await readdir(folder), ['empty']);
  assert.deepEqual(await readdir(join(folder, 'empty')), []);
});

test('another pool’s folder is refused by its UUID', async (t) => {
  const path = await temporaryFolder(t);
  await beInitialised(path);
  await rejects(openPool(configuration(path), { uuid: '11111111-2222-4333-8444-555555555555' }), 'NotPermitted', /is another disk/u);
});

test('a damaged marker is no marker to be replaced', async (t) => {
  const path = await temporaryFolder(t);
  await writeFile(join(path, '.flock-pool.json'), '{"version":1,"uu');
  await rejects(openPool(configuration(path), { uuid: null }), 'Corrupt', /not a pool's marker/u);
  assert.equal(await readFile(join(path, '.flock-pool.json'), 'utf8'), '{"version":1,"uu');
});

test(
  'unmounted after it was opened, everything that writes is refused, nothing lands on the disk below, and it works again when mounted',
  { skip },
  async (t) => {
    const { path, device } = await temporaryFilesystem(t, { type: 'xfs', size: 320n * MiB });
    const pool = await openPool(configuration(path), { uuid: null });
    const { name, label } = aCopy();
    await pool.create(name, 4n * MiB, label);
    await beUnmounted(path);
    const other = aCopy('b2');
    const asked = [
      () => pool.verify(),
      () => pool.scan(),
      () => pool.room(),
      () => pool.create(other.name, MiB, other.label),
      () => pool.grow(name, 8n * MiB),
      () => pool.relabel(name, label),
      () => pool.remove(name, 'none'),
      () => pool.freeze(name, 'p1'),
      () => pool.attach(name),
      () => pool.hold(name),
      () => pool.open(name, 'live', 'write'),
    ];
    for (const ask of asked) await rejects(ask(), 'NotPermitted', /has no \.flock-pool\.json.*Is its filesystem mounted/u);
    await rejects(openPool(configuration(path), { uuid: pool.uuid }), 'NotPermitted');
    assert.deepEqual(await readdir(path), []);
    await beMounted(device, path, 'xfs', false);
    await pool.verify();
    assert.equal((await pool.scan()).copies.length, 1);
  },
);

test('a marker that was copied to another filesystem does not make that one the pool', { skip }, async (t) => {
  const { path } = await temporaryFilesystem(t, { type: 'xfs', size: 320n * MiB });
  const other = await temporaryFilesystem(t, { type: 'ext4', size: 32n * MiB });
  const uuid = await beInitialised(path);
  await cp(join(path, '.flock-pool.json'), join(other.path, '.flock-pool.json'));
  await rejects(openPool(configuration(other.path), { uuid }), 'NotPermitted', /another filesystem than that pool was made on/u);
});

test('another filesystem mounted over a pool that is open is noticed', { skip }, async (t) => {
  const { path } = await temporaryFilesystem(t, { type: 'xfs', size: 320n * MiB });
  const other = await temporaryFilesystem(t, { type: 'ext4', size: 32n * MiB });
  const pool = await openPool(configuration(path), { uuid: null });
  await pool.verify();
  const marker = await readFile(join(path, '.flock-pool.json'), 'utf8');
  await writeFile(join(other.path, '.flock-pool.json'), marker);
  await beUnmounted(path);
  await beMounted(other.device, path, 'ext4', false);
  await rejects(pool.verify(), 'NotPermitted', /another filesystem/u);
});

test('what a killed probe of the folder left is nobody’s business', async (t) => {
  const path = await temporaryFolder(t);
  const pool = await openPool(configuration(path), { uuid: null });
  await writeFile(join(path, '.flock-probe-1-a.new'), '');
  assert.deepEqual((await pool.scan()).foreign, []);
  await rm(path, { recursive: true });
  await rejects(pool.verify(), 'NotPermitted', /is not there/u);
});
