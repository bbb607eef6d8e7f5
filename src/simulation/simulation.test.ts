// The simulation itself: what it owes its users (the same history from the same seed), a few histories of it, and what its world found once
// and only a whole agent can show. Long runs are `npm run simulate`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MOVE_FINALIZER, Moves, type Move } from '../model/move.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import { GROUP_VERSION } from '../model/meta.ts';
import { simulate } from './simulate.ts';
import { FOLDERS, World } from './world.ts';

test('the same seed gives the same history, whether it is told or not', async () => {
  const lines: string[] = [];
  const [first, told] = [await simulate(33), await simulate(33, { tell: (line) => void lines.push(line) })];
  assert.deepEqual(told, first);
  assert.ok(lines.length > first.steps);
});

test('another seed gives another history', async () => {
  const [one, other] = [await simulate(11), await simulate(12)];
  assert.notEqual(one.digest, other.digest);
  assert.deepEqual([one.breach, other.breach], [null, null]);
});

/** A calm world with a volume on a node, and what the record says of its copy. */
async function withVolume(
  tell: ((line: string) => void) | null = null,
  pool = 'local',
): Promise<{ world: World; volume: () => Volume | undefined }> {
  // A seed whose pools of devices have points in time, and whose nodes have pools of directories beside them.
  const world = new World(3, tell);
  world.deaths.calm = true;
  await world.pass(20_000);
  const spec = { size: '8Mi', node: 'node-1', pool };
  world.server.registry.create<Volume>(Volumes, { apiVersion: GROUP_VERSION, kind: 'Volume', metadata: { name: 'db' }, spec } as Volume);
  await world.pass(20_000);
  return { world, volume: () => world.volumes()[0] };
}

test('a pool that was away between two looks of its agent leaves nothing blocked', async () => {
  const { world, volume } = await withVolume();
  const { disk } = world.machine('node-1');
  const ask = async (path: string): Promise<void> => {
    const asked = world.call('node-1', path, { volume: 'db', target: '/srv/db', readOnly: false });
    await world.pass(1_000);
    await asked;
  };
  await ask('/v1/publish');
  disk.gone = 'it is not mounted';
  await ask('/v1/unpublish');
  assert.equal(volume()?.status?.obstacle?.reason, 'PoolNotUsable');
  disk.gone = null;
  await world.pass(60_000);
  assert.equal(volume()?.status?.phase, 'Available');
  assert.equal(world.rules.breach, null);
});

test('a copy that vanished from its pool is told of without anything else happening', async () => {
  const { world, volume } = await withVolume();
  const { disk } = world.machine('node-1');
  world.rules.diskLost('node-1', disk);
  disk.copies.clear();
  await world.pass(60_000);
  assert.equal(volume()?.status?.obstacle?.reason, 'CopyMissing');
});

test('a point that was frozen while its move ended is released without anything else happening', async () => {
  const { world } = await withVolume();
  const { disk } = world.machine('node-1');
  const [copy] = disk.copies.values();
  assert.ok(copy);
  copy.points.set('0123456789abr0', { blocks: new Map(), size: copy.size });
  await world.pass(60_000);
  assert.deepEqual([...copy.points.keys()], []);
  assert.equal(world.rules.breach, null);
});

test('what an agent cannot do is told of by an event, with the reason', async () => {
  const lines: string[] = [];
  const { world } = await withVolume((line) => void lines.push(line));
  const { disk } = world.machine('node-1');
  disk.capacity = 0n;
  world.rules.ordered(() => world.server.registry.patch(Volumes, 'db', { spec: { size: '16Mi' } }));
  await world.pass(5_000);
  assert.ok(lines.some((line) => /tells of db \(Warning GrowFailed\): .*room/u.test(line)));
});

test('a directory of which somebody has files open without a mount is fenced only once he has closed them', async () => {
  const { world, volume } = await withVolume(null, FOLDERS);
  const machine = world.machine('node-1');
  const [copy] = machine.copies.values();
  assert.ok(copy);
  const file = { copy, who: 'a backup' };
  machine.open.add(file);
  const spec = { volume: 'db', target: 'node-2' };
  world.server.registry.create<Move>(Moves, { apiVersion: GROUP_VERSION, kind: 'Move', metadata: { name: 'there' }, spec } as Move);
  await world.pass(15_000);
  assert.equal(copy.label.role, 'active');
  assert.equal(world.moves()[0]?.status?.obstacle?.reason, 'InUse');
  machine.open.delete(file);
  await world.pass(240_000);
  assert.equal(volume()?.spec.node, 'node-2');
  assert.equal(world.rules.breach, null);
});

/** Whoever passes this point first dies there; all others live. True once it happened. */
function dyingAt(world: World, role: string, point: string): () => boolean {
  let died = false;
  world.deaths.due = (who, name) => {
    if (died || who !== role || name !== point) return null;
    died = true;
    return 'death';
  };
  return () => died;
}

const DEADLY = [
  ['agent', 'publish:mounted'],
  ['agent', 'unpublish:unmounted'],
  ['controller', 'accept:finalizer'],
  ['agent', 'fence:labelled'],
  ['controller', 'commit:swapped'],
  ['agent', 'activate:labelled'],
  ['agent', 'remove:removed'],
  ['agent', 'create:labelled', FOLDERS],
  ['agent', 'hold:renamed', FOLDERS],
  ['agent', 'tree.round.completed', FOLDERS],
  ['agent', 'activate:labelled', FOLDERS],
  ['agent', 'remove:labelled', FOLDERS],
] as const;
for (const [role, point, pool] of DEADLY)
  test(`whoever dies at ${point}${pool === undefined ? '' : ' of a directory'} and is started again leaves no mount, no unproven copy and nothing on a disk`, async () => {
    const { world, volume } = await withVolume(null, pool);
    const died = dyingAt(world, role, point);
    const ask = async (path: string): Promise<void> => {
      const asked = world.call('node-1', path, { volume: 'db', target: '/srv/db', readOnly: false }).catch(() => undefined);
      await world.pass(20_000);
      await asked;
    };
    await ask('/v1/publish');
    for (let tries = 0; tries < 3; tries += 1) await ask('/v1/unpublish');
    assert.equal(world.machine('node-1').mounts.size, 0);
    const { registry } = world.server;
    const spec = { volume: 'db', target: 'node-2' };
    registry.create<Move>(Moves, { apiVersion: GROUP_VERSION, kind: 'Move', metadata: { name: 'there' }, spec } as Move);
    await world.pass(240_000);
    assert.equal(volume()?.spec.node, 'node-2');
    const [move] = world.moves();
    assert.equal(move?.status?.incoming?.scrub?.state, 'Passed');
    assert.deepEqual(move.metadata.finalizers, [MOVE_FINALIZER]);
    registry.delete(Volumes, 'db');
    await world.pass(120_000);
    assert.deepEqual(world.volumes(), []);
    assert.deepEqual(
      [...world.machines.values()].flatMap(({ copies }) => [...copies.keys()]),
      [],
    );
    assert.equal(world.rules.breach, null);
    assert.ok(died(), 'nobody came by');
  });
