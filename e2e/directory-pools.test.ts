// Pools of directories with project quotas, which most machines' kernels lack and the rig's has: tests that run on a node of it, from the
// checkout. Needs a cluster named by FLOCK_RIG.
import { test } from 'node:test';
import { passes, thirdNode } from './lvm/on-node.ts';

const node = thirdNode();

test('project quotas keep directories within their sizes, and every promise of a pool is kept', () =>
  passes(node(), 'e2e/directories/quotas.ts', ''));
