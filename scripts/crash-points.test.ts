// Every named place between two writes in the sources is one that the crash matrix on real processes knows (e2e/crashes/points.ts): a new one
// cannot go without being died at.
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ELSEWHERE, POINTS } from '../e2e/crashes/points.ts';

/** What only tests use, and the kinds of pool that the matrix has not: they have points of their own. */
const OTHERS = /\.test\.ts$|^src\/(testing|simulation)\/|^src\/pools\/(memory|contract|directory|lvm)/u;

function named(): Set<string> {
  const files = globSync('src/**/*.ts').filter((file) => !OTHERS.test(file));
  const found = files.flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(/\bcrash\(\s*'([^']+)'/gu)].map(([, point]) => point ?? ''),
  );
  return new Set(found);
}

test('every named crash point is in the crash matrix, or said to be shown elsewhere', () => {
  const known = new Set(Object.values(POINTS).flat());
  const isKnown = (point: string): boolean => known.has(point) || ELSEWHERE.some((beginning) => point.startsWith(beginning));
  const points = named();
  assert.ok(points.size > 30, `only ${points.size} points were found`);
  assert.deepEqual([...points].filter((point) => !isKnown(point)).toSorted(), []);
});
