// What is special to image files: thick and thin, direct IO after reflinks, filesystems in them, what crashes and people leave.
import assert from 'node:assert/strict';
import { open, readFile, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { beFormatted } from '../host/format.ts';
import { beGrown } from '../host/grow-filesystem.ts';
import { beMounted, beUnmounted } from '../host/mounts.ts';
import { deviceSize } from '../host/syscalls.ts';
import { fakePrograms } from '../testing/devices.ts';
import { needsRoot, temporaryFilesystem, temporaryFolder, type Test } from '../testing/folders.ts';
import { aCopy } from '../testing/labels.ts';
import { readAll, written } from './contract-bytes.ts';
import { rejects } from './contract-world.ts';
import { openPool } from './open.ts';
import type { Pool } from './pool.ts';

const MiB = 1n << 20n;
const skip = needsRoot;

interface Opened {
  pool: Pool;
  path: string;
}

async function poolOn(
  t: Test,
  type: 'xfs' | 'btrfs' | 'ext4',
  settings: { overcommit?: number | 'unlimited'; reserve?: string } = {},
): Promise<Opened> {
  const { path } = await temporaryFilesystem(t, { type, size: 640n * MiB });
  return { path, pool: await openPool({ name: 'local', type: 'image', path, ...settings }, { uuid: null }) };
}

const allocatedOf = async (path: string): Promise<bigint> => (await stat(path, { bigint: true })).blocks * 512n;

const dioOf = async (device: string): Promise<string> => (await readFile(`/sys/class/block/${basename(device)}/loop/dio`, 'utf8')).trim();

for (const filesystem of ['ext4', 'xfs', 'btrfs'] as const)
  test(`a thick file is allocated whole and stays so when ${filesystem} is made in it and ranges are zeroed`, { skip }, async (t) => {
    const { pool, path } = await poolOn(t, 'xfs');
    const { name, label } = aCopy('a1', { filesystem });
    const size = await pool.create(name, 310n * MiB, label);
    const image = join(path, `${name}.img`);
    assert.ok((await allocatedOf(image)) >= size);
    await beFormatted(await pool.attach(name), filesystem, false);
    await pool.detach(name);
    const blocks = await pool.open(name, 'live', 'write');
    await blocks.zero(0n, size);
    await blocks.close();
    assert.ok((await allocatedOf(image)) >= size);
  });

test(
  'a thin file takes room as it is written and gives it back when zeroed; sizes add up to the overcommit and no further',
  { skip },
  async (t) => {
    const { pool, path } = await poolOn(t, 'xfs', { overcommit: 3, reserve: '0' });
    assert.ok(pool.thin);
    const { size, capacity } = await pool.room();
    assert.equal(capacity, size * 3n);
    const { name, label } = aCopy();
    await pool.create(name, size * 2n, label);
    const image = join(path, `${name}.img`);
    assert.ok((await allocatedOf(image)) < MiB);
    const blocks = await pool.open(name, 'live', 'write');
    await blocks.write(written(Number(8n * MiB), 1), 64n * MiB);
    assert.ok((await allocatedOf(image)) >= 8n * MiB);
    await blocks.zero(64n * MiB, 8n * MiB);
    await blocks.close();
    assert.ok((await allocatedOf(image)) < MiB);
    await rejects(pool.create(aCopy('b2').name, size + MiB, label), 'NoSpace');
    await pool.create(aCopy('b2').name, size, label);
  },
);

test('without a limit anything may be promised, until the filesystem is really down to its reserve', { skip }, async (t) => {
  const { pool, path } = await poolOn(t, 'xfs', { overcommit: 'unlimited', reserve: '100Mi' });
  assert.equal((await pool.room()).capacity, null);
  const { name, label } = aCopy();
  await pool.create(name, 1n << 40n, label);
  const { size, used } = await pool.room();
  await using filler = await open(join(path, 'filler'), 'w');
  const chunk = Buffer.alloc(1 << 20, 1);
  for (let left = size - used - 90n * MiB; left > 0n; left -= MiB) await filler.write(chunk);
  await filler.sync();
  assert.equal((await pool.room()).free, 0n);
  await rejects(pool.create(aCopy('b2').name, MiB, label), 'NoSpace');
});

test('what others filled is not promised, and a failed allocation leaves nothing', { skip }, async (t) => {
  const { pool, path } = await poolOn(t, 'ext4');
  await using filler = await open(join(path, 'filler'), 'w');
  const chunk = Buffer.alloc(1 << 20, 1);
  for (let count = 0; count < 500; count += 1) await filler.write(chunk);
  await filler.sync();
  const { name, label } = aCopy();
  await rejects(pool.create(name, 200n * MiB, label), 'NoSpace', /used of|used at/u);
  const { copies, foreign } = await pool.scan();
  assert.deepEqual([copies, foreign], [[], ['filler']]);
});

test('a point is refused when the pool is too full to take what is overwritten meanwhile', { skip }, async (t) => {
  const { pool, path } = await poolOn(t, 'xfs', { reserve: '20%' });
  const { name, label } = aCopy();
  await pool.create(name, 256n * MiB, label);
  const { size, used } = await pool.room();
  await using filler = await open(join(path, 'filler'), 'w');
  const chunk = Buffer.alloc(1 << 20, 1);
  for (let left = size - used - 30n * MiB; left > 0n; left -= MiB) await filler.write(chunk);
  await filler.sync();
  await rejects(pool.freeze(name, 'p1'), 'NoSpace', /a point in time needs/u);
  assert.deepEqual((await pool.scan()).copies[0]?.points, []);
});

test('direct IO is on after the copy was frozen, and after it was attached again', { skip }, async (t) => {
  const { pool } = await poolOn(t, 'xfs');
  const { name, label } = aCopy();
  await pool.create(name, 16n * MiB, label);
  const device = await pool.attach(name);
  assert.equal(await dioOf(device), '1');
  await pool.freeze(name, 'p1');
  assert.equal(await dioOf(device), '1');
  await pool.detach(name);
  assert.equal(await dioOf(await pool.attach(name)), '1');
  await pool.detach(name);
});

test('frozen under a mounted filesystem, the point holds what was synced, and what changed after it is told', { skip }, async (t) => {
  const { pool, path } = await poolOn(t, 'xfs');
  const { name, label } = aCopy('a1', { filesystem: 'ext4' });
  await pool.create(name, 64n * MiB, label);
  const device = await pool.attach(name);
  const target = await temporaryFolder(t);
  await beFormatted(device, 'ext4', false);
  await beMounted(device, target, 'ext4', false);
  const put = async (file: string, seed: number): Promise<void> => {
    await using opened = await open(join(target, file), 'w');
    await opened.write(written(1 << 20, seed));
    await opened.sync();
  };
  await put('before', 1);
  await pool.freeze(name, 'p1');
  await put('after', 2);
  await beUnmounted(target);
  await pool.detach(name);
  const frozen = await readAll(pool, name, 'p1');
  const now = await readAll(pool, name, 'live');
  assert.ok(frozen.includes(written(4096, 1)) && !frozen.includes(written(4096, 2)));
  for await (const { offset, length } of pool.changed(name, 'p1', 'live'))
    now.copy(frozen, Number(offset), Number(offset), Number(offset + length));
  assert.ok(frozen.equals(now));
  assert.ok(path);
});

test('a Block volume grows under its tenant’s filesystem, which is left alone', { skip }, async (t) => {
  const { pool } = await poolOn(t, 'xfs');
  const { name, label } = aCopy('a1', { volumeMode: 'Block' });
  await pool.create(name, 310n * MiB, label);
  const device = await pool.attach(name);
  await beFormatted(device, 'xfs', false);
  const before = (await readAll(pool, name, 'live')).subarray(0, 4096);
  assert.equal(await pool.grow(name, 400n * MiB), 400n * MiB);
  await using opened = await open(device, 'r');
  assert.equal(deviceSize(opened.fd), 400n * MiB);
  assert.ok((await readAll(pool, name, 'live')).subarray(0, 4096).equals(before));
  assert.equal(await pool.grow(name, 400n * MiB), 400n * MiB);
  await opened.close();
  await pool.detach(name);
});

test('a mounted volume grows: file, device and filesystem', { skip }, async (t) => {
  const { pool } = await poolOn(t, 'xfs');
  const { name, label } = aCopy('a1', { filesystem: 'xfs' });
  await pool.create(name, 310n * MiB, label);
  const device = await pool.attach(name);
  const target = await temporaryFolder(t);
  await beFormatted(device, 'xfs', false);
  await beMounted(device, target, 'xfs', false);
  await pool.grow(name, 403n * MiB);
  await beGrown(device, target, 'xfs');
  await beUnmounted(target);
  await pool.detach(name);
});

test('a copy that is mounted is neither detached nor removed, and the error names who uses it', { skip }, async (t) => {
  const { pool } = await poolOn(t, 'xfs');
  const { name, label } = aCopy();
  await pool.create(name, 64n * MiB, label);
  const device = await pool.attach(name);
  const target = await temporaryFolder(t);
  await beFormatted(device, 'ext4', false);
  await beMounted(device, target, 'ext4', false);
  await rejects(pool.detach(name), 'InUse', new RegExp(`mounted at ${target}\\. End`, 'u'));
  await rejects(pool.remove(name, 'none'), 'InUse', /attached as/u);
  await rejects(pool.hold(name), 'InUse');
  await beUnmounted(target);
  await pool.detach(name);
  await pool.remove(name, 'none');
});

test('a copy that another program writes by its file is not held, and the error names it', async (t) => {
  const path = await temporaryFolder(t);
  const pool = await openPool({ name: 'local', type: 'image', path }, { uuid: null });
  const { name, label } = aCopy();
  await pool.create(name, MiB, label);
  const writer = await open(join(path, `${name}.img`), 'r+');
  await rejects(pool.hold(name), 'InUse', new RegExp(`open for writing in process ${process.pid} `, 'u'));
  await writer.close();
  await (await pool.hold(name)).release();
});

test('a losetup that fails leaves the copy free', { skip }, async (t) => {
  const { pool } = await poolOn(t, 'xfs');
  const { name, label } = aCopy();
  await pool.create(name, MiB, label);
  const restore = await fakePrograms(t, { losetup: 'exit 1' });
  await rejects(pool.attach(name), 'Internal', /losetup.*exit code 1/u);
  restore();
  await (await pool.hold(name)).release();
});

test('images and points without a label, and labels that cannot be read, are listed and left', async (t) => {
  const path = await temporaryFolder(t);
  const pool = await openPool({ name: 'local', type: 'image', path }, { uuid: null });
  const [lost, damaged, trace] = ['lost', 'damaged', 'trace'].map((copy) => aCopy(copy).name);
  const files = [`${lost}.img`, `${lost}.p1.point`, `${damaged}.img`, `${damaged}.json`];
  for (const file of files) await writeFile(join(path, file), 'bytes');
  for (const file of [`${trace}.lock`, `${trace}.json.new`]) await writeFile(join(path, file), '');
  const { copies, foreign } = await pool.scan();
  assert.deepEqual([copies, foreign.sort()], [[], files.sort()]);
  for (const file of files) assert.equal(await readFile(join(path, file), 'utf8'), 'bytes');
  await rejects(pool.create(lost ?? '', MiB, aCopy('lost').label), 'AlreadyExists', /without a label/u);
  await rejects(pool.create(damaged ?? '', MiB, aCopy('damaged').label), 'Corrupt', /cannot be read/u);
  await assert.rejects(stat(join(path, `${trace}.lock`)), /ENOENT/u);
});
