// Every named place between two writes in the sources is one where real processes are killed (e2e/crashes/points.ts), or is said to be died at
// elsewhere: a new one cannot go without being tried, and none is waited for that nobody passes.
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ELSEWHERE, POINTS } from '../e2e/crashes/points.ts';

/** What only tests use; and pools on LVM, which need devices of their own: src/pools/contract.ts dies at each of their places, e2e/lvm runs it. */
const OTHERS = /\.test\.ts$|^src\/(testing|simulation)\/|^src\/pools\/(memory|contract|lvm)/u;
/** Where the steps of agents and controllers are told, and what stands before a step's name in its points. */
const STEPS: { [file: string]: string } = {
  'src/decide/copies-seen.ts': '',
  'src/decide/moves.ts': '',
  'src/decide/volumes.ts': '',
  'src/decide/snapshots.ts': 'snapshot-',
  'src/decide/drain.ts': 'drain-',
};
/** Nothing is done about it: it is only told. */
const NO_STEP = 'blocked';

const found = (file: string, pattern: RegExp): string[] => [...readFileSync(file, 'utf8').matchAll(pattern)].map(([, one]) => one ?? '');

function named(): Set<string> {
  const files = globSync('src/**/*.ts').filter((file) => !OTHERS.test(file));
  const places = files.flatMap((file) => found(file, /\bcrash\(\s*'([^']+)'/gu));
  const steps = Object.entries(STEPS).flatMap(([file, before]) =>
    found(file, /\bstep: '([^']+)'/gu)
      .filter((step) => step !== NO_STEP)
      .flatMap((step) => [`before:${before}${step}`, `after:${before}${step}`]),
  );
  assert.ok(places.length > 50 && steps.length > 50, `only ${places.length} places and ${steps.length} steps were found`);
  return new Set([...places, ...steps]);
}

const visited = new Set(Object.values(POINTS).flatMap((plot) => Object.values(plot).flat()));

test('every named crash point is in the crash matrix, or said to be shown elsewhere', () => {
  const missed = [...named()].filter((point) => !visited.has(point) && ELSEWHERE[point] === undefined);
  assert.deepEqual(missed.toSorted(), []);
});

test('the crash matrix waits for no point that the sources do not have', () => {
  const all = named();
  const unknown = [...visited, ...Object.keys(ELSEWHERE)].filter((point) => !all.has(point));
  assert.deepEqual(unknown.toSorted(), []);
});

for (const [point, file] of Object.entries(ELSEWHERE))
  test(`${point} is died at in ${file}`, () => {
    const name = point.slice(point.indexOf(':') + 1);
    assert.ok(readFileSync(file, 'utf8').includes(`'${name}'`));
  });
