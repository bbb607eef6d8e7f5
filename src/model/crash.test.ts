// How a named place is chosen: names have colons of their own.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { killAt } from './crash.ts';

test('a process is killed at the nth passing of the named point, and at no other', () => {
  const cases: [specification: string | undefined, passed: string[], killedAfter: number | null][] = [
    ['fence:labelled', ['fence:held', 'fence:labelled'], 2],
    ['fence:labelled:2', ['fence:labelled', 'fence:held', 'fence:labelled'], 3],
    ['transfer.plan.saved', ['transfer.plan.saved'], 1],
    ['transfer.plan.saved:3', ['transfer.plan.saved', 'transfer.plan.saved', 'transfer.plan.saved'], 3],
    ['fence', ['fence:labelled', 'fence:held'], null],
    [undefined, ['fence:labelled'], null],
  ];
  for (const [specification, passed, killedAfter] of cases) {
    const killed: number[] = [];
    let count = 0;
    const point = killAt(specification, () => void killed.push(count));
    for (const name of [...passed, ...passed]) {
      count += 1;
      if (killed.length === 0) point(name);
    }
    assert.deepEqual(killed, killedAfter === null ? [] : [killedAfter], String(specification));
  }
});
