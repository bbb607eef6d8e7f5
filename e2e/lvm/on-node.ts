// Test files that run on a node of the rig, from the checkout, for they need its LVM. Must not know what they test.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { openCluster } from '../rig/cluster.ts';
import type { RigNode } from '../rig/node.ts';

const SEEN = '/run/flock-checkout';

/** For a test file: the cluster's third node, which has the checkout mounted while the tests run. */
export function thirdNode(): () => RigNode {
  let node: RigNode | undefined;
  const found = (): RigNode => {
    assert.ok(node, 'the cluster has three nodes');
    return node;
  };
  before(async () => {
    node = (await openCluster(process.env['FLOCK_RIG'] ?? 'e2e')).nodes[2];
    const checkout = join(import.meta.dirname, '../..');
    await found().ok(`mkdir -p ${SEEN}; mountpoint -q ${SEEN} || mount -t hostfs -o ro,hostfs=${checkout} none ${SEEN}`);
  });
  after(() => found().answer(`umount ${SEEN}`));
  return found;
}

/** A test file on the node: all of it passes, and nothing of it is skipped. */
export async function passes(node: RigNode, file: string, environment: string): Promise<void> {
  const argv = 'node_modules/.bin/node --test-timeout=0 --test-reporter=tap';
  const { code, stdout, stderr } = await node.answer(`cd ${SEEN} && ${environment} ${argv} ${file}`);
  assert.equal(code, 0, `${stdout}${stderr}`);
  assert.match(stdout, /^# pass [1-9]/mu);
  assert.match(stdout, /^# skipped 0$/mu);
}
