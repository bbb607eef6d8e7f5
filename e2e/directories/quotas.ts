// Pools of directories that the kernel keeps within their sizes by project quotas: all that a pool promises, and what its budget does. Runs on a
// node of the rig (e2e/directory-pools.test.ts sends it there), whose kernel has them.
import assert from 'node:assert/strict';
import { closeSync, openSync } from 'node:fs';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { projectQuota } from '../../src/host/project-quota.ts';
import { run } from '../../src/host/run.ts';
import { ofCopies, worldOfDirectories } from '../../src/pools/contract-directories.ts';
import { poolContract } from '../../src/pools/contract.ts';
import type { Pool } from '../../src/pools/pool.ts';
import { temporaryFilesystem, type TemporaryFilesystem } from '../../src/testing/folders.ts';
import { aCopy } from '../../src/testing/labels.ts';

const MiB = 1n << 20n;
const OVERHEAD = 400n << 20n;
const KINDS = ['xfs', 'ext4'] as const;
type Kind = (typeof KINDS)[number];

/** Mounted so that projects are kept within their limits. */
async function withQuota(t: TestContext, type: Kind, size: bigint): Promise<TemporaryFilesystem> {
  const made = await temporaryFilesystem(t, { type, size });
  await run('umount', [made.path]);
  if (type === 'ext4') await run('tune2fs', ['-O', 'project,quota', '-Q', 'prjquota', made.device]);
  await run('mount', ['-t', type, '-o', 'prjquota', made.device, made.path]);
  return made;
}

for (const type of KINDS)
  poolContract(
    `a pool of directories on ${type} with project quotas`,
    { points: false, attachable: false, blocks: false },
    async (t, capacity) => {
      const { path, size } = await withQuota(t, type, capacity + capacity / 20n + OVERHEAD);
      return worldOfDirectories(path, { size, capacity });
    },
  );

interface Volume {
  pool: Pool;
  name: string;
  path: string;
  folder: string;
}

async function aVolume(t: TestContext, type: Kind): Promise<Volume> {
  const { path, size } = await withQuota(t, type, 1n << 30n);
  const pool = await (await worldOfDirectories(path, { size, capacity: 256n * MiB })).open();
  assert.equal(pool.budget, 'project-quota');
  const { name, label } = aCopy();
  await pool.create(name, 16n * MiB, label);
  return { pool, name, path, folder: await pool.attach(name) };
}

/** What the kernel says of a project; 0n when it knows of none. */
function limitOf(path: string, project: number): bigint {
  const fd = openSync(path, 'r');
  try {
    return projectQuota(fd, project).limit;
  } catch {
    return 0n;
  } finally {
    closeSync(fd);
  }
}

/** As root in a container has it. With it ext4 lets root have as much as he likes. */
const WITHOUT = ['--bounding-set=-sys_resource', '--inh-caps=-sys_resource'];

const fill = (file: string, megabytes: number): Promise<unknown> =>
  run('setpriv', [...WITHOUT, 'dd', 'if=/dev/urandom', `of=${file}`, 'bs=1M', `count=${megabytes}`, 'conv=fsync']);

for (const type of KINDS) {
  test(`on ${type} a volume stays within its size whoever writes it, and grows with it`, async (t) => {
    const { pool, name, folder } = await aVolume(t, type);
    await assert.rejects(fill(join(folder, 'a'), 20), /No space left|quota exceeded/u);
    assert.ok((await stat(join(folder, 'a'))).size <= Number(16n * MiB));
    const allocated = (await pool.scan()).copies[0]?.allocated ?? 0n;
    assert.ok(allocated > 8n * MiB && allocated <= 16n * MiB, `${allocated} bytes are told`);
    await pool.grow(name, 64n * MiB);
    await fill(join(folder, 'b'), 20);
  });

  test(`on ${type} one volume that is full leaves the others their room, and who is outside of all is not limited`, async (t) => {
    const { pool, folder, path } = await aVolume(t, type);
    const other = aCopy('b2');
    await pool.create(other.name, 32n * MiB, other.label);
    await assert.rejects(fill(join(folder, 'a'), 20));
    await fill(join(await pool.attach(other.name), 'a'), 20);
    await fill(join(path, 'foreign'), 40);
  });

  test(`on ${type} the limit goes along into retired/ and back, and ends with the volume`, async (t) => {
    const { pool, name, path, folder } = await aVolume(t, type);
    const { project } = JSON.parse(await readFile(join(path, `${name}.json`), 'utf8')) as { project: number };
    assert.equal(limitOf(path, project), 16n * MiB);
    const hold = await pool.hold(name);
    await assert.rejects(fill(join(path, 'retired', name, 'a'), 20));
    await hold.release();
    await assert.rejects(fill(join(folder, 'b'), 20));
    await pool.remove(name, 'none');
    assert.deepEqual(await ofCopies(path), []);
    assert.equal(limitOf(path, project), 0n);
    // The same name again finds a limit of its own.
    const { label } = aCopy();
    await pool.create(name, 4n * MiB, label);
    const again = await pool.attach(name);
    await writeFile(join(again, 'small'), 'x');
    await assert.rejects(fill(join(again, 'large'), 8));
  });
}
