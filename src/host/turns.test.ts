// Turns at things that have names.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { turns } from './turns.ts';

test('for one name work is done one at a time, in order, also after an error; other names do not wait', async () => {
  const inTurn = turns();
  const steps: string[] = [];
  const first = Promise.withResolvers<void>();
  const one = inTurn('a', async () => {
    steps.push('a1 begins');
    await first.promise;
    throw new Error('a1 failed');
  });
  const two = inTurn('a', async () => steps.push('a2'));
  await inTurn('b', async () => steps.push('b'));
  assert.deepEqual(steps, ['a1 begins', 'b']);
  first.resolve();
  await assert.rejects(one, /a1 failed/u);
  await two;
  assert.deepEqual(steps, ['a1 begins', 'b', 'a2']);
});
