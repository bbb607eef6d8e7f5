// What a pool promises, held by pools on real LVM, and agents that are killed while they make points: tests that run on a node of the rig, from
// the checkout. Needs a cluster named by FLOCK_RIG.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { openCluster } from './rig/cluster.ts';
import type { RigNode } from './rig/node.ts';
import { join } from 'node:path';

const SEEN = '/run/flock-checkout';
let node: RigNode;

before(async () => {
  const [, , third] = (await openCluster(process.env['FLOCK_RIG'] ?? 'e2e')).nodes;
  assert.ok(third, 'the cluster has three nodes');
  node = third;
  await node.ok(`mkdir -p ${SEEN}; mountpoint -q ${SEEN} || mount -t hostfs -o ro,hostfs=${join(import.meta.dirname, '..')} none ${SEEN}`);
});
after(() => node.answer(`umount ${SEEN}`));

/** A test file on the node: all of it passes, and nothing of it is skipped. */
async function passes(file: string, environment: string): Promise<void> {
  const argv = 'node_modules/.bin/node --test-timeout=0 --test-reporter=tap';
  const { code, stdout, stderr } = await node.answer(`cd ${SEEN} && ${environment} ${argv} ${file}`);
  assert.equal(code, 0, `${stdout}${stderr}`);
  assert.match(stdout, /^# pass [1-9]/mu);
  assert.match(stdout, /^# skipped 0$/mu);
}

for (const kind of ['thick', 'thin'])
  test(`a pool of ${kind} volumes keeps every promise of a pool`, () => passes('e2e/lvm/pools.ts', `FLOCK_TEST_POOLS=${kind}`));

test('agents killed twenty times while they make a point leave nothing', () => passes('e2e/lvm/killed.ts', ''));
