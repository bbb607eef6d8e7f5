// A node's pools: no other node's, and honest about room that two of them share.
import assert from 'node:assert/strict';
import { mkdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { copyName } from '../model/label.ts';
import { noCrash } from '../model/crash.ts';
import type { PoolConfiguration } from '../pools/configuration.ts';
import { temporaryFolder, type Test } from '../testing/folders.ts';
import { aLabel } from '../testing/labels.ts';
import { NodePools } from './pools.ts';

const MIB = 1n << 20n;
const CAPACITY = 64n * MIB;

interface Node {
  open: (owners?: ReadonlyMap<string, string>, recorded?: string) => Promise<NodePools>;
}

/** A node with a pool of each kind in folders of one filesystem, 64 MiB of which may be booked. */
async function aNode(t: Test): Promise<Node> {
  const folder = await temporaryFolder(t);
  const { blocks, bsize } = await statfs(folder, { bigint: true });
  const reserve = String(blocks * bsize - CAPACITY);
  const configurations: PoolConfiguration[] = [
    { name: 'local', type: 'image', path: join(folder, 'local'), reserve },
    { name: 'shared', type: 'directory', path: join(folder, 'shared'), reserve },
  ];
  await mkdir(join(folder, 'agent'));
  return {
    open: (owners = new Map(), recorded) =>
      NodePools.open({
        configurations,
        file: join(folder, 'agent', 'pools.json'),
        recorded: recorded === undefined ? {} : { local: { type: 'image', healthy: true, uuid: recorded } },
        owners: async () => owners,
        crash: noCrash,
      }),
  };
}

test("a pool that is another node's is not opened, until that node's record is gone", async (t) => {
  const node = await aNode(t);
  const uuid = (await node.open()).pools.get('local')?.uuid ?? '';
  const refused = await node.open(new Map([[uuid, 'host-a']]));
  assert.deepEqual([...refused.pools.keys()], ['shared']);
  assert.match(refused.broken.get('local')?.message ?? '', /is a pool of node host-a already.*kubectl delete storagenode host-a/u);
  assert.deepEqual([...(await node.open()).pools.keys()], ['local', 'shared']);
  assert.deepEqual([...(await node.open(new Map([[uuid, 'host-a']]), uuid)).pools.keys()], ['local', 'shared'], 'its own record has it');
});

test('what one pool promises is not promised by another on the same filesystem', async (t) => {
  const { pools } = await (await aNode(t)).open();
  const [local, shared] = [pools.get('local'), pools.get('shared')];
  assert.ok(local && shared);
  const label = aLabel({ size: String(40n * MIB) });
  const name = copyName({ volumeUid: label.volumeUid, copy: label.copy });
  await shared.create(name, 40n * MIB, { ...label, volumeMode: 'Filesystem' });
  assert.deepEqual([(await local.room()).free, (await shared.room()).free], [24n * MIB, 24n * MIB]);
  await assert.rejects(local.create(name, 40n * MIB, { ...label, volumeMode: 'Block' }), /pool local has room for 24\.0 MiB/u);
  await local.create(name, 24n * MIB, { ...label, volumeMode: 'Block' });
  assert.equal((await shared.room()).free, 0n);
});
