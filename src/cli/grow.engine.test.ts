// flockctl volume grow on real disks: it is done when the filesystem has grown, and what cannot be had is said and taken back.
import assert from 'node:assert/strict';
import { open, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { mayGrowMountedExt4 } from '../host/grow-filesystem.ts';
import { Volumes } from '../model/volume.ts';
import { flockctl, start, whenWritten, type Ran } from '../testing/cli.ts';
import { startEngine, type Engine } from '../testing/engine.ts';
import { needsRoot } from '../testing/folders.ts';

const MIB = 1n << 20n;
const grow = (engine: Engine, size: string): Promise<Ran> => flockctl(['volume', 'grow', 'db', size], { client: engine.client });
const shown = async (path: string): Promise<bigint> => {
  const { blocks, bsize } = await statfs(path, { bigint: true });
  return blocks * bsize;
};

test('a mounted ext4 that could not grow is no success, and grows once it was unmounted', { skip: needsRoot }, async (t) => {
  if (await mayGrowMountedExt4()) return t.skip('this process may grow it mounted');
  const engine = await startEngine(t, { nodes: ['node-1'], pool: { overcommit: 'unlimited' } });
  await engine.volume('db', { size: '64Mi', pool: 'local' });
  const path = await engine.mount('db');
  const before = await shown(path);
  const refused = await grow(engine, '256Mi');
  assert.equal(refused.code, 4, refused.err);
  assert.match(
    refused.err,
    /volume db is 256 MiB large, but ext4 on .* lacks CAP_SYS_RESOURCE. Unmount the volume, and it grows when it is mounted next/u,
  );
  await engine.unmount('db');
  await engine.mount('db');
  assert.ok((await shown(path)) > before + 150n * MIB);
  await engine.unmount('db');
  const idle = await grow(engine, '300Mi');
  assert.deepEqual([idle.code, idle.out], [0, 'volume db is 300 MiB large; its filesystem fills it when it is mounted next\n']);
  await engine.endsClean();
});

test('a mounted xfs has grown when the command says so', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1'], pool: { overcommit: 'unlimited' } });
  await engine.volume('db', { size: '300Mi', pool: 'local', filesystem: 'xfs' });
  const path = await engine.mount('db');
  const before = await shown(path);
  const grown = await grow(engine, '400Mi');
  assert.deepEqual([grown.code, grown.out], [0, 'volume db is 400 MiB large\n'], grown.err);
  assert.ok((await shown(path)) > before + 90n * MIB);
  await engine.endsClean();
});

test(
  'growth beyond the pool is refused before it is written, and one written by other means can be taken back',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, { nodes: ['node-1'], filesystem: { type: 'ext4', size: 128n * MIB } });
    await engine.volume('db', { size: '16Mi', pool: 'local', volumeMode: 'Block' });
    const refused = await grow(engine, '100Gi');
    assert.equal(refused.code, 4);
    assert.match(refused.err, /volume db cannot grow to 100 GiB: pool local of node node-1 has room for .* MiB, 100 GiB more are needed/u);
    assert.equal((await engine.client.get(Volumes, 'db')).spec.size, '16Mi');
    await engine.client.patch(Volumes, 'db', { spec: { size: '100Gi' } });
    const blocked = await engine.until(Volumes, 'db', ({ status }) => status?.obstacle?.reason === 'NoSpace');
    const wayBack = /or take the growth back: flockctl (volume grow db 16777216)$/u.exec(blocked.status?.obstacle?.message ?? '')?.[1];
    assert.ok(wayBack, blocked.status?.obstacle?.message);
    const back = await flockctl(wayBack.split(' '), { client: engine.client });
    assert.deepEqual([back.code, back.out], [0, 'volume db is 16.0 MiB large\n'], back.err);
    await engine.until(Volumes, 'db', ({ status }) => status?.phase === 'Available');
    const smaller = await grow(engine, '8Mi');
    assert.equal(smaller.code, 2);
    assert.match(smaller.err, /cannot shrink to 8Mi/u);
    await engine.endsClean();
  },
);

test('growth that the node refuses after all is taken back', { skip: needsRoot }, async (t) => {
  const agent = (): { reportMs: number } => ({ reportMs: 3_600_000 });
  const engine = await startEngine(t, { nodes: ['node-1'], filesystem: { type: 'ext4', size: 128n * MIB }, agent });
  await engine.volume('db', { size: '16Mi', pool: 'local', volumeMode: 'Block' });
  await using file = await open(join(engine.disk('node-1'), 'somebody-elses'), 'w');
  await file.writeFile(Buffer.alloc(Number(60n * MIB)));
  await file.sync();
  const refused = await grow(engine, '80Mi');
  assert.equal(refused.code, 4);
  assert.match(refused.err, /volume db was not grown, and stays 16Mi large: pool local has room for .* and 64.0 MiB are asked/u);
  assert.equal((await engine.client.get(Volumes, 'db')).spec.size, '16Mi');
  await engine.endsClean();
});

test('growth that is asked during a move says that it waits for it, and happens at the target', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: { type: 'xfs', size: 1024n * MIB } });
  await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1' });
  await engine.mount('db');
  await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
  await engine.untilBlocked('db-1', 'WaitingForUnpublish');
  const growing = start(['volume', 'grow', 'db', '64Mi'], { client: engine.client });
  await whenWritten(growing, 'waiting: Moving: volume db grows to 64Mi once move db-1 is over, on node node-2');
  await engine.unmount('db');
  const grown = await growing.done;
  assert.deepEqual(
    [grown.code, grown.out],
    [0, 'volume db is 64.0 MiB large; its filesystem fills it when it is mounted next\n'],
    grown.err,
  );
  assert.equal((await engine.client.get(Volumes, 'db')).spec.node, 'node-2');
  await engine.endsClean();
});

test('a volume too small for its filesystem is refused with the smallest size', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1'] });
  for (const [filesystem, least] of [
    ['ext4', '8Mi'],
    ['xfs', '300Mi'],
    ['btrfs', '128Mi'],
  ] as const) {
    const refused = await flockctl(['volume', 'create', 's', '--size', '10', '--filesystem', filesystem], { client: engine.client });
    assert.deepEqual([refused.code, refused.out], [2, '']);
    assert.ok(refused.err.includes(`10 B are too small for ${filesystem}: it needs at least ${least}`), refused.err);
  }
  await engine.createVolume('s', { size: '10', filesystem: 'xfs' });
  await engine.until(Volumes, 's', ({ status }) => status?.obstacle?.reason === 'TooSmall');
  await engine.endsClean();
});
