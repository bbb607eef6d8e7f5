// A volume's life from its creation to its end, with controllers and agents as they are: told by the world of src/testing/world.ts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Moves, type Move } from '../model/move.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import { World } from '../testing/world.ts';

const TEN_MINUTES = 600_000;

/** db on node-1 with something written by an application that still runs. */
async function inUse(options: ConstructorParameters<typeof World>[0] = {}): Promise<World> {
  const world = new World(options);
  await world.settle();
  await world.create();
  await world.publish('node-1');
  world.write('node-1', 3n, 'first');
  await world.settle();
  return world;
}

/** The move waits for the application to stop. */
async function ready(options: ConstructorParameters<typeof World>[0] = {}): Promise<World> {
  const world = await inUse(options);
  await world.order('node-2');
  await world.settle();
  assert.equal(world.move().status?.phase, 'ReadyToCutOver');
  return world;
}

const conditions = ({ status }: Volume | Move): string[] => (status?.conditions ?? []).map(({ type, status: is }) => `${type}=${is}`);
const errors = (world: World): unknown[] => world.log.lines.filter(({ level }) => level === 'warn' || level === 'error');

test('created, published, moved while it is used, published at the target, kept, scrubbed, released, done', async () => {
  const world = await ready();
  assert.equal(world.move().status?.obstacle?.reason, 'WaitingForUnpublish');
  world.write('node-1', 5n, 'written during the move');
  await world.pass(10_000);
  assert.ok((world.move().status?.round ?? 0) >= 1, 'idle rounds go on');
  world.write('node-1', 6n, 'the very last');
  await world.unpublish('node-1');
  await world.settle();
  assert.equal(world.move().status?.phase, 'Retaining');
  assert.deepEqual(world.copies(), ['node-1 stale 1', 'node-2 active 2']);
  assert.deepEqual(await world.lost(), []);
  await world.publish('node-2');
  world.write('node-2', 7n, 'at home');
  await world.passLong();
  assert.equal(world.move().status?.incoming?.scrub?.state, 'Passed');
  assert.equal(world.move().status?.phase, 'Done');
  assert.deepEqual(conditions(world.move()), ['Complete=True']);
  assert.deepEqual(conditions(world.volume()), ['Ready=True']);
  assert.deepEqual(world.copies(), ['node-2 active 2']);
  assert.deepEqual(await world.lost(), []);
});

test('a move that waits for days keeps the sizes of its first round and of the last ones, and tells nothing anew', async () => {
  const world = await ready();
  const told = world.told.length;
  const since = world.move().status?.obstacle?.since;
  for (let rounds = 0; rounds < 40; rounds += 1) {
    world.write('node-1', BigInt(5 + rounds), 'written during the move');
    await world.pass(10_000);
  }
  const { incoming, obstacle } = world.move().status ?? {};
  assert.equal(incoming?.roundCount, 41);
  assert.equal(incoming.rounds?.length, 16);
  assert.deepEqual([obstacle?.reason, obstacle?.since], ['WaitingForUnpublish', since]);
  assert.deepEqual(world.told.slice(told), []);
});

test('O-03: a move that goes well writes no warning and no error, and fails at nothing', async () => {
  const world = await ready();
  await world.unpublish('node-1');
  await world.passLong();
  assert.equal(world.move().status?.phase, 'Done');
  assert.deepEqual(errors(world), []);
  assert.deepEqual(world.failures, []);
  assert.deepEqual(
    world.told.filter((line) => line.startsWith('Warning')),
    [],
  );
});

test('an unchanged world costs no write', async () => {
  const world = await inUse();
  const before = world.registry.version;
  for (let turns = 0; turns < 5; turns += 1) await world.turn();
  assert.equal(world.registry.version, before);
});

test('a volume formatted after its move began keeps its bytes at the target', async () => {
  const world = new World();
  await world.settle();
  await world.create({ allowedPause: '1ms' });
  await world.order('node-2');
  for (let turns = 0; turns < 3; turns += 1) await world.turn();
  assert.ok(world.copies().includes('node-2 incoming 1'), 'its copy was made while nothing was formatted');
  await world.publish('node-1');
  world.write('node-1', 3n, 'first');
  await world.settle();
  await world.unpublish('node-1');
  await world.settle();
  assert.deepEqual(await world.lost(), []);
  assert.equal(world.machine('node-2').formatted, 0);
  assert.ok(world.volume().status?.copies?.[world.volume().spec.copy ?? '']?.formatted);
});

test('a move back sends only what differs, onto the kept copy, and ends the retention of the first', async () => {
  const world = await ready();
  await world.unpublish('node-1');
  await world.settle();
  await world.publish('node-2');
  world.write('node-2', 7n, 'at home');
  await world.unpublish('node-2');
  await world.order('node-1', { name: 'back' });
  await world.settle();
  assert.equal(world.move('back').status?.reused, true);
  assert.equal(world.move('back').status?.incoming?.bytesSent, '4096');
  assert.equal(world.move().status?.phase, 'Done');
  assert.deepEqual(world.copies(), ['node-1 active 3', 'node-2 stale 2']);
  assert.deepEqual(await world.lost(), []);
  await world.passLong();
  assert.equal(world.move('back').status?.phase, 'Done');
  assert.deepEqual(world.copies(), ['node-1 active 3']);
});

test('moves onwards leave one copy in the end, and every move is done', async () => {
  const world = await ready({ nodes: 3 });
  await world.unpublish('node-1');
  await world.settle();
  await world.order('node-3', { name: 'onwards' });
  await world.settle();
  assert.deepEqual(world.copies(), ['node-1 stale 1', 'node-2 stale 2', 'node-3 active 3']);
  await world.passLong();
  await world.passLong();
  assert.deepEqual(
    world.moves().map(({ status }) => status?.phase),
    ['Done', 'Done'],
  );
  assert.deepEqual(world.copies(), ['node-3 active 3']);
  assert.deepEqual(await world.lost(), []);
});

/** Turn by turn until the move says so; those that a turn passes through are seen by the sweeps below. */
async function until(world: World, phase: string): Promise<void> {
  for (let turns = 0; world.move().status?.phase !== phase; turns += 1) {
    assert.ok(turns < 60, `never ${phase}, but ${world.move().status?.phase}`);
    await world.turn();
  }
}

const STOPPABLE = ['Pending', 'Reserving', 'Syncing', 'ReadyToCutOver', 'Fencing', 'FinalDelta', 'Verifying'] as const;
async function movingIn(phase: (typeof STOPPABLE)[number]): Promise<World> {
  const world = await inUse();
  if (phase === 'Pending') {
    world.silent.add('node-2');
    await world.settle();
  }
  await world.order('node-2');
  if (AFTER_UNPUBLISH.includes(phase)) {
    await world.settle();
    await world.unpublish('node-1');
  }
  await until(world, phase);
  return world;
}
const AFTER_UNPUBLISH: readonly string[] = ['Fencing', 'FinalDelta', 'Verifying'];

for (const phase of STOPPABLE) {
  test(`cancelled in ${phase} it ends, and the source is used on`, async () => {
    const world = await movingIn(phase);
    await world.cancel();
    await world.settle();
    world.silent.clear();
    await world.pass(60_000);
    assert.equal(world.move().status?.phase, 'Cancelled');
    assert.equal(world.copies().length, 1);
    assert.match(world.copies()[0] ?? '', /^node-1 active/u);
    assert.deepEqual(await world.lost(), []);
  });

  test(`D-09: deleted in ${phase}, it is on no disk afterwards`, async () => {
    const world = await movingIn(phase);
    await world.unpublish('node-1');
    await world.client.delete(Volumes, 'db');
    await world.settle();
    world.silent.clear();
    await world.pass(60_000);
    assert.deepEqual(world.volumes(), []);
    assert.deepEqual(world.copies(), []);
    assert.equal(world.move().status?.phase, 'Cancelled');
  });
}

test('a deletion waits for the application, and says so', async () => {
  const world = await inUse();
  await world.client.delete(Volumes, 'db');
  await world.settle();
  assert.equal(world.volume().status?.obstacle?.message, 'the volume is deleted once it is unmounted from /srv/db');
  await world.unpublish('node-1');
  await world.settle();
  assert.deepEqual(world.copies(), []);
});

test('without room at the target it is Blocked, and goes on when there is some', async () => {
  const world = await inUse();
  world.machine('node-2').disk.capacity = 4096n;
  await world.settle();
  await world.order('node-2');
  await world.settle();
  assert.equal(world.move().status?.obstacle?.reason, 'NoSpace');
  world.machine('node-2').disk.capacity = 1n << 30n;
  await world.settle();
  assert.equal(world.move().status?.phase, 'ReadyToCutOver');
});

test('a target that somebody else filled after the acceptance is Blocked, costs no writes, and goes on', async () => {
  const world = await inUse();
  await world.order('node-2');
  await world.turn();
  assert.equal(world.move().status?.phase, 'Reserving');
  world.machine('node-2').disk.capacity = 4096n;
  world.agent('node-2').inventory.touched('local');
  await world.settle();
  assert.equal(world.move().status?.obstacle?.reason, 'NoSpace');
  const before = world.registry.version;
  await world.clock.advance(30_000);
  await world.turn();
  assert.equal(world.registry.version, before);
  world.machine('node-2').disk.capacity = 1n << 30n;
  await world.settle();
  assert.equal(world.move().status?.phase, 'ReadyToCutOver');
});

test('a source that cannot be reached while it is fenced is given back, and the move tries again', async () => {
  const world = await ready();
  world.cut.add('node-2>node-1');
  await world.unpublish('node-1');
  await world.settle();
  assert.equal(world.move().status?.phase, 'FinalDelta');
  await world.pass(TEN_MINUTES);
  assert.equal(world.move().status?.attempts, 1);
  assert.equal(world.volume().spec.epoch, 2);
  world.cut.clear();
  await world.pass(60_000);
  assert.equal(world.move().status?.phase, 'Retaining');
  assert.deepEqual(await world.lost(), []);
});

/** Copied over a wire that works until the source is fenced, and then over none for too long. */
async function fencedInVain(world: World): Promise<void> {
  world.cut.clear();
  for (let turns = 0; turns < 200 && world.move().status?.phase !== 'FinalDelta'; turns += 1) {
    if (world.move().status?.phase === 'Fencing') world.cut.add('node-2>node-1');
    await world.clock.advance(1_000);
    await world.turn();
  }
  world.cut.add('node-2>node-1');
  await world.settle();
  await world.pass(TEN_MINUTES);
}

test('the third fence without a proof fails the move, and the source is used on', async () => {
  const world = await ready();
  await world.unpublish('node-1');
  for (let attempt = 1; attempt <= 3; attempt += 1) await fencedInVain(world);
  assert.equal(world.move().status?.phase, 'Failed');
  assert.match(world.move().status?.obstacle?.message ?? '', /^the last delta was not proven within 600 s, 3 times/u);
  assert.match(world.copies().join(), /^node-1 active \d$/u);
  assert.deepEqual(await world.lost(), []);
});

test('two moves of one volume: the second waits, and then goes on from where the first brought it', async () => {
  const world = await ready({ nodes: 3 });
  await world.order('node-3', { name: 'second' });
  await world.settle();
  assert.equal(world.move('second').status?.obstacle?.message, 'move move of the same volume comes first');
  await world.unpublish('node-1');
  await world.settle();
  assert.equal(world.volume().spec.node, 'node-3');
  assert.deepEqual(await world.lost(), []);
});

test('a deleted move is taken back first, and then it is gone', async () => {
  const world = await ready();
  await world.client.delete(Moves, 'move');
  await world.settle();
  assert.deepEqual(world.moves(), []);
  assert.deepEqual(world.copies(), ['node-1 active 1']);
});

test('a pool without points moves a volume that nobody uses, in one fenced pass', async () => {
  const world = new World({ points: false });
  await world.settle();
  await world.create();
  await world.publish('node-1');
  world.write('node-1', 3n, 'first');
  await world.unpublish('node-1');
  await world.order('node-2');
  await world.passLong();
  assert.equal(world.move().status?.incoming?.scrub?.state, 'Impossible');
  assert.equal(world.move().status?.phase, 'Done');
  assert.deepEqual(world.copies(), ['node-2 active 2']);
  assert.deepEqual(await world.lost(), []);
});
