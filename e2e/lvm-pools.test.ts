// What a pool promises, held by pools on real LVM, and agents that are killed while they make points: tests that run on a node of the rig, from
// the checkout. Needs a cluster named by FLOCK_RIG.
import { test } from 'node:test';
import { passes, thirdNode } from './lvm/on-node.ts';

const node = thirdNode();

for (const kind of ['thick', 'thin'])
  test(`a pool of ${kind} volumes keeps every promise of a pool`, () => passes(node(), 'e2e/lvm/pools.ts', `FLOCK_TEST_POOLS=${kind}`));

test('agents killed twenty times while they make a point leave nothing', () => passes(node(), 'e2e/lvm/killed.ts', ''));
