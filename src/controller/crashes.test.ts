// Deaths at every named point, lagging watches, writes that come between a look and an act, and two leaders at once: whatever happens,
// one authoritative copy stays, nothing is lost, nothing is left over, and every move ends. A failure names its seed and death.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Volumes } from '../model/volume.ts';
import { World, type Death, type WorldOptions } from '../testing/world.ts';

/** Tries until it works, as people and kubelets do. */
async function insist(world: World, work: () => Promise<void>): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      if (tries === 50) throw error;
      await world.pass(5_000);
    }
  }
}

interface Story {
  world: World;
  /** The application's part, and the move's. */
  tell(): Promise<void>;
}

/** There, and back onto the kept copy, while an application writes as long as it may. */
function thereAndBack(options: WorldOptions = {}, death: Death | null = null): Story {
  const world = new World(options);
  world.death = death;
  const leg = async (from: string, to: string, name: string): Promise<void> => {
    await insist(world, () => world.publish(from));
    world.write(from, 3n, `from ${from}`);
    await world.order(to, { name });
    await world.pass(20_000);
    world.write(from, 4n, `late from ${from}`);
    await insist(world, () => world.unpublish(from));
    await world.pass(20_000);
    for (let waits = 0; world.volume().spec.node !== to && waits < 80; waits += 1) await world.pass(30_000);
    assert.equal(world.volume().spec.node, to, `${name} never came to ${to}: ${JSON.stringify(world.move(name).status)}`);
  };
  const tell = async (): Promise<void> => {
    await world.settle();
    await world.create();
    await leg('node-1', 'node-2', 'there');
    await leg('node-2', 'node-1', 'back');
    await world.passLong();
    await world.passLong();
    assert.deepEqual(
      world.moves().map(({ metadata, status }) => `${metadata.name} ${status?.phase}`),
      ['back Done', 'there Done'],
    );
    assert.equal(world.copies().length, 1);
    assert.match(world.copies()[0] ?? '', /^node-1 active \d+$/u);
    await insist(world, async () => assert.deepEqual(await world.lost(), []));
    await world.client.delete(Volumes, 'db');
    await world.passLong();
    assert.deepEqual([world.copies(), world.volumes()], [[], []]);
    assert.deepEqual(
      [...world.machines.values()].map(({ journals }) => journals.size),
      [0, 0],
    );
  };
  return { world, tell };
}

const told = async (story: Story): Promise<void> => {
  try {
    await story.tell();
  } catch (error) {
    throw new Error(`${String(error)}\nlast failures: ${story.world.failures.slice(-5).join('\n')}`, { cause: error });
  }
};

test('every crash point of controllers and agents may be the last: fresh ones go on', async (t) => {
  const calm = thereAndBack();
  await told(calm);
  const points = [...calm.world.passed.keys()];
  for (const expected of ['controller-1 commit:swapped', 'node-1 fence:held', 'node-2 activate:frozen', 'node-1 remove:removed'])
    assert.ok(points.includes(expected), `${expected} was never passed`);
  for (const key of points) {
    const [who = '', at = ''] = key.split(' ');
    const times = calm.world.passed.get(key) ?? 0;
    for (const nth of new Set([1, times]))
      await t.test(`${who} dies at ${at}, the ${nth}. time`, async () => {
        const story = thereAndBack({}, { who, at, nth });
        await told(story);
      });
  }
});

const SEEDS = 25;
for (const [what, options] of [
  ['watches that lag', { stale: 0.9 }],
  ['others that act between a look and a write', { interleave: 0.3 }],
  ['two leaders at once', { controllers: 2, interleave: 0.5, stale: 0.5 }],
] as const)
  test(`${what} change nothing about the end`, async () => {
    for (let seed = 1; seed <= SEEDS; seed += 1)
      await assert.doesNotReject(told(thereAndBack({ ...options, seed })), `seed ${seed} of ${JSON.stringify(options)}`);
  });

test('a death amid two leaders and lagging watches changes nothing about the end', async () => {
  const points = ['commit:swapped', 'unfence:swapped', 'after:finalDelta'].map((at) => ({ who: 'controller-1', at }));
  const agents = ['fence:labelled', 'activate:labelled', 'round:pulled', 'relabel:written'].flatMap((at) =>
    ['node-1', 'node-2'].map((who) => ({ who, at })),
  );
  for (const [index, where] of [...points, ...agents].entries())
    for (let nth = 1; nth <= 2; nth += 1) {
      const story = thereAndBack({ controllers: 2, interleave: 0.4, stale: 0.5, seed: 100 + index }, { ...where, nth });
      await assert.doesNotReject(told(story), `${where.who} ${where.at} ${nth}`);
    }
});

test('a cancel at any moment, with two leaders: the volume is where the record says, and only there', async () => {
  for (let seed = 1; seed <= 40; seed += 1) {
    const world = new World({ controllers: 2, interleave: 0.5, stale: 0.3, seed });
    await world.settle();
    await world.create();
    await insist(world, () => world.publish('node-1'));
    world.write('node-1', 3n, 'kept');
    await insist(world, () => world.unpublish('node-1'));
    await world.order('node-2');
    for (let turns = 0; turns < seed % 14; turns += 1) await world.turn();
    await world.cancel();
    await world.pass(60_000);
    await world.passLong();
    const phase = world.move().status?.phase;
    assert.ok(phase === 'Cancelled' || phase === 'Done', `seed ${seed}: ${JSON.stringify(world.move().status)}`);
    assert.equal(world.volume().spec.node, phase === 'Done' ? 'node-2' : 'node-1');
    assert.equal(world.copies().length, 1, `seed ${seed}: ${world.copies().join()}`);
    assert.deepEqual(await world.lost(), []);
  }
});

test('a deletion at any moment leaves both nodes clean (D-09)', async () => {
  for (let seed = 1; seed <= 40; seed += 1) {
    const world = new World({ controllers: 2, interleave: 0.5, stale: 0.3, seed });
    await world.settle();
    await world.create();
    await world.order('node-2');
    for (let turns = 0; turns < seed % 16; turns += 1) await world.turn();
    await world.client.delete(Volumes, 'db');
    await world.pass(60_000);
    await world.passLong();
    assert.deepEqual([world.copies(), world.volumes()], [[], []], `seed ${seed}`);
    assert.ok(['Cancelled', 'Done'].includes(world.move().status?.phase ?? ''), `seed ${seed}: ${world.move().status?.phase}`);
  }
});

/** controller-1 has decided to commit and is about to write it; everybody else goes on. */
async function aboutToCommit(): Promise<{ world: World; goOn: () => void; committed: Promise<void> }> {
  const world = new World({ controllers: 2 });
  await world.settle();
  await world.create();
  await world.publish('node-1');
  world.write('node-1', 3n, 'kept');
  await world.unpublish('node-1');
  await world.order('node-2');
  for (let turns = 0; world.move().status?.phase !== 'Verifying' && turns < 60; turns += 1) {
    for (const who of ['node-1', 'node-2', 'controller-1']) await world.act(who);
    await world.clock.settle();
  }
  assert.equal(world.move().status?.phase, 'Verifying');
  const reached = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  world.beforeCall = async (who, method) => {
    if (who !== 'controller-1' || method !== 'replace') return;
    reached.resolve();
    await gate.promise;
  };
  const committed = world.act('controller-1');
  await reached.promise;
  return { world, goOn: gate.resolve, committed };
}

test('a commit that comes after the cancel, before the abort, finds its target there, and wins', async () => {
  const { world, goOn, committed } = await aboutToCommit();
  await world.cancel();
  await world.act('controller-2');
  assert.equal(world.move().status?.phase, 'Cancelling');
  // Had it removed the copy, it would die before it could say so.
  world.death = { who: 'node-2', at: 'remove:removed', nth: 1 };
  await world.act('node-2');
  goOn();
  await committed;
  assert.equal(world.volume().spec.node, 'node-2');
  await world.passLong();
  assert.equal(world.move().status?.phase, 'Done');
  assert.deepEqual(world.copies(), ['node-2 active 2']);
  assert.deepEqual(await world.lost(), []);
});

test('a commit that comes after the abort fails, and the source stays', async () => {
  const { world, goOn, committed } = await aboutToCommit();
  await world.cancel();
  for (let turns = 0; turns < 4; turns += 1) for (const who of ['controller-2', 'node-1', 'node-2']) await world.act(who);
  assert.equal(world.volume().spec.epoch, 2);
  await world.publish('node-1');
  world.write('node-1', 4n, 'after the abort');
  goOn();
  await committed;
  assert.equal(world.volume().spec.node, 'node-1');
  await world.unpublish('node-1');
  await world.settle();
  assert.equal(world.move().status?.phase, 'Cancelled');
  assert.deepEqual(world.copies(), ['node-1 active 2']);
  assert.deepEqual(await world.lost(), []);
});
