import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { fakeClock } from '../testing/fake-clock.ts';
import { keptLog } from '../testing/kept-log.ts';
import { workQueue, type WorkQueueOptions } from './queue.ts';

const queueWith = (options: Partial<WorkQueueOptions> & Pick<WorkQueueOptions, 'work'>) => {
  const clock = fakeClock();
  const log = keptLog();
  return { clock, log, queue: workQueue({ workers: 1, clock, log, random: () => 1, ...options }) };
};

/** Work that ends when the test says so. */
function gate(): { work: (key: string) => Promise<void>; started: string[]; end: (error?: Error) => void } {
  const started: string[] = [];
  const ends: ((error?: Error) => void)[] = [];
  const work = (key: string): Promise<void> => {
    started.push(key);
    return new Promise((resolve, reject) => ends.push((error) => (error ? reject(error) : resolve())));
  };
  return { work, started, end: (error) => ends.shift()?.(error) };
}

test('keys are worked on in the order they came, and a key that waits is not added twice', async () => {
  const { work, started, end } = gate();
  const { queue, clock } = queueWith({ work });
  for (const key of ['a', 'b', 'c', 'b', 'c']) queue.add(key);
  for (let n = 0; n < 3; n += 1) {
    end();
    await clock.settle();
  }
  await queue.idle();
  assert.deepEqual(started, ['a', 'b', 'c']);
});

test('a key that is added while it is worked on is worked on once more, after the others', async () => {
  const { work, started, end } = gate();
  const { queue, clock } = queueWith({ work });
  queue.add('a');
  queue.add('b');
  queue.add('a');
  queue.add('a');
  for (let n = 0; n < 3; n += 1) {
    end();
    await clock.settle();
  }
  await queue.idle();
  assert.deepEqual(started, ['a', 'b', 'a']);
});

test('as many keys as there are workers are worked on at once', async () => {
  const { work, started, end } = gate();
  const { queue, clock } = queueWith({ work, workers: 2 });
  for (const key of ['a', 'b', 'c']) queue.add(key);
  assert.deepEqual(started, ['a', 'b']);
  end();
  await clock.settle();
  assert.deepEqual(started, ['a', 'b', 'c']);
});

test('failures of one key are tried again after 1, 2, 4 ... at most 30 s, success resets that, and other keys do not wait', async () => {
  let broken = true;
  const times: number[] = [];
  const { queue, clock, log } = queueWith({
    work: async (key) => {
      if (key === 'good') return;
      times.push(clock.monotonic());
      if (broken) throw new Error('not yet');
    },
  });
  queue.add('bad');
  queue.add('good');
  await clock.settle();
  assert.equal(log.lines.length, 1);
  await clock.advance(121_000);
  assert.deepEqual(times, [0, 1_000, 3_000, 7_000, 15_000, 31_000, 61_000, 91_000, 121_000]);
  broken = false;
  await clock.advance(30_000);
  broken = true;
  queue.add('bad');
  await clock.advance(1_000);
  assert.deepEqual(times.slice(-2), [151_000, 152_000]);
});

test('work that asks to be done again is, at that time; of two times the earlier counts', async () => {
  const times: number[] = [];
  const { queue, clock } = queueWith({
    work: async () => {
      times.push(clock.monotonic());
      if (times.length < 3) return { again: 5_000 };
    },
  });
  queue.addAfter('a', 10_000);
  queue.addAfter('a', 2_000);
  queue.addAfter('a', 30_000);
  await clock.advance(60_000);
  assert.deepEqual(times, [2_000, 7_000, 12_000]);
});

test('stop takes nothing new, drops what is due later, and finishes what waits', async () => {
  const { work, started, end } = gate();
  const { queue, clock } = queueWith({ work });
  queue.add('a');
  queue.add('b');
  queue.addAfter('later', 1_000);
  let stopped = false;
  const stopping = queue.stop().then(() => (stopped = true));
  queue.add('c');
  end();
  await clock.settle();
  assert.equal(stopped, false);
  end(new Error('at last'));
  await stopping;
  await clock.advance(60_000);
  assert.deepEqual(started, ['a', 'b']);
  assert.equal(clock.sleepers(), 0);
});

test('depth and errors are told to who asks for them', async () => {
  const depths: number[] = [];
  const errors: string[] = [];
  const { work, end } = gate();
  const { queue } = queueWith({ work, onDepth: (depth) => void depths.push(depth), onError: (key) => void errors.push(key) });
  queue.add('a');
  queue.add('b');
  assert.deepEqual(depths, [1, 0, 1]);
  end(new Error('no'));
  await Promise.resolve();
  end();
  await queue.stop();
  assert.deepEqual(errors, ['a']);
  assert.equal(depths.at(-1), 0);
});

test('whatever the order of events: never two workers on one key, never more than there are, and every change is seen by later work', async () => {
  const step = fc.record({
    key: fc.constantFrom('a', 'b', 'c', 'd'),
    act: fc.constantFrom('add', 'add', 'addAfter', 'pass'),
    ms: fc.integer({ min: 1, max: 40_000 }),
  });
  const behaviour = fc.record({
    takes: fc.integer({ min: 0, max: 3_000 }),
    fails: fc.boolean(),
    again: fc.option(fc.integer({ min: 1, max: 9_000 })),
  });
  const run = async (
    workers: number,
    steps: { key: string; act: string; ms: number }[],
    behaviours: { takes: number; fails: boolean; again: number | null }[],
  ) => {
    const clock = fakeClock();
    const changed = new Map<string, number>();
    const seen = new Map<string, number>();
    const busy = new Set<string>();
    let runs = 0;
    const work = async (key: string): Promise<void | { again: number }> => {
      assert.ok(!busy.has(key), `two workers on ${key}`);
      busy.add(key);
      assert.ok(busy.size <= workers, 'more workers than there are');
      const at = changed.get(key) ?? 0;
      const behaves = behaviours[runs % behaviours.length];
      runs += 1;
      if (behaves !== undefined && behaves.takes > 0) await clock.sleep(behaves.takes);
      busy.delete(key);
      if (behaves?.fails && runs < 20) throw new Error('fails');
      seen.set(key, at);
      return runs < 20 && behaves !== undefined && behaves.again !== null ? { again: behaves.again } : undefined;
    };
    const queue = workQueue({ work, workers, clock, log: keptLog(), random: () => 0.5 });
    for (const { key, act, ms } of steps) {
      if (act === 'pass') await clock.advance(ms);
      else {
        changed.set(key, (changed.get(key) ?? 0) + 1);
        if (act === 'add') queue.add(key);
        else queue.addAfter(key, ms);
      }
    }
    await clock.advance(1_000_000);
    await queue.idle();
    assert.deepEqual(Object.fromEntries(seen), Object.fromEntries(changed));
  };
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 3 }),
      fc.array(step, { maxLength: 25 }),
      fc.array(behaviour, { minLength: 1, maxLength: 6 }),
      run,
    ),
    { numRuns: 60 },
  );
});
