// What a person did to the files of a pool of directories that keeps it from its work: each is told with the way out.
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm, rmdir, symlink, writeFile } from 'node:fs/promises';
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { run } from '../host/run.ts';
import { afterwards } from '../testing/afterwards.ts';
import { needsRoot, temporaryFilesystem, temporaryFolder } from '../testing/folders.ts';
import { aCopy } from '../testing/labels.ts';
import { rejects } from './contract-world.ts';
import { openDirectoryPool } from './directory.ts';
import { beInitialised } from './image-marker.ts';
import type { Pool } from './pool.ts';

async function aPool(t: TestContext, path: string): Promise<{ path: string; pool: Pool; open: () => Promise<Pool>; folder: string }> {
  const uuid = await beInitialised(path);
  const open = (): Promise<Pool> => openDirectoryPool({ name: 'shared', path, uuid, policy: { reserve: '0', overcommit: null } });
  const pool = await open();
  await pool.create(name, 1n << 20n, label);
  const folder = await pool.attach(name);
  await writeFile(join(folder, 'file'), 'x');
  return { path, pool, open, folder };
}

const { name, label } = aCopy();

for (const flag of ['i', 'a'] as const)
  test(`what chattr +${flag} protects keeps out removal and fence, which say what to do`, { skip: needsRoot }, async (t) => {
    const { path } = await temporaryFilesystem(t, { type: 'ext4', size: 64n << 20n });
    const { pool, folder } = await aPool(t, path);
    const protectedNow = [folder, join(folder, 'file')];
    await run('chattr', [`+${flag}`, ...protectedNow]);
    afterwards(t, () => run('chattr', ['-f', `-${flag}`, ...protectedNow]).catch(() => undefined));
    const told = (file: string): RegExp => new RegExp(`run chattr -${flag} "${file}"`, 'u');
    await rejects(pool.hold(name), 'NotPermitted', told(folder));
    assert.ok(existsSync(join(folder, 'file')), 'it lies where it was');
    await rejects(pool.remove(name, 'none'), 'NotPermitted', told(join(folder, 'file')));
    await run('chattr', [`-${flag}`, join(folder, 'file')]);
    await rejects(pool.remove(name, 'none'), 'NotPermitted', told(folder));
    await run('chattr', [`-${flag}`, folder]);
    await pool.remove(name, 'none');
    assert.equal(existsSync(folder), false);
  });

test('the folder of fenced copies is made anew when somebody took it away', async (t) => {
  const { path, pool } = await aPool(t, await temporaryFolder(t));
  await rmdir(join(path, 'retired'));
  const hold = await pool.hold(name);
  await pool.relabel(name, { ...label, role: 'retired' });
  await hold.release();
  assert.equal(await readFile(join(path, 'retired', name, 'file'), 'utf8'), 'x');
});

test('a folder of fenced copies that is a link is refused, with the way out', async (t) => {
  const { path, pool, open, folder } = await aPool(t, await temporaryFolder(t));
  const elsewhere = join(path, '..', `${name}-elsewhere`);
  await rename(join(path, 'retired'), elsewhere);
  afterwards(t, () => rm(elsewhere, { recursive: true, force: true }));
  await symlink(elsewhere, join(path, 'retired'));
  await rejects(
    pool.hold(name),
    'Conflict',
    /retired is to be a folder of the pool itself and is a link or a file.*bring what lies there back/u,
  );
  await rejects(open(), 'Conflict', /is a link or a file/u);
  assert.ok(existsSync(join(folder, 'file')));
  await rm(join(path, 'retired'));
  await rename(elsewhere, join(path, 'retired'));
  await (await pool.hold(name)).release();
});

test('a folder of fenced copies that is another filesystem is refused, with the way out', { skip: needsRoot }, async (t) => {
  const { path, pool } = await aPool(t, await temporaryFolder(t));
  await rmdir(join(path, 'retired'));
  await mkdir(join(path, 'retired'));
  await run('mount', ['-t', 'tmpfs', 'tmpfs', join(path, 'retired')]);
  afterwards(t, () => run('umount', [join(path, 'retired')]));
  await rejects(pool.hold(name), 'Conflict', /is another filesystem/u);
});
