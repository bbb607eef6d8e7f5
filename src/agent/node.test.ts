// One node's agent over its disk and the records: what it serves, what it refuses, what it never makes again, and how it comes back.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlockError } from '../model/errors.ts';
import { Moves } from '../model/move.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { Volumes } from '../model/volume.ts';
import { copyName } from '../model/label.ts';
import { World } from '../testing/world.ts';

async function placed(nodes = 2): Promise<World> {
  const world = new World({ nodes });
  await world.settle();
  await world.create();
  return world;
}

/** The wire is cut, so that the move stays in FinalDelta. */
async function fenced(): Promise<World> {
  const world = await placed();
  await world.publish('node-1');
  world.write('node-1', 3n, 'kept');
  await world.order('node-2');
  await world.settle();
  world.cut.add('node-2>node-1');
  await world.unpublish('node-1');
  await world.settle();
  assert.equal(world.move().status?.phase, 'FinalDelta');
  return world;
}

const nameOn = (world: World): string => copyName({ volumeUid: world.volume().metadata.uid, copy: world.volume().spec.copy ?? '' });
const onNode1 = (world: World): ReturnType<World['machine']>['disk'] => world.machine('node-1').disk;
const obstacle = (world: World): string | undefined => world.volume().status?.copies?.[world.volume().spec.copy ?? '']?.obstacle?.reason;

test('a volume is formatted once, and keeps what was written through unmounts and restarts', async () => {
  const world = await placed();
  for (let times = 0; times < 3; times += 1) {
    await world.publish('node-1');
    if (times === 0) world.write('node-1', 3n, 'kept');
    await world.unpublish('node-1');
    world.kill('node-1');
    world.start('node-1');
  }
  assert.equal(world.machine('node-1').formatted, 1);
  assert.deepEqual(await world.lost(), []);
});

for (const [what, label] of [
  ['was superseded', { role: 'stale' }],
  ['was fenced', { role: 'retired' }],
  ['is of a later epoch', { epoch: 9 }],
] as const)
  test(`what a label says now counts, and not what it said when it was read: a copy that ${what} is not served`, async () => {
    const world = await placed();
    for (const copy of onNode1(world).copies.values()) copy.label = { ...copy.label, ...label };
    await assert.rejects(world.publish('node-1'), /is stale|is retired|label says epoch 9/u);
  });

test('a disk that was put back to before its first format is not formatted again', async () => {
  const world = await placed();
  await world.publish('node-1');
  await world.unpublish('node-1');
  await world.settle();
  for (const copy of onNode1(world).copies.values()) {
    copy.label = { ...copy.label, formatted: false };
    copy.live.clear();
  }
  world.kill('node-1');
  world.start('node-1');
  await world.settle();
  assert.equal(obstacle(world), 'DiskBehind');
  await assert.rejects(world.publish('node-1'), /put back to an older state/u);
  await world.settle();
  assert.equal(obstacle(world), 'DiskBehind', 'and the record remembers');
  assert.equal(world.machine('node-1').formatted, 1);
});

test('publishing twice at one path is once; a second path is another use', async () => {
  const world = await placed();
  await world.publish('node-1');
  await world.publish('node-1');
  await world.publish('node-1', '/srv/more');
  await world.settle();
  assert.deepEqual(world.volume().status?.copies?.[world.volume().spec.copy ?? '']?.published, ['/srv/db', '/srv/more']);
  await world.unpublish('node-1');
  await world.settle();
  assert.equal(world.volume().status?.phase, 'Available');
  assert.equal([...onNode1(world).copies.values()][0]?.device, null);
});

test('a path in use by another volume is refused by name', async () => {
  const world = await placed();
  await world.create({}, 'other');
  await world.publish('node-1');
  const { publishing } = world.agent('node-1');
  await assert.rejects(publishing.publish({ volume: 'other', target: '/srv/db', readOnly: false }), { reason: 'InUse' });
});

for (const target of ['relative/path', '', 'with\0zero', `/${'x'.repeat(5000)}`])
  test(`a mount point that cannot be right is refused: ${JSON.stringify(target.slice(0, 20))}`, async () => {
    const { publishing } = (await placed()).agent('node-1');
    await assert.rejects(publishing.publish({ volume: 'db', target, readOnly: false }), { reason: 'Invalid' });
  });

test('X-03: a volume whose name is a path is no volume', async () => {
  const { publishing } = (await placed()).agent('node-1');
  for (const volume of ['../etc', 'a/b', 'a\nb', 'Ä'])
    await assert.rejects(async () => publishing.publish({ volume, target: '/srv/db', readOnly: false }), { reason: 'Invalid' });
});

test('another node does not serve it, nor one that lost its Lease', async () => {
  const world = await placed();
  await assert.rejects(world.publish('node-2'), { reason: 'NotPermitted', message: /volume db is on node node-1/u });
  world.silent.add('node-1');
  await assert.rejects(world.publish('node-1'), { reason: 'NotPermitted', message: /Lease/u });
});

test('a copy whose filesystem could not be grown is in use all the same, says why, and is grown later', async () => {
  const world = await placed();
  world.machine('node-1').growthError = new FlockError('NotPermitted', 'resize2fs failed');
  await world.publish('node-1');
  await world.settle();
  assert.equal(world.volume().status?.phase, 'Blocked');
  assert.equal(world.volume().status?.obstacle?.message, 'resize2fs failed');
  world.machine('node-1').growthError = null;
  await world.unpublish('node-1');
  await world.publish('node-1');
  await world.settle();
  assert.equal(world.volume().status?.phase, 'Published');
});

test('a repeated publish that is refused does not forget the mount that is there', async () => {
  const world = await placed();
  await world.publish('node-1');
  const { publishing } = world.agent('node-1');
  await assert.rejects(publishing.publish({ volume: 'db', target: '/srv/db', readOnly: true }), { reason: 'InUse' });
  await world.settle();
  assert.equal(world.volume().status?.phase, 'Published');
});

test('what was unmounted without a word is published no more, but never what a kubelet staged, and nothing that is mounted', async () => {
  const world = await placed();
  const { publishing } = world.agent('node-1');
  const { mounts } = world.machine('node-1');
  const order = { volume: 'db', target: '/srv/db', readOnly: false };
  await publishing.publish(order);
  assert.deepEqual(await publishing.endUnmounted(), []);
  mounts.delete('/srv/db');
  assert.deepEqual(await publishing.endUnmounted(), [{ volume: 'db', targets: ['/srv/db'] }]);
  assert.deepEqual([await publishing.published('db'), [...onNode1(world).copies.values()][0]?.device], [null, null]);
  await publishing.publish({ ...order, staged: true });
  mounts.delete('/srv/db');
  assert.deepEqual(await publishing.endUnmounted(), []);
  assert.deepEqual(
    (await publishing.published('db'))?.publications.map(({ target }) => target),
    ['/srv/db'],
  );
  await publishing.unpublish({ volume: 'db', target: '/srv/db' });
  assert.equal(await publishing.published('db'), null);
});

test('of two mounts one that was unmounted without a word counts until the other is gone too, or its copy can be seen', async () => {
  const world = await placed();
  const { publishing, inventory } = world.agent('node-1');
  const { mounts } = world.machine('node-1');
  await world.publish('node-1');
  await world.publish('node-1', '/srv/more');
  mounts.delete('/srv/db');
  assert.deepEqual(await publishing.endUnmounted(), []);
  mounts.delete('/srv/more');
  onNode1(world).gone = 'another mount';
  inventory.touched('local');
  assert.deepEqual(await publishing.endUnmounted(), []);
  onNode1(world).gone = null;
  inventory.touched('local');
  assert.deepEqual(await publishing.endUnmounted(), [{ volume: 'db', targets: ['/srv/db', '/srv/more'] }]);
});

test('an unmount without a word that comes while the volume is being mounted anew does not end that mount', async () => {
  const world = await placed();
  const { publishing } = world.agent('node-1');
  await world.publish('node-1');
  world.machine('node-1').mounts.delete('/srv/db');
  // Whoever of the two is first: the volume is in use afterwards.
  await Promise.all([
    publishing.endUnmounted(),
    publishing.publish({ volume: 'db', target: '/srv/db', readOnly: false }),
    publishing.endUnmounted(),
  ]);
  assert.ok(world.machine('node-1').mounts.has('/srv/db'));
  assert.equal((await publishing.published('db'))?.publications.length, 1);
});

test('a path that something else is mounted on is refused, and the volume is not in use then', async () => {
  const world = await placed();
  world.machine('node-1').mounts.set('/srv/taken', { device: '/dev/elsewhere', readOnly: false });
  await assert.rejects(world.publish('node-1', '/srv/taken'), { reason: 'InUse' });
  world.machine('node-1').mounts.delete('/srv/taken');
  await world.settle();
  assert.equal(world.volume().status?.phase, 'Available');
});

test('an agent restarted while the source is fenced holds it again before anything else, and the move goes on', async () => {
  const world = await fenced();
  world.kill('node-1');
  world.start('node-1');
  await world.settle();
  await assert.rejects(world.agent('node-1').pool.attach(nameOn(world)), { reason: 'InUse' });
  await assert.rejects(world.publish('node-1'), { reason: 'NotPermitted' });
  world.cut.clear();
  await world.pass(60_000);
  assert.equal(world.move().status?.phase, 'Retaining');
  assert.deepEqual(await world.lost(), []);
});

test('an agent restarted in the middle of a round goes on from its journal', async () => {
  const world = await placed();
  await world.publish('node-1');
  world.write('node-1', 3n, 'kept');
  await world.settle();
  world.death = { who: 'node-2', at: 'round:pulled', nth: 1 };
  await world.order('node-2');
  await world.settle();
  assert.equal(world.death, null, 'it died there');
  assert.equal(world.move().status?.phase, 'ReadyToCutOver');
});

test('records that were rolled back activate nothing: RecordBehind, and the bytes stay', async () => {
  const world = await placed();
  const copy = onNode1(world).copies.get(nameOn(world));
  assert.ok(copy);
  copy.label = { ...copy.label, epoch: 7 };
  world.agent('node-1').inventory.touched('local');
  await world.settle();
  assert.equal(obstacle(world), 'RecordBehind');
  assert.equal(world.volume().status?.phase, 'Blocked');
  await assert.rejects(world.publish('node-1'), { reason: 'NotPermitted', message: /records were rolled back/u });
  assert.deepEqual(world.copies(), ['node-1 active 7']);
});

test('a copy that was made and is gone is an error, and never made again', async () => {
  const world = await placed();
  onNode1(world).gone = 'the disk is away';
  onNode1(world).copies.clear();
  world.agent('node-1').inventory.touched('local');
  await world.settle();
  assert.equal(obstacle(world), 'PoolNotUsable');
  world.check = () => undefined;
  onNode1(world).gone = null;
  world.agent('node-1').inventory.touched('local');
  await world.settle();
  assert.equal(obstacle(world), 'CopyMissing');
  assert.deepEqual(world.copies(), []);
  const before = world.registry.version;
  await world.turn();
  assert.equal(world.registry.version, before);
});

test('a pool that comes back clears its obstacle', async () => {
  const world = await placed();
  onNode1(world).gone = 'another mount';
  world.agent('node-1').inventory.touched('local');
  await world.settle();
  assert.equal(world.volume().status?.phase, 'Blocked');
  onNode1(world).gone = null;
  world.agent('node-1').inventory.touched('local');
  await world.settle();
  assert.equal(world.volume().status?.phase, 'Available');
});

test('the copies of a volume that was made anew under its name are kept apart', async () => {
  const world = await placed();
  const old = nameOn(world);
  await world.client.patch(Volumes, 'db', { metadata: { finalizers: [] } });
  await world.client.delete(Volumes, 'db');
  await world.create();
  assert.equal(world.volume().status?.phase, 'Available');
  assert.ok(onNode1(world).copies.has(old), 'nobody said that the old one may go');
  await world.client.delete(Volumes, 'db');
  await world.settle();
  assert.deepEqual([...onNode1(world).copies.keys()], [old]);
});

test('a larger volume is grown where it is, and says its new size', async () => {
  const world = await placed();
  await world.publish('node-1');
  await world.client.patch(Volumes, 'db', { spec: { size: '16Mi' } });
  await world.settle();
  assert.equal(world.volume().status?.capacity, String(16 << 20));
});

test('growth that was begun before a move was accepted reaches the target too', async () => {
  const world = await placed();
  await world.publish('node-1');
  await world.settle();
  await world.order('node-2');
  world.cut.add('node-2>node-1');
  for (let turns = 0; turns < 4; turns += 1) await world.turn();
  assert.ok(world.copies().includes('node-2 incoming 1'));
  await world.agent('node-1').pool.grow(nameOn(world), 16n << 20n);
  world.agent('node-1').inventory.touched('local');
  world.cut.clear();
  await world.pass(60_000);
  assert.equal(world.move().status?.phase, 'ReadyToCutOver');
  await world.unpublish('node-1');
  await world.settle();
  assert.equal(world.volume().status?.capacity, String(16 << 20));
});

test('a fence whose move vanished is lifted by raising the epoch', async () => {
  const world = await fenced();
  await world.client.patch(Moves, 'move', { metadata: { finalizers: [] } });
  await world.client.delete(Moves, 'move');
  await world.settle();
  assert.equal(obstacle(world), 'FencedWithoutMove');
  await world.client.patch(Volumes, 'db', { spec: { epoch: 2 } });
  await world.settle();
  assert.deepEqual(world.copies(), ['node-1 active 2']);
  assert.deepEqual(await world.lost(), []);
});

test('a lagging watch that has not told of the move does not cost what was copied', async () => {
  const world = await placed();
  await world.publish('node-1');
  await world.order('node-2');
  await world.settle();
  const sent = world.move().status?.incoming?.bytesSent;
  world.kill('node-2');
  world.watchesAreEmpty = true;
  world.start('node-2');
  await world.agent('node-2').reconciler.reconcile('db');
  world.watchesAreEmpty = false;
  assert.ok(world.copies().includes('node-2 incoming 1'));
  await world.settle();
  assert.equal(world.move().status?.phase, 'ReadyToCutOver');
  assert.equal(world.move().status?.incoming?.bytesSent, sent);
});

test('a volume that was formatted and whose device looks blank is refused, and not formatted again', async () => {
  const world = await placed();
  await world.publish('node-1');
  await world.unpublish('node-1');
  for (const { live } of onNode1(world).copies.values()) live.clear();
  await assert.rejects(world.publish('node-1'), /formatted by record, but holds nothing/u);
  assert.equal(world.machine('node-1').formatted, 1);
});

test('a volume that is being cut over is not served, although no watch has told of its move', async () => {
  const world = await placed();
  await world.publish('node-1');
  await world.order('node-2');
  await world.settle();
  await world.unpublish('node-1');
  await world.act('node-1');
  await world.act('controller-1');
  assert.equal(world.move().status?.phase, 'Fencing');
  world.watchesAreEmpty = true;
  await assert.rejects(world.publish('node-1'), /being cut over to node node-2/u);
  world.watchesAreEmpty = false;
  await world.settle();
  assert.equal(world.volume().spec.node, 'node-2');
});

test('a node that was removed from the records leaves its volume waiting, not lost', async () => {
  const world = await placed();
  assert.ok(world.nodes().length > 0);
  await world.client.delete(StorageNodes, 'node-2');
  await world.settle();
  assert.equal(world.volume().status?.phase, 'Available');
});
