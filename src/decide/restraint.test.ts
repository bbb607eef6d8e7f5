// A machine in a few lines: what waits on it are others, and the copy by its share of what the machine can do. Seconds are counted, none is
// waited for.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { atMost, ceilingOf, FLOOR, restrained, UNRESTRAINED, type Restraint } from './restraint.ts';

const MB = 1e6;

const free = (high: number, deaf = 0): Restraint => ({ state: 'free', best: 800 * MB, patience: 30, high, deaf });
const yielding = (ceiling: number): Restraint => ({ state: 'yielding', best: 800 * MB, patience: 30, ceiling, second: 0, calm: 0 });

interface Machine {
  /** Bytes a second that a copy alone gets of it. */
  speed: number;
  /** Share of the time in which others wait, by the second. */
  others: (second: number) => number;
  limit?: number;
}

interface Course {
  rates: number[];
  restraint: Restraint;
}

function run({ speed, others, limit }: Machine, seconds: number): Course {
  const rates: number[] = [];
  let restraint = UNRESTRAINED;
  let wanted = speed;
  for (let second = 0; second < seconds; second += 1) {
    // What was asked for before arrives a second late.
    const rate = Math.min(speed, wanted);
    const own = 0.95 * (rate / speed);
    const pressure = 1 - (1 - others(second)) * (1 - own);
    restraint = restrained(restraint, { pressure, rate });
    wanted = atMost(limit ?? null, ceilingOf(restraint)) ?? speed;
    rates.push(rate);
  }
  return { rates, restraint };
}

const mean = (rates: readonly number[]): number => rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
const nobody = (): number => 0;

for (const speed of [20 * MB, 110 * MB, 800 * MB, 3000 * MB]) {
  test(`on a machine that is idle otherwise a copy of ${speed / MB} MB/s goes at its full speed but for short looks, though it waits itself`, () => {
    const { rates } = run({ speed, others: nobody }, 3600);
    assert.ok(mean(rates) > 0.97 * speed, `${(mean(rates) / speed).toFixed(3)} of its speed`);
    assert.ok(mean(rates.slice(0, 60)) > 0.85 * speed, 'in the first minute too');
  });

  test(`when others wait most of the time, a copy of ${speed / MB} MB/s goes down to its floor and not below`, () => {
    const { rates } = run({ speed, others: () => 0.8 }, 600);
    assert.ok(rates.every((rate) => rate >= Math.max(FLOOR, speed / 16)));
    assert.equal(rates.at(-1), Math.max(FLOOR, speed / 8));
  });
}

test('a copy that is over in seconds never slows down', () => {
  const { rates } = run({ speed: 800 * MB, others: nobody }, 5);
  assert.ok(rates.every((rate) => rate === 800 * MB));
});

test('a burst of others that is over in seconds changes nothing', () => {
  const { rates } = run({ speed: 800 * MB, others: (second) => (second % 60 < 3 ? 0.9 : 0), limit: 100 * MB }, 600);
  assert.ok(rates.slice(1).every((rate) => rate === 100 * MB));
});

test('when others wait some of the time, the copy takes a part, and more than its floor', () => {
  const { rates } = run({ speed: 800 * MB, others: () => 0.4 }, 600);
  const late = mean(rates.slice(300));
  assert.ok(late > 60 * MB && late < 400 * MB, `${late / MB} MB/s`);
});

test('when others are done, the copy has its speed back within seconds', () => {
  const { rates } = run({ speed: 800 * MB, others: (second) => (second < 300 ? 0.8 : 0) }, 310);
  assert.equal(rates[299], 100 * MB);
  assert.equal(rates.at(-1), 800 * MB);
});

test('others that come while the pressure is known to be the copy’s own are found by the next look', () => {
  const { rates } = run({ speed: 800 * MB, others: (second) => (second < 20 ? 0 : 0.8) }, 120);
  assert.equal(rates.at(-1), 100 * MB);
});

test('what others do not need is found again while they go on a little', () => {
  const { rates } = run({ speed: 800 * MB, others: (second) => (second < 300 ? 0.8 : 0.1) }, 600);
  assert.ok(mean(rates.slice(400)) > 0.9 * 800 * MB);
});

test('a copy that somebody limited below the floor is neither slowed down nor looked at', () => {
  const { restraint } = run({ speed: MB, others: () => 0.9 }, 600);
  assert.equal(restraint.state, 'free');
});

const LIMITS: [limit: number | null, ceiling: number | null, rate: number | null][] = [
  [null, null, null],
  [5, null, 5],
  [null, 7, 7],
  [5, 7, 5],
  [9, 7, 7],
];
for (const [limit, ceiling, rate] of LIMITS)
  test(`a limit of ${limit} and a ceiling of ${ceiling} make ${rate}`, () => assert.equal(atMost(limit, ceiling), rate));

const STEPS: [
  sentence: string,
  before: Restraint,
  seen: { pressure: number; rate: number },
  after: Restraint['state'],
  ceiling: number | null,
][] = [
  ['four seconds of pressure are not enough', free(3), { pressure: 0.9, rate: 800 * MB }, 'free', null],
  ['five are', free(4), { pressure: 0.9, rate: 800 * MB }, 'looking', 50 * MB],
  ['a calm second between them begins anew', free(4), { pressure: 0.5, rate: 800 * MB }, 'free', null],
  ['pressure is not listened to for a while after a look that found nobody', free(0, 1), { pressure: 1, rate: 800 * MB }, 'free', null],
  ['at high pressure a ceiling goes down', yielding(400 * MB), { pressure: 0.9, rate: 400 * MB }, 'yielding', 280 * MB],
  ['between the two it stays', yielding(400 * MB), { pressure: 0.5, rate: 400 * MB }, 'yielding', 400 * MB],
  ['one above all that was ever copied is none', yielding(790 * MB), { pressure: 0.3, rate: 700 * MB }, 'free', null],
];
for (const [sentence, before, seen, after, ceiling] of STEPS)
  test(sentence, () => {
    const restraint = restrained(before, seen);
    assert.equal(restraint.state, after);
    assert.equal(ceilingOf(restraint), ceiling);
  });
