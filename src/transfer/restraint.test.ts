// Background copying of a node whose pressure a test writes, on a clock of the test's own.
import assert from 'node:assert/strict';
import test from 'node:test';
import type { Waited } from '../host/pressure.ts';
import type { Clock } from '../model/clock.ts';
import { fakeClock } from '../testing/fake-clock.ts';
import { aRig, fill, MIB, same, SOURCE, type Rig } from '../testing/transfer-rig.ts';
import { Restraint } from './restraint.ts';
import { serveTransfers } from './sender.ts';

/** A node on which tasks wait this share of the time. */
function aNode(): {
  restraint: Restraint;
  clock: ReturnType<typeof fakeClock>;
  busy: { io: number; cpu: number };
  pass(seconds: number): Promise<void>;
} {
  const clock = fakeClock();
  const busy = { io: 0, cpu: 0 };
  const waited: Waited = { io: 0, cpu: 0 };
  const restraint = new Restraint({ clock, waited: async () => ({ ...waited }) });
  return {
    restraint,
    clock,
    busy,
    pass: async (seconds) => {
      for (let second = 0; second < seconds; second += 1) {
        waited.io += busy.io * 1000;
        waited.cpu += busy.cpu * 1000;
        await clock.advance(1000);
      }
    },
  };
}

test('two pieces of work share what the node bears, and get all of it back when others are done', async () => {
  const node = aNode();
  const [one, other] = [node.restraint.join(), node.restraint.join()];
  await node.clock.settle();
  node.busy.io = 0.9;
  for (let second = 0; second < 10; second += 1) {
    one.count(64 * MIB);
    other.count(96 * MIB);
    await node.pass(1);
  }
  assert.equal(one.ceiling(), 10 * MIB);
  assert.deepEqual(node.restraint.heldBack, { by: 'io', ceiling: 20 * MIB });
  other.leave();
  assert.equal(one.ceiling(), 20 * MIB);
  node.busy.io = 0;
  await node.pass(6);
  assert.equal(one.ceiling(), null);
  assert.equal(node.restraint.heldBack, null);
  one.leave();
  assert.equal(node.clock.sleepers(), 0);
});

test('processors that are waited for count as disks do', async () => {
  const node = aNode();
  const work = node.restraint.join();
  await node.clock.settle();
  node.busy.cpu = 0.8;
  for (let second = 0; second < 10; second += 1) {
    work.count(160 * MIB);
    await node.pass(1);
  }
  assert.equal(node.restraint.heldBack?.by, 'cpu');
  work.leave();
});

test('without pressure figures nothing is held back', async () => {
  const clock = fakeClock();
  const restraint = new Restraint({ clock, waited: async () => null });
  const work = restraint.join();
  work.count(1000 * MIB);
  await clock.advance(60_000);
  assert.equal(work.ceiling(), null);
  work.leave();
});

test('what was read to be hashed waits its turn while there is a ceiling', async () => {
  const node = aNode();
  const work = node.restraint.join();
  await node.clock.settle();
  node.busy.io = 0.9;
  for (let second = 0; second < 10; second += 1) {
    work.count(8 * MIB);
    await node.pass(1);
  }
  const { signal } = new AbortController();
  let read = 0;
  const reading = (async () => {
    for (; read < 8 * MIB; read += MIB) await work.take(MIB, signal);
  })();
  await node.clock.advance(3000);
  assert.ok(read >= 3 * MIB && read <= 5 * MIB, `${read} bytes at 1 MiB/s`);
  work.leave();
  await reading;
});

/** Others have been waiting for long and go on: a ceiling of 1 MiB/s. Its time passes as soon as somebody waits for it. */
async function pressed(): Promise<Restraint> {
  let elapsed = 0;
  const clock: Clock = {
    now: () => elapsed,
    monotonic: () => elapsed,
    sleep: async (ms, signal) => {
      await new Promise((resolve) => setImmediate(resolve));
      signal?.throwIfAborted();
      elapsed += ms;
    },
  };
  const restraint = new Restraint({ clock, waited: async () => ({ io: 0.9 * elapsed, cpu: 0 }) });
  const work = restraint.join();
  while (restraint.heldBack?.ceiling !== MIB) {
    work.count(4 * MIB);
    await new Promise((resolve) => setImmediate(resolve));
  }
  work.leave();
  return restraint;
}

async function aVolume(t: Parameters<typeof aRig>[0]): Promise<Rig> {
  const rig = await aRig(t, { size: 4 * MIB });
  await fill(rig.source, SOURCE.name, { offset: 0, length: 4 * MIB, seed: 1 });
  return rig;
}

for (const { final, told } of [
  { final: false, told: [MIB] },
  { final: true, told: [] },
])
  test(`a node that is pressed serves ${final ? 'the final round at full speed' : 'a round in the background at what it bears'}`, async (t) => {
    const rig = await aVolume(t);
    rig.offer.fenced = final;
    const rates: (number | null)[] = [];
    await rig.server.close();
    rig.server = await serveTransfers({ ...rig.sourceOptions(), restraint: await pressed() }, (_fd, rate) => void rates.push(rate));
    await rig.pull({ final });
    assert.deepEqual(
      rates.filter((rate) => rate !== null),
      told,
    );
    assert.equal(await same(rig, 4 * MIB), true);
  });

for (const { final, told } of [
  { final: false, told: [MIB] },
  { final: true, told: [] },
])
  test(`a target that is pressed asks for ${final ? 'the final round at full speed' : 'a round in the background at what it bears'}`, async (t) => {
    const rig = await aVolume(t);
    rig.offer.fenced = final;
    const rates: (number | null)[] = [];
    await rig.server.close();
    rig.server = await serveTransfers(rig.sourceOptions(), (_fd, rate) => void rates.push(rate));
    await rig.pull({ final }, { restraint: await pressed() });
    assert.deepEqual(
      rates.filter((rate) => rate !== null),
      told,
    );
    assert.equal(await same(rig, 4 * MIB), true);
  });
