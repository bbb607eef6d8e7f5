// An image pool of a user who is not root: no device can be made, so the raw files themselves are handed out. As root this file makes the
// disks, and runs itself again on each of them as another user.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdtemp, readdir, readFile, rm, statfs, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { needsRoot, temporaryFilesystem } from '../testing/folders.ts';
import { aCopy } from '../testing/labels.ts';
import { poolContract } from './contract.ts';
import { rejects, type PoolWorld } from './contract-world.ts';
import { beInitialised } from './image-marker.ts';
import { openImagePool } from './image.ts';

const MiB = 1n << 20n;
const GiB = 1n << 30n;
const NOBODY = 65_534;
/** As `<points>:<folder of this user>` when this is the second run. */
const GIVEN = process.env['FLOCK_TEST_DISK'];

if (GIVEN === undefined)
  for (const [type, points] of [
    ['xfs', true],
    ['ext4', false],
  ] as const)
    test(
      `all that an image pool promises holds on ${type} for a user who is not root`,
      { skip: needsRoot && 'needs root: to make a disk and become another user' },
      async (t) => {
        const { path } = await temporaryFilesystem(t, { type, size: 13n * GiB + 400n * MiB });
        await chown(path, NOBODY, NOBODY);
        await chmod(dirname(path), 0o711);
        const { NODE_TEST_CONTEXT: _, ...env } = process.env;
        const ran = spawnSync(process.execPath, [import.meta.filename], {
          uid: NOBODY,
          gid: NOBODY,
          env: { ...env, FLOCK_TEST_DISK: `${points}:${path}` },
          encoding: 'utf8',
        });
        assert.equal(ran.status, 0, `${ran.stdout}${ran.stderr}`);
        assert.match(ran.stdout, /pass [1-9]/u);
        assert.match(ran.stdout, /skipped 0/u);
      },
    );
else inner(GIVEN);

function inner(given: string): void {
  const [points, ...disk] = given.split(':');
  const make = (t: TestContext, capacity: bigint): Promise<PoolWorld> => worldOn(t, disk.join(':'), capacity);
  poolContract('an image pool of raw files', { points: points === 'true', attachable: false }, make);

  test('whoever has the raw file open for writing is named, and keeps out detach, hold, attach, writers and removal until it ends', async (t) => {
    const pool = await (await make(t, 64n * MiB)).open();
    const { name, label } = aCopy();
    await pool.create(name, MiB, label);
    const writer = spawn('sh', ['-c', 'exec 3<>"$1"; echo open; exec sleep 60', 'sh', await pool.attach(name)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => writer.kill('SIGKILL'));
    await once(writer.stdout, 'data');
    const named = new RegExp(`open for writing in process ${writer.pid} \\(`, 'u');
    await rejects(pool.detach(name), 'InUse', named);
    await rejects(pool.hold(name), 'InUse', named);
    await rejects(pool.open(name, 'live', 'write'), 'InUse', named);
    await rejects(pool.remove(name, 'none'), 'InUse', named);
    await (await pool.open(name, 'live', 'read')).close();
    const ended = once(writer, 'exit');
    writer.kill('SIGKILL');
    await ended;
    await pool.detach(name);
    await (await pool.hold(name)).release();
  });
}

async function worldOn(t: TestContext, disk: string, capacity: bigint): Promise<PoolWorld> {
  const path = await mkdtemp(join(disk, 'pool-'));
  t.after(() => rm(path, { recursive: true }));
  const { blocks, bsize } = await statfs(path, { bigint: true });
  const policy = { reserve: String(blocks * bsize - capacity), overcommit: null };
  const uuid = await beInitialised(path);
  return {
    open: (crash) => openImagePool({ name: 'local', path, uuid, policy, ...(crash ? { crash } : {}) }),
    plantForeign: async () => {
      await writeFile(join(path, 'photos.img'), 'holiday');
      return 'photos.img';
    },
    isForeignIntact: async () => (await readFile(join(path, 'photos.img'), 'utf8')) === 'holiday',
    leftovers: async () => (await readdir(path)).filter((file) => /^[0-9a-f]{8}-/u.test(file)),
  };
}
