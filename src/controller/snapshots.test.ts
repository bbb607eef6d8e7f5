// Snapshots and what begins with them, with controllers and agents as they are; and a death at every point on the way.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GROUP_VERSION, type Stored } from '../model/meta.ts';
import { Snapshots, type Snapshot } from '../model/snapshot.ts';
import { Volumes, type VolumeSpec } from '../model/volume.ts';
import { DISTINCT, textAt } from '../testing/fake-machine.ts';
import { World, type Death } from '../testing/world.ts';

/** db on node-1, in use, with `first` written. */
async function inUse(options: ConstructorParameters<typeof World>[0] = {}): Promise<World> {
  const world = new World(options);
  await world.settle();
  await world.create();
  await world.publish('node-1');
  world.write('node-1', 5n, 'first');
  await world.settle();
  return world;
}

async function snapshot(world: World, name = 's1', volume = 'db'): Promise<Stored<Snapshot>> {
  await world.client.create(Snapshots, { apiVersion: GROUP_VERSION, kind: 'Snapshot', metadata: { name }, spec: { volume } });
  await world.settle();
  return world.client.get(Snapshots, name);
}

const create = (world: World, name: string, spec: Partial<VolumeSpec>): Promise<void> =>
  world.create({ size: String(8 << 20), ...spec, ...(spec.node === undefined ? {} : { node: spec.node }) }, name);

/** A block of the volume's copy, wherever that is. */
function block(world: World, volume: string, at: bigint): string {
  for (const { disk } of world.machines.values())
    for (const copy of disk.copies.values()) if (copy.label.volume === volume && copy.label.role === 'active') return textAt(copy, at);
  throw new Error(`there is no copy of ${volume}`);
}

const points = (world: World): string[] =>
  [...world.machines].flatMap(([node, { disk }]) =>
    [...disk.copies.values()].flatMap((copy) => [...copy.points.keys()].map((p) => `${node} ${p}`)),
  );

test('a snapshot is of the bytes of its moment, and a volume that begins with it has these', async () => {
  const world = await inUse();
  const taken = await snapshot(world);
  assert.equal(taken.status?.phase, 'Ready');
  assert.deepEqual(
    [taken.status.node, taken.status.size, taken.status.formatted, taken.status.filesystem],
    ['node-1', String(8 << 20), true, 'ext4'],
  );
  world.write('node-1', 5n, 'second');
  await create(world, 'copy', { source: { snapshot: 's1' } });
  const copy = await world.client.get(Volumes, 'copy');
  assert.deepEqual([copy.status?.phase, copy.spec.node], ['Available', 'node-1']);
  assert.equal(block(world, 'copy', 5n), 'first');
  assert.equal(block(world, 'db', 5n), 'second');
  assert.equal(block(world, 'copy', DISTINCT), '');
  await world.agent('node-1').publishing.publish({ volume: 'copy', target: '/srv/copy', readOnly: false });
  const identity = block(world, 'copy', DISTINCT);
  assert.match(identity, /^distinct/u);
  await world.agent('node-1').publishing.unpublish({ volume: 'copy' });
  await world.agent('node-1').publishing.publish({ volume: 'copy', target: '/srv/copy', readOnly: false });
  assert.equal(block(world, 'copy', DISTINCT), identity);
});

test('what begins with a snapshot of a formatted volume is formatted, by its own label, before anybody has mounted it', async () => {
  const world = await inUse();
  await snapshot(world);
  await create(world, 'copy', { source: { snapshot: 's1' } });
  const labels = [...world.machine('node-1').disk.copies.values()].map(({ label }) => label).filter(({ volume }) => volume === 'copy');
  assert.deepEqual(
    labels.map(({ formatted, cloned }) => ({ formatted, cloned })),
    [{ formatted: true, cloned: true }],
  );
});

test('a clone of a volume is of its bytes as they are, and nothing that was taken for it stays', async () => {
  const world = await inUse();
  await create(world, 'copy', { source: { volume: 'db' } });
  await world.settle();
  assert.equal(block(world, 'copy', 5n), 'first');
  assert.deepEqual(world.snapshots(), []);
  assert.deepEqual(points(world), []);
});

test('a snapshot that is deleted is gone from the disk, but not before a volume is made of it', async () => {
  const world = await inUse();
  await snapshot(world);
  world.silent.add('node-1');
  await world.client.create(Volumes, {
    apiVersion: GROUP_VERSION,
    kind: 'Volume',
    metadata: { name: 'copy' },
    spec: { size: String(8 << 20), source: { snapshot: 's1' } },
  });
  await world.client.delete(Snapshots, 's1');
  await world.act('controller-1');
  assert.equal((await world.client.get(Snapshots, 's1')).status?.obstacle?.reason, 'InUse');
  world.silent.delete('node-1');
  await world.settle();
  assert.equal(block(world, 'copy', 5n), 'first');
  assert.deepEqual([world.snapshots(), points(world)], [[], []]);
});

const REFUSED: readonly [string, Partial<VolumeSpec>, string][] = [
  ['of a snapshot that is not there', { source: { snapshot: 'none' } }, 'SnapshotNotFound'],
  ['smaller than its snapshot', { source: { snapshot: 's1' }, size: '1Mi' }, 'TooSmall'],
  ['with another filesystem', { source: { snapshot: 's1' }, filesystem: 'xfs' }, 'SourceDiffers'],
  ['raw, of a filesystem', { source: { snapshot: 's1' }, volumeMode: 'Block' }, 'SourceDiffers'],
  ['on another node', { source: { snapshot: 's1' }, node: 'node-2' }, 'SourceElsewhere'],
  ['in another pool', { source: { snapshot: 's1' }, pool: 'other' }, 'SourceElsewhere'],
  ['of a volume that is not there', { source: { volume: 'none' } }, 'SnapshotNotReady'],
];

for (const [what, spec, reason] of REFUSED)
  test(`a volume ${what} waits, and says why`, async () => {
    const world = await inUse();
    await snapshot(world);
    const { node, ...rest } = spec;
    await world.client.create(Volumes, {
      apiVersion: GROUP_VERSION,
      kind: 'Volume',
      metadata: { name: 'copy' },
      spec: { size: String(8 << 20), ...rest, ...(node === undefined ? {} : { node, epoch: 0 }) },
    });
    await world.settle();
    const copy = await world.client.get(Volumes, 'copy');
    assert.deepEqual([copy.status?.phase, copy.status?.obstacle?.reason], ['Pending', reason]);
    await world.client.delete(Volumes, 'copy');
    await world.settle();
    assert.deepEqual(
      world.volumes().map(({ metadata }) => metadata.name),
      ['db'],
    );
  });

test('a larger clone has its source at its begin', async () => {
  const world = await inUse();
  await snapshot(world);
  await create(world, 'copy', { source: { snapshot: 's1' }, size: '16Mi' });
  assert.equal((await world.client.get(Volumes, 'copy')).status?.capacity, String(16 << 20));
  assert.equal(block(world, 'copy', 5n), 'first');
});

test('a snapshot stays where it was taken when its volume moves, keeps that copy, and its clone can be made there', async () => {
  const world = await inUse();
  await snapshot(world);
  await world.order('node-2');
  await world.settle();
  await world.unpublish('node-1');
  await world.passLong();
  assert.deepEqual(world.copies(), ['node-1 stale 1', 'node-2 active 2']);
  assert.deepEqual([world.move().status?.phase, world.move().status?.obstacle?.reason], ['Retaining', 'HasSnapshots']);
  await create(world, 'copy', { source: { snapshot: 's1' } });
  assert.deepEqual([block(world, 'copy', 5n), (await world.client.get(Volumes, 'copy')).spec.node], ['first', 'node-1']);
  await world.order('node-1', { name: 'back' });
  await world.passLong();
  assert.equal(world.move('back').status?.reused, false);
  assert.equal((await world.client.get(Snapshots, 's1')).status?.phase, 'Ready');
  await world.client.delete(Snapshots, 's1');
  await world.passLong();
  assert.deepEqual(
    world.moves().map(({ status }) => status?.phase),
    ['Done', 'Done'],
  );
  assert.deepEqual(points(world), []);
});

test('a volume that is deleted waits for its snapshots, and says so', async () => {
  const world = await inUse();
  await snapshot(world);
  await world.unpublish('node-1');
  await world.client.delete(Volumes, 'db');
  await world.settle();
  assert.equal(world.volume().status?.obstacle?.reason, 'HasSnapshots');
  await world.client.delete(Snapshots, 's1');
  await world.passLong();
  assert.deepEqual([world.volumes(), world.snapshots(), world.copies()], [[], [], []]);
});

test('a copy is not removed because no watch has told of the snapshot that it holds', async () => {
  const world = await inUse();
  await snapshot(world);
  await world.unpublish('node-1');
  world.unheard.add('s1');
  await world.client.delete(Volumes, 'db');
  await world.passLong();
  assert.equal(world.copies().length, 1);
  assert.equal((await world.client.get(Snapshots, 's1')).status?.phase, 'Ready');
  assert.equal(points(world).length, 1);
});

test('a snapshot of nothing, or where no points can be kept, waits and says why', async () => {
  const plain = await inUse({ points: false });
  assert.equal((await snapshot(plain)).status?.obstacle?.reason, 'Unsupported');
  assert.equal((await snapshot(plain, 's2', 'none')).status?.obstacle?.reason, 'VolumeNotFound');
  for (const name of ['s1', 's2']) await plain.client.delete(Snapshots, name);
  await plain.settle();
  assert.deepEqual(plain.snapshots(), []);
});

test('a snapshot whose copy was lost with its volume says so, and goes when it is deleted', async () => {
  const world = await inUse();
  await snapshot(world);
  await world.unpublish('node-1');
  world.machine('node-1').disk.copies.clear();
  await world.client.delete(Volumes, 'db');
  await world.passLong();
  assert.equal((await world.client.get(Snapshots, 's1')).status?.phase, 'Failed');
  await world.client.delete(Snapshots, 's1');
  await world.settle();
  assert.deepEqual(world.snapshots(), []);
});

/** Taken, begun with, cloned, deleted. */
async function story(death: Death | null, options: ConstructorParameters<typeof World>[0] = {}): Promise<World> {
  const world = await inUse(options);
  world.death = death;
  await snapshot(world);
  await world.passLong();
  world.write('node-1', 5n, 'second');
  await create(world, 'copy', { source: { snapshot: 's1' } });
  await create(world, 'clone', { source: { volume: 'db' } });
  await world.passLong();
  assert.deepEqual([block(world, 'copy', 5n), block(world, 'clone', 5n)], ['first', 'second']);
  await world.client.delete(Snapshots, 's1');
  await world.passLong();
  assert.deepEqual([world.snapshots(), points(world)], [[], []]);
  await world.unpublish('node-1');
  for (const name of ['db', 'copy', 'clone']) await world.client.delete(Volumes, name);
  await world.passLong();
  assert.deepEqual([world.volumes(), world.copies()], [[], []]);
  return world;
}

test('every crash point on the way may be the last', async (t) => {
  const calm = await story(null);
  const passed = [...calm.passed.keys()].filter((key) => /snapshot|create|takeSource|dropSource/iu.test(key));
  assert.ok(passed.includes('node-1 snapshot:frozen') && passed.includes('node-1 snapshot:released'), passed.join('; '));
  for (const key of passed) {
    const [who = '', at = ''] = key.split(' ');
    const count = calm.passed.get(key) ?? 0;
    for (let nth = 1; nth <= Math.min(count, 2); nth += 1)
      await t.test(`${key}, time ${nth}`, async () => void (await story({ who, at, nth })));
  }
});

test('two controllers, views that lag and calls that dawdle change nothing', async () => {
  for (let seed = 1; seed <= 8; seed += 1) await story(null, { seed, controllers: 2, interleave: 0.4, stale: 0.3 });
});
