// The columns of all kinds speak one language.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FLOCK_KINDS } from './kinds.ts';

test('what stands in the way has one name in every table: that of its field', () => {
  const columns = FLOCK_KINDS.flatMap(({ kind, columns: own }) => own.map((column) => ({ kind, ...column })));
  const obstacles = columns.filter(({ jsonPath }) => jsonPath === '.status.obstacle.reason');
  assert.ok(obstacles.length >= 3);
  for (const { kind, name } of obstacles) assert.equal(name, 'Obstacle', kind);
  assert.deepEqual(
    columns.filter(({ name, jsonPath }) => name === 'Obstacle' && jsonPath !== '.status.obstacle.reason'),
    [],
  );
});
