// csi-sanity with pools on real LVM, on a node of the rig. Needs a cluster named by FLOCK_RIG, whose third node has its first disk free.
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { thirdNode, passes } from './lvm/on-node.ts';
import { openCluster } from './rig/cluster.ts';

const node = thirdNode();

before(async () => {
  const { built, place } = await openCluster(process.env['FLOCK_RIG'] ?? 'e2e');
  await copyFile(join(built.tools, 'csi-sanity'), join(place.host, 'csi-sanity'));
});

for (const kind of ['thick', 'thin'])
  test(`csi-sanity passes with pools of ${kind} volumes`, () =>
    passes(node(), 'e2e/lvm/sanity.ts', `FLOCK_TEST_POOLS=${kind} FLOCK_CSI_SANITY=/host/csi-sanity`));
