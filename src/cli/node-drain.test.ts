// What a drain tells while it is waited for.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aNode } from '../testing/records.ts';
import { drainTeller } from './commands/node-drain.ts';

test('of a drain only what is new is told: a volume that waits is told once', () => {
  const says = drainTeller();
  const drain = (left: number, moving: number, message: string): string =>
    says(aNode('node-1', { status: { drain: { left, moving, message } } }));
  const waits = 'volume x: on its way to node node-2 (ReadyToCutOver, WaitingForUnpublish: unmount it; then it goes on)';
  assert.equal(says(aNode('node-1')), '');
  assert.equal(
    drain(3, 2, `volume y: on its way to node node-2 (Syncing); ${waits}; and 1 more`),
    `3 left, 2 on their way: volume y: on its way to node node-2 (Syncing); ${waits}; and 1 more`,
  );
  assert.equal(
    drain(2, 2, `volume y: on its way to node node-2 (Verifying); ${waits}`),
    '2 left, 2 on their way: volume y: on its way to node node-2 (Verifying)',
  );
  assert.equal(drain(1, 1, waits), '1 left, 1 on its way');
});
