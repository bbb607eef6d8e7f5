// What people and dying disks do to the files of one copy: it is told of that copy, nothing is mended on a guess, the pool's other copies
// do not notice, and it is as it was once its files are.
import assert from 'node:assert/strict';
import { mkdir, readFile, rename, rm, stat, symlink, truncate, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFilesystem, temporaryFolder, needsRoot, type Test } from '../testing/folders.ts';
import { aCopy } from '../testing/labels.ts';
import { readAll, written } from './contract-bytes.ts';
import { rejects } from './contract-world.ts';
import { beInitialised } from './image-marker.ts';
import { openImagePool } from './image.ts';
import { openPool } from './open.ts';
import type { Copy, Pool } from './pool.ts';

const MiB = 1n << 20n;
const { name, label } = aCopy('a1');
const other = aCopy('b2');

interface Scene {
  pool: Pool;
  image: string;
  sidecar: string;
  path: string;
}

async function scene(t: Test): Promise<Scene> {
  const path = await temporaryFolder(t);
  const pool = await openPool({ name: 'local', type: 'image', path }, { uuid: null });
  for (const each of [{ name, label }, other]) await pool.create(each.name, 4n * MiB, each.label);
  const blocks = await pool.open(name, 'live', 'write');
  await blocks.write(written(8192, 1), 3n * MiB);
  await blocks.close();
  return { pool, path, image: join(path, `${name}.img`), sidecar: join(path, `${name}.json`) };
}

async function collect(extents: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of extents);
}

/** All that uses a copy's bytes or its label. */
const uses = (pool: Pool): [string, () => Promise<unknown>][] => [
  ['attach', () => pool.attach(name)],
  ['read', () => pool.open(name, 'live', 'read')],
  ['read a point', () => pool.open(name, 'p1', 'read')],
  ['write', () => pool.open(name, 'live', 'write')],
  ['tell its changes', () => collect(pool.changed(name, null, 'live'))],
  ['hold', () => pool.hold(name)],
  ['grow', () => pool.grow(name, 8n * MiB)],
  ['relabel', () => pool.relabel(name, { ...label, epoch: 2 })],
  ...(pool.points ? ([['freeze', () => pool.freeze(name, 'p1')]] as [string, () => Promise<unknown>][]) : []),
];

/** The damage, and how it is undone. */
type Harm = (scene: Scene) => Promise<() => Promise<void>>;

const putBack =
  (which: 'image' | 'sidecar', instead?: (path: string) => Promise<unknown>): Harm =>
  async (of) => {
    await rename(of[which], join(of.path, 'away'));
    await instead?.(of[which]);
    return async () => {
      await rm(of[which], { recursive: true, force: true });
      await rename(join(of.path, 'away'), of[which]);
    };
  };

const HARMS: { what: string; harm: Harm; says: RegExp; labelled: boolean }[] = [
  { what: 'an image that is gone', harm: putBack('image'), says: /\.img of copy .* is gone.*Bring the file back/u, labelled: true },
  {
    what: 'an image that was cut short',
    harm: putBack('image', (path) => writeFile(path, Buffer.alloc(Number(2n * MiB)))),
    says: /has 2097152 bytes, and its label says 4194304/u,
    labelled: true,
  },
  {
    what: 'an image that is too long',
    harm: putBack('image', (path) => writeFile(path, Buffer.alloc(Number(5n * MiB)))),
    says: /has 5242880 bytes/u,
    labelled: true,
  },
  { what: 'a folder for an image', harm: putBack('image', (path) => mkdir(path)), says: /no regular file/u, labelled: true },
  { what: 'a link for an image', harm: putBack('image', (path) => symlink('away', path)), says: /no regular file/u, labelled: true },
  {
    what: 'a label that was garbled',
    harm: putBack('sidecar', (path) => writeFile(path, '{"version":1,')),
    says: /label .* cannot be read .*Bring the label back/u,
    labelled: false,
  },
  {
    what: 'a label with another size than a number',
    harm: putBack('sidecar', (path) =>
      writeFile(path, JSON.stringify({ version: 1, state: 'ready', thick: true, label: { ...label, size: 'x' } })),
    ),
    says: /cannot be read/u,
    labelled: false,
  },
  {
    what: 'the label of another copy',
    harm: putBack('sidecar', (path) =>
      writeFile(path, JSON.stringify({ version: 1, state: 'ready', thick: true, label: { ...other.label, size: '4194304' } })),
    ),
    says: /it is the label of copy/u,
    labelled: false,
  },
  { what: 'a folder for a label', harm: putBack('sidecar', (path) => mkdir(path)), says: /cannot be read/u, labelled: false },
  { what: 'a label that is gone', harm: putBack('sidecar'), says: /its label .* is gone/u, labelled: false },
];

for (const { what, harm, says, labelled } of HARMS) {
  test(`${what} is damage of that copy alone: told, never used, never changed, and over when the file is back`, async (t) => {
    const there = await scene(t);
    const { pool } = there;
    const undo = await harm(there);
    for (let looks = 0; looks < 2; looks += 1) {
      const { copies, unlabelled } = await pool.scan();
      assert.deepEqual(
        copies.filter(({ damage }) => damage === undefined).map((copy) => copy.name),
        [other.name],
      );
      const told = [...copies, ...unlabelled].find((each) => each.name === name);
      assert.match(told?.damage ?? '', says);
      assert.equal(unlabelled.length, labelled ? 0 : 1);
      if (labelled) assert.equal((told as Copy).size, 4n * MiB);
      for (const [use, ask] of uses(pool))
        await rejects(ask(), 'Corrupt', says).catch((error: Error) => assert.fail(`${use}: ${error.message}`));
      assert.ok((await pool.room()).booked >= 8n * MiB, 'its room stays booked');
      await (await pool.hold(other.name)).release();
      await pool.grow(other.name, 4n * MiB);
    }
    await pool.detach(name);
    await undo();
    const { copies, unlabelled } = await pool.scan();
    assert.deepEqual([copies.map(({ damage }) => damage), unlabelled], [[undefined, undefined], []]);
    assert.ok(
      (await readAll(pool, name, 'live'))
        .subarray(Number(3n * MiB))
        .subarray(0, 8192)
        .equals(written(8192, 1)),
    );
    await (await pool.hold(name)).release();
  });

  if (!/folder/u.test(what))
    test(`${what}: what is left of the copy is removed when that is asked`, async (t) => {
      const there = await scene(t);
      await harm(there);
      const before = await readFile(join(there.path, 'away'));
      await there.pool.remove(name, 'zero');
      assert.ok((await readFile(join(there.path, 'away'))).equals(before), 'what was put away is not ours');
      const { copies, unlabelled, foreign } = await there.pool.scan();
      assert.deepEqual([copies.map((copy) => copy.name), unlabelled, foreign], [[other.name], [], ['away']]);
      assert.equal((await there.pool.room()).booked, 4n * MiB);
    });
}

test('an image that was cut short keeps the length that it has: no look, no order and no restart fills it up', async (t) => {
  const { pool, path, image, sidecar } = await scene(t);
  await truncate(image, Number(2n * MiB));
  const text = await readFile(sidecar, 'utf8');
  await pool.scan();
  await rejects(pool.create(name, 4n * MiB, label), 'Corrupt');
  await rejects(pool.grow(name, 8n * MiB), 'Corrupt');
  await (await openPool({ name: 'local', type: 'image', path }, { uuid: pool.uuid })).scan();
  assert.equal((await stat(image)).size, Number(2n * MiB));
  assert.equal(await readFile(sidecar, 'utf8'), text);
});

test('a lost lock is no damage: it is made again', async (t) => {
  const { pool, path } = await scene(t);
  await unlink(join(path, `${name}.lock`)).catch(() => undefined);
  assert.deepEqual(
    (await pool.scan()).copies.map(({ damage }) => damage),
    [undefined, undefined],
  );
  await (await pool.hold(name)).release();
});

for (const [where, cut, outcome] of [
  ['before any of it', 4n, '8 MiB'],
  ['half way', 6n, '8 MiB'],
  ['after all of it', 8n, '8 MiB'],
  ['and then cut shorter than it ever was', 3n, 'damage'],
  ['and then longer than it was to be', 9n, 'damage'],
] as const)
  test(`a growth that its label tells of, cut off ${where}: ${outcome}`, async (t) => {
    const { pool, path, image } = await scene(t);
    const uuid = await beInitialised(path);
    const dying = await openImagePool({
      name: 'local',
      path,
      uuid,
      policy: { reserve: '5%', overcommit: null },
      crash: (point) => {
        if (point === 'grow:labelled') throw new Error('died');
      },
    });
    await assert.rejects(dying.grow(name, 8n * MiB), /died/u);
    assert.equal((await pool.room()).booked, 12n * MiB);
    await rejects(pool.open(name, 'live', 'read'), 'Conflict', /growing/u);
    await truncate(image, Number(cut * MiB));
    const copy = (await pool.scan()).copies.find((each) => each.name === name);
    if (outcome === 'damage') {
      assert.match(copy?.damage ?? '', /bytes, and its label says 4194304/u);
      assert.equal((await stat(image)).size, Number(cut * MiB));
      return;
    }
    assert.deepEqual([copy?.damage, copy?.size, copy?.label.size], [undefined, 8n * MiB, String(8n * MiB)]);
    assert.equal((await stat(image)).size, Number(8n * MiB));
    assert.ok(
      (await readAll(pool, name, 'live'))
        .subarray(Number(3n * MiB))
        .subarray(0, 8192)
        .equals(written(8192, 1)),
    );
  });

test('a growth asked for again goes on where it was cut off, without a look between', async (t) => {
  const { pool, path } = await scene(t);
  const uuid = await beInitialised(path);
  const crash = (point: string): void => {
    if (point === 'grow:allocated') throw new Error('died');
  };
  const dying = await openImagePool({ name: 'local', path, uuid, policy: { reserve: '5%', overcommit: null }, crash });
  await assert.rejects(dying.grow(name, 8n * MiB), /died/u);
  assert.equal(await pool.grow(name, 16n * MiB), 16n * MiB);
});

test('what there is no room for any more does not make the pool unusable: the growth is taken back', { skip: needsRoot }, async (t) => {
  const { path } = await temporaryFilesystem(t, { type: 'xfs', size: 320n * MiB });
  const uuid = await beInitialised(path);
  const policy = { reserve: '0', overcommit: null };
  const pool = await openImagePool({ name: 'local', path, uuid, policy });
  await pool.create(name, 4n * MiB, label);
  const crash = (point: string): void => {
    if (point.endsWith(':labelled')) throw new Error('died');
  };
  const dying = await openImagePool({ name: 'local', path, uuid, policy, crash });
  await assert.rejects(dying.grow(name, 100n * MiB), /died/u);
  await assert.rejects(dying.create(other.name, 60n * MiB, other.label), /died/u);
  const { size, used } = await pool.room();
  await writeFile(join(path, 'filler'), Buffer.alloc(Number(size - used - 40n * MiB), 1));
  const { copies } = await pool.scan();
  assert.deepEqual(
    copies.map((copy) => [copy.name, copy.size, copy.damage]),
    [[name, 4n * MiB, undefined]],
  );
  await (await pool.hold(name)).release();
});
