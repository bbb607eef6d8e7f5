// Sizes on real disks: odd ones, growing mounted, unmounted and while a move is under way, and those that cannot be.
import assert from 'node:assert/strict';
import { stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { isReason } from '../model/errors.ts';
import { mayGrowMountedExt4 } from '../host/grow-filesystem.ts';
import { copyName } from '../model/label.ts';
import type { Stored } from '../model/meta.ts';
import { Moves } from '../model/move.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import { hashOf, write } from '../testing/content.ts';
import { startEngine, type Engine } from '../testing/engine.ts';
import { needsRoot, type Test } from '../testing/folders.ts';

const GIB = 2n ** 30n;
const MIB = 1 << 20;

const imageOf = (engine: Engine, { metadata, spec }: Stored<Volume>): string =>
  join(engine.pool(spec.node ?? ''), `${copyName({ volumeUid: metadata.uid, copy: spec.copy ?? '' })}.img`);

const ROUNDED: [asked: string, bytes: bigint][] = [
  ['1', 4096n],
  ['511', 4096n],
  ['513', 4096n],
  ['1.5', 4096n],
  ['4097', 8192n],
  ['1500M', 1_500_000_256n],
  ['1G', 1_000_001_536n],
  ['1e9', 1_000_001_536n],
  ['1073741825', 1_073_745_920n],
  ['1.5Gi', 1_610_612_736n],
  ['11362347344', 11_362_349_056n],
];

test('a size is rounded up once, and the capacity reported is the real one', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1'], pool: { overcommit: 'unlimited' } });
  for (const [asked, bytes] of ROUNDED)
    await t.test(asked, async () => {
      const name = `odd-${asked.toLowerCase()}`;
      const volume = await engine.volume(name, { size: asked, pool: 'local', volumeMode: 'Block' });
      assert.equal(volume.status?.capacity, String(bytes));
      assert.equal((await stat(imageOf(engine, volume), { bigint: true })).size, bytes);
      assert.equal(volume.spec.size, asked);
    });
  await engine.endsClean();
});

test('an order that is repeated makes no second copy and finds no other size', { skip: needsRoot }, async (t) => {
  let crashes = 2;
  const crash = (point: string): void => {
    if (point === 'after:create' && crashes-- > 0) throw new Error('ended between the disk and the record');
  };
  const engine = await startEngine(t, { nodes: ['node-1'], pool: { overcommit: 'unlimited' }, agent: () => ({ crash }) });
  const volume = await engine.volume('db', { size: '1500M', pool: 'local', volumeMode: 'Block' });
  assert.equal(volume.status?.capacity, '1500000256');
  await assert.rejects(engine.createVolume('db', { size: '1500M', pool: 'local' }), (error) => isReason(error, 'AlreadyExists'));
  await engine.stopAgent('node-1');
  await engine.startAgent('node-1');
  assert.equal((await stat(imageOf(engine, volume), { bigint: true })).size, 1_500_000_256n);
  await engine.endsClean();
});

const REFUSED: [asked: string, says: RegExp][] = [
  ['0', /more than 0/u],
  ['0Gi', /more than 0/u],
  ['-1', /size/u],
  ['-5Gi', /size/u],
  ['100m', /size/u],
  ['1Zi', /size/u],
  ['1.5.2Gi', /size/u],
  ['', /size/u],
  ['NaN', /size/u],
  ['16Ei', /below 8Ei/u],
  ['9223372036854775807', /below 8Ei/u],
  ['9223372036854775808', /below 8Ei/u],
  ['1e99', /below 8Ei/u],
];

test('sizes that cannot be are refused by the record, and nothing is made', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1'] });
  for (const [asked, says] of REFUSED)
    await t.test(JSON.stringify(asked), async () => {
      await assert.rejects(engine.createVolume('bad', { size: asked, pool: 'local' }), (error) => {
        assert.ok(isReason(error, 'Invalid'), String(error));
        assert.match(error.message, says);
        return true;
      });
    });
  await engine.createVolume('huge', { size: '10Pi', pool: 'local' });
  const huge = await engine.until(Volumes, 'huge', ({ status }) => status?.obstacle !== undefined);
  assert.equal(huge.status?.phase, 'Pending');
  assert.equal(huge.status?.obstacle?.reason, 'NoNode');
  assert.match(huge.status?.obstacle?.message ?? '', /pool local of node node-1 has room for .*, 10\.0 PiB are needed/u);
  await engine.endsClean();
});

const shown = async (path: string): Promise<bigint> => {
  const { blocks, bsize } = await statfs(path, { bigint: true });
  return blocks * bsize;
};

const GROWN = [
  { filesystem: 'ext4', from: '200Mi', to: '203Mi', bytes: 203n << 20n, least: 1n << 20n },
  { filesystem: 'xfs', from: '300Mi', to: '403Mi', bytes: 403n << 20n, least: 95n << 20n },
  { filesystem: 'btrfs', from: '200Mi', to: '303Mi', bytes: 303n << 20n, least: 95n << 20n },
] as const;

async function grows(engine: Engine, each: (typeof GROWN)[number], mounted: boolean): Promise<void> {
  const { filesystem, from, to, bytes, least } = each;
  const name = `${filesystem}-${mounted}`;
  await engine.volume(name, { size: from, pool: 'local', filesystem });
  const path = await engine.mount(name);
  await write(join(path, 'content'), { length: MIB, seed: 7 });
  const before = { hash: await hashOf(join(path, 'content')), size: await shown(path) };
  if (!mounted) await engine.unmount(name);
  await engine.client.patch(Volumes, name, { spec: { size: to } });
  const grown = await engine.until(Volumes, name, ({ status }) => status?.capacity === String(bytes));
  assert.equal((await stat(imageOf(engine, grown), { bigint: true })).size, bytes);
  if (!mounted) await engine.mount(name);
  if (mounted && filesystem === 'ext4' && !(await mayGrowMountedExt4())) {
    const blocked = await engine.until(Volumes, name, ({ status }) => status?.phase === 'Blocked');
    assert.match(
      blocked.status?.obstacle?.message ?? '',
      /may not be grown while mounted: the agent lacks CAP_SYS_RESOURCE. Unmount the volume/u,
    );
    await engine.unmount(name);
    await engine.mount(name);
  }
  await engine.until(Volumes, name, ({ status }) => status?.phase === 'Published');
  assert.ok((await shown(path)) >= before.size + least, `${await shown(path)} after ${before.size}`);
  assert.equal(await hashOf(join(path, 'content')), before.hash);
  await engine.unmount(name);
}

test(
  'a filesystem grows by as little as asked, mounted or not, and the record says when it has to be unmounted for that',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, { nodes: ['node-1'], pool: { overcommit: 'unlimited' } });
    for (const each of GROWN)
      for (const mounted of [true, false])
        await t.test(`${each.filesystem} ${mounted ? 'mounted' : 'not mounted'}`, () => grows(engine, each, mounted));
    await engine.endsClean();
  },
);

test('a volume does not shrink, and growing beyond the pool says why and leaves it as it was', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1'], filesystem: { type: 'ext4', size: 128n << 20n } });
  await engine.volume('db', { size: '16Mi', pool: 'local', volumeMode: 'Block' });
  await assert.rejects(engine.client.patch(Volumes, 'db', { spec: { size: '8Mi' } }), /a volume cannot shrink/u);
  const device = await engine.mount('db');
  await write(device, { length: 4 * MIB, seed: 1 });
  const hash = await hashOf(device);
  await engine.client.patch(Volumes, 'db', { spec: { size: '1Gi' } });
  const refused = await engine.until(Volumes, 'db', ({ status }) => status?.obstacle?.reason === 'NoSpace');
  assert.equal(refused.status?.phase, 'Blocked');
  assert.match(refused.status?.obstacle?.message ?? '', /pool local has room for .* are asked/u);
  assert.equal(await hashOf(device), hash);
  await engine.endsClean();
});

test('growth that is asked during a move happens after it, at the target', { skip: needsRoot }, async (t) => {
  const engine = await twoNodes(t);
  await engine.volume('db', { size: '300Mi', pool: 'local', node: 'node-1', filesystem: 'xfs' });
  const path = await engine.mount('db');
  await write(join(path, 'content'), { length: 4 * MIB, seed: 3 });
  const hash = await hashOf(join(path, 'content'));
  await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
  await engine.untilBlocked('db-1', 'WaitingForUnpublish');
  await engine.client.patch(Volumes, 'db', { spec: { size: '400Mi' } });
  await engine.unmount('db');
  const moved = await engine.untilPhase('db-1', 'Retaining');
  assert.ok(moved.status?.committedAt);
  const grown = await engine.until(Volumes, 'db', ({ status }) => status?.capacity === String(400 * MIB));
  assert.equal(grown.spec.node, 'node-2');
  await engine.mount('db');
  assert.ok((await shown(path)) > 310n << 20n);
  assert.equal(await hashOf(join(path, 'content')), hash);
  await engine.until(Moves, 'db-1', ({ status }) => status?.incoming?.scrub?.state === 'Passed');
  await engine.endsClean();
});

const twoNodes = (t: Test): Promise<Engine> => startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: { type: 'xfs', size: 2n * GIB } });
