import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, open, readFile, rename, stat, statfs, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { run } from '../host/run.ts';
import { noCrash, type CrashPoint } from '../model/crash.ts';
import { needsRoot, temporaryFilesystem, temporaryFolder } from '../testing/folders.ts';
import { aCopy } from '../testing/labels.ts';
import { afterwards } from '../testing/afterwards.ts';
import { ofCopies, worldOfDirectories } from './contract-directories.ts';
import { poolContract } from './contract.ts';
import { rejects } from './contract-world.ts';
import { openDirectoryPool } from './directory.ts';
import { beInitialised } from './image-marker.ts';
import type { Pool } from './pool.ts';

const MiB = 1n << 20n;
const OVERHEAD = 400n << 20n;

for (const type of ['xfs', 'btrfs', 'ext4'] as const)
  poolContract(
    `a pool of directories on ${type}`,
    { points: false, attachable: false, blocks: false, skip: needsRoot },
    async (t, capacity) => {
      const { path, size } = await temporaryFilesystem(t, { type, size: capacity + capacity / 20n + OVERHEAD });
      return worldOfDirectories(path, { size, capacity });
    },
  );

interface World {
  path: string;
  open(crash?: CrashPoint): Promise<Pool>;
}

async function aPool(t: TestContext): Promise<World> {
  const path = await temporaryFolder(t);
  const uuid = await beInitialised(path);
  const policy = { reserve: '0', overcommit: null };
  return { path, open: (crash = noCrash) => openDirectoryPool({ name: 'shared', path, uuid, policy, crash }) };
}

/** A process that did something with a folder and waits for its end. */
async function holder(t: TestContext, script: string, folder: string): Promise<ChildProcess> {
  const child = spawn('sh', ['-c', `${script}; echo ready; exec sleep 60`, 'sh', folder], { stdio: ['ignore', 'pipe', 'inherit'] });
  afterwards(t, () => child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  return child;
}

async function ended(child: ChildProcess): Promise<void> {
  const over = once(child, 'exit');
  child.kill('SIGKILL');
  await over;
}

for (const [title, script] of [
  ['a file open', 'echo x > "$1/file"; exec 3<"$1/file"'],
  ['its working directory there', 'cd "$1"'],
  ['a file open that has no name any more, and another that has', 'echo x > "$1/a"; echo x > "$1/b"; exec 3<"$1/a" 4<"$1/b"; rm "$1/a"'],
] as const)
  test(`whoever has ${title} is named, and keeps out the fence until he ends; readers and transfers of others are kept out by him`, async (t) => {
    const world = await aPool(t);
    const pool = await world.open();
    const { name, label } = aCopy();
    await pool.create(name, MiB, label);
    const child = await holder(t, script, await pool.attach(name));
    const named = new RegExp(`process ${child.pid} \\(`, 'u');
    await rejects(pool.hold(name), 'InUse', named);
    await rejects(pool.remove(name, 'none'), 'InUse', named);
    assert.ok(existsSync(join(world.path, name)), 'it lies where it was');
    await ended(child);
    await (await pool.hold(name)).release();
  });

test(
  'who came by a bind mount in a namespace of his own is found by the mount, and by the inode once that is gone',
  { skip: needsRoot },
  async (t) => {
    const world = await aPool(t);
    const pool = await world.open();
    const { name, label } = aCopy();
    await pool.create(name, MiB, label);
    const folder = await pool.attach(name);
    const elsewhere = await temporaryFolder(t);
    await writeFile(join(folder, 'file'), 'x');
    // Of the mounts of tests that run beside this one none may live on in the namespace: they would find their devices busy.
    const others = `cut -d" " -f5 /proc/self/mountinfo | grep -F /flock- | sort -r | while read -r m; do case "$1" in "$m"/*) ;; *) umount -l "$m" ;; esac; done`;
    const script = (after: string): string =>
      `exec unshare --mount --propagation private sh -c '${others}; mount --bind "$1" "$2"; exec 3<"$2/file"; ${after} echo ready; exec sleep 60' sh "$1" ${elsewhere}`;
    const mounted = spawn('sh', ['-c', script(''), 'sh', folder], { stdio: ['ignore', 'pipe', 'inherit'] });
    afterwards(t, () => mounted.kill('SIGKILL'));
    await once(mounted.stdout, 'data');
    await rejects(pool.detach(name), 'InUse', /mounted at .* for process/u);
    await rejects(pool.openTree!(name, 'write'), 'InUse', /mounted at .* for process/u);
    await rejects(pool.hold(name), 'InUse', /mounted at .* for process/u);
    await ended(mounted);
    const lazy = spawn('sh', ['-c', script('umount --lazy "$2";'), 'sh', folder], { stdio: ['ignore', 'pipe', 'inherit'] });
    afterwards(t, () => lazy.kill('SIGKILL'));
    await once(lazy.stdout, 'data');
    await rejects(pool.hold(name), 'InUse', new RegExp(`process ${lazy.pid} \\(sleep\\) has it open`, 'u'));
    await ended(lazy);
    await (await pool.hold(name)).release();
  },
);

test('a fence takes it out of reach, by its old path too, and it lies there whatever becomes of this process', async (t) => {
  const world = await aPool(t);
  const pool = await world.open();
  const { name, label } = aCopy();
  await pool.create(name, MiB, label);
  const folder = await pool.attach(name);
  await writeFile(join(folder, 'file'), 'x');
  const hold = await pool.hold(name);
  await assert.rejects(open(join(folder, 'file')), { code: 'ENOENT' });
  await pool.relabel(name, { ...label, role: 'retired' });
  await hold.release();
  const next = await world.open();
  const [copy] = (await next.scan()).copies;
  assert.deepEqual([copy?.label.role, copy?.damage], ['retired', undefined]);
  assert.equal(await readFile(join(world.path, 'retired', name, 'file'), 'utf8'), 'x');
  await next.relabel(name, { ...label, epoch: 2 });
  assert.equal(await readFile(join(await next.attach(name), 'file'), 'utf8'), 'x');
});

test('cut off between the rename and the label, the next look puts it back where its label says', async (t) => {
  const world = await aPool(t);
  const { name, label } = aCopy();
  const crashed = await world.open((point) => {
    if (point === 'hold:renamed') throw new Error('crashed');
  });
  await crashed.create(name, MiB, label);
  const rest = await world.open();
  // What a killed process leaves: the lock is gone with it, the directory is not put back.
  await rename(join(world.path, name), join(world.path, 'retired', name));
  const { copies, foreign } = await rest.scan();
  assert.deepEqual([copies[0]?.label.role, copies[0]?.damage, foreign], ['active', undefined, []]);
  assert.ok(existsSync(join(world.path, name)));
  await assert.rejects(crashed.hold(name), /crashed/u);
  assert.ok(existsSync(join(world.path, name)), 'a fence that fails puts it back');
});

test('a directory that is gone, that lies at both places, or that is a link is damage, and is not touched', async (t) => {
  const world = await aPool(t);
  const pool = await world.open();
  const [gone, twice, linked] = ['a1', 'b2', 'c3'].map((id) => aCopy(id));
  for (const { name, label } of [gone!, twice!, linked!]) await pool.create(name, MiB, label);
  await rename(join(world.path, gone!.name), join(world.path, 'elsewhere'));
  await mkdir(join(world.path, 'retired', twice!.name));
  await rename(join(world.path, linked!.name), join(world.path, 'aside'));
  await symlink('aside', join(world.path, linked!.name));
  const damages = new Map((await pool.scan()).copies.map(({ name, damage }) => [name, damage]));
  assert.match(damages.get(gone!.name) ?? '', /somebody took it away/u);
  assert.match(damages.get(twice!.name) ?? '', /lies at .* and at/u);
  assert.match(damages.get(linked!.name) ?? '', /is no directory/u);
  await rejects(pool.attach(gone!.name), 'Corrupt');
  await rejects(pool.openTree!(twice!.name, 'read'), 'Corrupt');
  await rejects(pool.hold(linked!.name), 'Corrupt');
});

test('a raw block volume is refused, before anything is made', async (t) => {
  const world = await aPool(t);
  const { name, label } = aCopy('a1', { volumeMode: 'Block' });
  await rejects((await world.open()).create(name, MiB, label), 'Unsupported', /use a pool of another type/u);
  assert.deepEqual(await ofCopies(world.path), []);
});

/** Goes down step by step, for no path reaches so far. */
const DEEP = `
const { mkdirSync, writeFileSync } = require('node:fs');
const [, folder, name] = process.argv;
process.chdir(folder);
for (let depth = 0; depth < 60; depth += 1) {
  mkdirSync(name);
  process.chdir(name);
}
writeFileSync('file', 'x');
`;

test('a removal reaches what is deeper than any path, follows no link, and takes names that are no text', async (t) => {
  const world = await aPool(t);
  const pool = await world.open();
  const { name, label } = aCopy();
  await pool.create(name, MiB, label);
  const folder = await pool.attach(name);
  const outside = join(world.path, 'outside');
  await mkdir(outside);
  await writeFile(join(outside, 'kept'), 'x');
  await symlink(outside, join(folder, 'link'));
  await writeFile(Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0xff, 0x0a, 0xfe])]), 'x');
  await run(process.execPath, ['-e', DEEP, folder, 'd'.repeat(200)]);
  await pool.remove(name, 'none');
  assert.equal(existsSync(folder), false);
  assert.equal(await readFile(join(outside, 'kept'), 'utf8'), 'x');
});

test('says that sizes are only booked where nothing enforces them, and not counted either', async (t) => {
  const pool = await (await aPool(t)).open();
  assert.equal(pool.budget, 'booked');
  const { name, label } = aCopy();
  await pool.create(name, MiB, label);
  assert.equal((await pool.scan()).copies[0]?.allocated, null, 'nobody counts what is in it');
});

test('on btrfs with quotas a volume stays within its size, grows with it, and leaves no quota behind', { skip: needsRoot }, async (t) => {
  const { path } = await temporaryFilesystem(t, { type: 'btrfs', size: 1n << 30n });
  await run('btrfs', ['quota', 'enable', path]);
  const uuid = await beInitialised(path);
  const pool = await openDirectoryPool({ name: 'shared', path, uuid, policy: { reserve: '0', overcommit: null } });
  assert.equal(pool.budget, 'qgroup');
  const { name, label } = aCopy();
  await pool.create(name, 16n * MiB, label);
  const folder = await pool.attach(name);
  const fill = (file: string): Promise<unknown> =>
    run('dd', ['if=/dev/urandom', `of=${join(folder, file)}`, 'bs=1M', 'count=20', 'oflag=sync']);
  await assert.rejects(fill('a'), /Disk quota exceeded/u);
  assert.ok((await stat(join(folder, 'a'))).size < 16 * 2 ** 20);
  assert.ok(((await pool.scan()).copies[0]?.allocated ?? 0n) > 8n * MiB);
  await pool.grow(name, 64n * MiB);
  await fill('b');
  const groups = async (): Promise<number> =>
    (await run('btrfs', ['qgroup', 'show', path])).stdout.split('\n').filter((line) => /^0\/2[0-9]{2}\s/u.test(line)).length;
  assert.equal(await groups(), 1);
  await pool.remove(name, 'none');
  assert.deepEqual((await pool.scan()).copies, []);
  assert.ok((await statfs(path)).bfree > 0);
});
