// What a node does when single copies, or the pool itself, cannot be read: the others go on, what is mounted can be unmounted, and nothing
// is called absent that is only broken.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { copiesOf } from '../decide/observed.ts';
import { FlockError } from '../model/errors.ts';
import { copyName } from '../model/label.ts';
import type { Stored } from '../model/meta.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import { World } from '../testing/world.ts';
import { damages } from './inventory.ts';

const damage = 'the image is gone. Bring the file back as it was, or delete the volume';
const nameOf = ({ metadata, spec }: Stored<Volume>): string => copyName({ volumeUid: metadata.uid, copy: spec.copy ?? '' });
const entryOf = (world: World, name = 'db') => world.volume(name).status?.copies?.[world.volume(name).spec.copy ?? ''];
const disk = (world: World, node = 'node-1') => world.machine(node).disk;

/** Two volumes on node-1. */
async function two(): Promise<World> {
  const world = new World({ nodes: 2 });
  await world.settle();
  await world.create();
  await world.create({}, 'other');
  return world;
}

async function broken(world: World, name: string, labelled: boolean, node = 'node-1'): Promise<void> {
  disk(world, node).damaged.set(name, { damage, labelled });
  world.agent(node).inventory.touched('local');
  await world.settle();
}

async function mended(world: World, node = 'node-1'): Promise<void> {
  disk(world, node).damaged.clear();
  world.agent(node).inventory.touched('local');
  await world.settle();
}

for (const labelled of [true, false]) {
  const what = labelled ? 'a damaged copy' : 'a copy whose label cannot be read';

  test(`${what} blocks its volume with the reason, the node's others do not notice, and it is over when the file is back`, async () => {
    const world = await two();
    const before = entryOf(world);
    await broken(world, nameOf(world.volume()), labelled);
    assert.deepEqual([world.volume().status?.phase, world.volume().status?.obstacle?.reason], ['Blocked', 'CopyDamaged']);
    assert.equal(world.volume().status?.obstacle?.message, damage);
    const { obstacle, ...entry } = entryOf(world) ?? assert.fail('the entry was dropped');
    assert.deepEqual([entry, obstacle?.reason], [before, 'CopyDamaged']);
    await assert.rejects(world.publish('node-1'), { reason: 'Corrupt', message: damage });
    const { publishing, inventory } = world.agent('node-1');
    assert.deepEqual([...(await inventory.problems())], []);
    assert.deepEqual([...(await damages(inventory)).keys()], [nameOf(world.volume())]);
    await publishing.publish({ volume: 'other', target: '/srv/other', readOnly: false });
    await world.settle();
    assert.equal(world.volume('other').status?.phase, 'Published');
    await publishing.unpublish({ volume: 'other' });
    await world.order('node-2', { name: 'away', volume: 'other' });
    await world.pass(60_000);
    assert.equal(world.volume('other').spec.node, 'node-2');
    await mended(world);
    assert.equal(world.volume().status?.phase, 'Available');
    assert.deepEqual(entryOf(world), before);
    assert.deepEqual(await world.lost(), []);
  });

  test(`${what} that is in use can be unmounted, and its record follows`, async () => {
    const world = await two();
    await world.publish('node-1');
    await broken(world, nameOf(world.volume()), labelled);
    assert.deepEqual(entryOf(world)?.published, ['/srv/db']);
    if (!labelled)
      await assert.rejects(world.agent('node-1').publishing.published('db'), { reason: 'Unavailable', message: /image is gone/u });
    await world.unpublish('node-1');
    await world.settle();
    assert.deepEqual([world.machine('node-1').mounts.size, entryOf(world)?.published], [0, []]);
    assert.equal(disk(world).copies.get(nameOf(world.volume()))?.device, null);
  });

  test(`what is left of ${what} goes with its volume, and with it alone`, async () => {
    const world = await two();
    const name = nameOf(world.volume());
    await broken(world, name, labelled);
    await world.pass(60_000);
    assert.ok(disk(world).copies.has(name));
    await world.client.delete(Volumes, 'db');
    await world.settle();
    assert.ok(!world.volumes().some(({ metadata }) => metadata.name === 'db'));
    assert.deepEqual([...disk(world).copies.keys()], [nameOf(world.volume('other'))]);
  });

  test(`${what} that a move was filling takes no more bytes, and goes when the move is taken back`, async () => {
    const world = await two();
    await world.publish('node-1');
    world.write('node-1', 3n, 'kept');
    await world.order('node-2');
    await world.settle();
    const { copy } = world.move().status?.target ?? assert.fail();
    const target = copyName({ volumeUid: world.volume().metadata.uid, copy });
    await broken(world, target, labelled, 'node-2');
    await world.unpublish('node-1');
    await world.pass(60_000);
    assert.equal(world.volume().spec.node, 'node-1');
    assert.ok(disk(world, 'node-2').copies.has(target));
    assert.equal(world.move().status?.obstacle?.message, damage);
    assert.equal(copiesOf(world.volume())[copy]?.obstacle?.reason, 'CopyDamaged');
    await world.cancel();
    await world.pass(60_000);
    assert.equal(world.move().status?.phase, 'Cancelled');
    assert.equal(disk(world, 'node-2').copies.size, 0);
    assert.deepEqual(await world.lost(), []);
  });
}

test('a damaged source is not copied from, and what it had is served again once its file is back', async () => {
  const world = await two();
  await world.publish('node-1');
  world.write('node-1', 3n, 'kept');
  await world.unpublish('node-1');
  await broken(world, nameOf(world.volume()), true);
  await world.order('node-2');
  await world.pass(60_000);
  assert.equal(world.volume().spec.node, 'node-1');
  await mended(world);
  await world.pass(60_000);
  assert.equal(world.volume().spec.node, 'node-2');
  assert.deepEqual(await world.lost(), []);
});

test('a journal that cannot be read keeps nobody else from his volume', async () => {
  const world = await two();
  await world.publish('node-1');
  await world.order('node-2');
  await world.settle();
  await world.client.create(Volumes, { ...world.volume(), metadata: { name: 'third' }, spec: { size: String(8 << 20), node: 'node-2' } });
  await world.settle();
  world.machine('node-2').journals.get = () => {
    throw new FlockError('Corrupt', 'the journal is garbled');
  };
  await world.agent('node-2').publishing.publish({ volume: 'third', target: '/srv/third', readOnly: false });
});

test('with its pool unreadable a volume is unmounted all the same, detached, and told to be in use until then', async () => {
  const world = await two();
  await world.publish('node-1');
  await world.publish('node-1', '/srv/again');
  await world.settle();
  disk(world).gone = 'another mount';
  world.agent('node-1').inventory.touched('local');
  const { publishing } = world.agent('node-1');
  await assert.rejects(publishing.published('db'), { reason: 'Unavailable', message: /mounted at \/srv\/db.*another mount/u });
  await assert.rejects(publishing.fill('db'), { reason: 'Unavailable' });
  await publishing.unpublish({ volume: 'db', target: '/srv/again' });
  assert.deepEqual([...world.machine('node-1').mounts.keys()], ['/srv/db']);
  await world.unpublish('node-1');
  assert.equal(world.machine('node-1').mounts.size, 0);
  assert.equal(disk(world).copies.get(nameOf(world.volume()))?.device, null);
  assert.equal(await publishing.published('db'), null);
  await world.settle();
  assert.deepEqual(entryOf(world)?.published, []);
});

test('a volume whose record is gone is unmounted all the same, also when its pool is gone too', async () => {
  for (const gone of [null, 'another mount']) {
    const world = await two();
    await world.publish('node-1');
    await world.client.patch(Volumes, 'db', { metadata: { finalizers: [] } });
    await world.client.delete(Volumes, 'db');
    disk(world).gone = gone;
    world.agent('node-1').inventory.touched('local');
    await world.unpublish('node-1');
    assert.equal(world.machine('node-1').mounts.size, 0);
  }
});

test('an unmount that fails is no success, whatever the pool says, and is tried again', async () => {
  const world = await two();
  await world.publish('node-1');
  const { mounts } = world.machine('node-1');
  disk(world).gone = 'another mount';
  world.agent('node-1').inventory.touched('local');
  mounts.delete = () => {
    throw new FlockError('InUse', '/srv/db is in use by process 7');
  };
  await assert.rejects(world.unpublish('node-1'), { reason: 'InUse', message: /process 7/u });
  Reflect.deleteProperty(mounts, 'delete');
  await world.unpublish('node-1');
  assert.equal(mounts.size, 0);
});
