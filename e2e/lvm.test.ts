// Volumes on real LVM, thick and thin, with the agents that are shipped: made, formatted, mounted, grown, moved between two nodes while an
// application writes, deleted. Needs a cluster of two nodes at least, named by FLOCK_RIG; Kubernetes on it is not asked.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Moves } from '../src/model/move.ts';
import { Hosts, until } from './lvm/hosts.ts';
import { openCluster } from './rig/cluster.ts';
import type { RigNode } from './rig/node.ts';

const DISK = '/dev/ubdb';
const LATE_DISK = '/dev/ubdc';
const POOLS = [
  { name: 'thick', type: 'lvm', volumeGroup: 'data', reserve: '1Gi' },
  { name: 'thin', type: 'lvm-thin', volumeGroup: 'data', thinPool: 'pool0', overcommit: 'unlimited' },
  { name: 'late', type: 'lvm', volumeGroup: 'late' },
];
const SUM = 'md5sum < /mnt/data/big';

let hosts: Hosts;
let nodes: [RigNode, RigNode];

before(async () => {
  const cluster = await openCluster(process.env['FLOCK_RIG'] ?? 'e2e');
  const [first, second] = cluster.nodes;
  assert.ok(first && second, 'the cluster has two nodes');
  nodes = [first, second];
  hosts = new Hosts(cluster);
  await hosts.start();
  for (const node of nodes) {
    await hosts.prepare(node);
    await node.ok(`vgcreate -qy data ${DISK} && lvcreate -qy -L 4g -T data/pool0 && lvcreate -qy -Wn -L 40m -n theirs data`);
    await node.ok('echo theirs > /dev/mapper/data-theirs');
    await hosts.startAgent(node, POOLS);
  }
});

after(async () => {
  for (const node of nodes) await node.answer('umount /mnt/data');
  await hosts.stop(nodes);
  for (const node of nodes)
    await node.ok(
      `for group in data late; do vgs -q $group >/dev/null 2>&1 && vgremove -qffy $group; done; wipefs -qa ${DISK} ${LATE_DISK}`,
    );
});

describe('pools of LVM', () => {
  it('are reported with what may be booked, their unit, and what is not theirs', async () => {
    const { thick, thin } = (await hosts.pools(nodes[0])) ?? {};
    assert.ok(thick && thin);
    assert.deepEqual([thick.healthy, thick.unit, thick.thin, thick.points], [true, String(4 << 20), false, true]);
    assert.deepEqual(thick.foreign, ['pool0', 'theirs']);
    assert.deepEqual([thin.healthy, thin.thin, thin.capacity, thin.foreign], [true, true, undefined, undefined]);
  });

  it('that are not there are said to be missing, and are found when they appear', async () => {
    const missing = (await hosts.pools(nodes[0]))?.['late'];
    assert.equal(missing?.healthy, false);
    assert.match(missing?.obstacle?.message ?? '', /no volume group late on this node/u);
    await nodes[0].ok(`vgcreate -qy late ${LATE_DISK}`);
    await until(async () => (await hosts.pools(nodes[0]))?.['late']?.healthy === true);
    await nodes[0].ok('vgremove -qffy late');
    await until(async () => (await hosts.pools(nodes[0]))?.['late']?.healthy === false);
  });
});

for (const pool of ['thick', 'thin'])
  describe(`a volume in a ${pool} pool`, () => {
    const flock = (node: RigNode, words: string): Promise<string> => hosts.flockctl(node, words);
    const volume = `db-${pool}`;

    it('is made, formatted and mounted, and its device is that of a plain volume', async () => {
      await flock(nodes[0], `volume create ${volume} --size 200Mi --pool ${pool} --node node-1`);
      await flock(nodes[0], `volume mount ${volume} /mnt/data`);
      await nodes[0].ok('head -c 50000000 /dev/urandom > /mnt/data/big && sync');
      const table = await nodes[0].ok('dmsetup table "$(findmnt -no SOURCE /mnt/data)"');
      assert.match(table, pool === 'thick' ? /^0 409600 linear \S+ \d+\n$/u : /^0 409600 thin \S+ \d+\n$/u);
    });

    it('grows while it is mounted', async () => {
      await flock(nodes[0], `volume grow ${volume} 300Mi`);
      assert.ok(Number(await nodes[0].ok('df -B1 --output=size /mnt/data | tail -n 1')) > 260 << 20);
    });

    it('moves to another node while an application writes, and only what changed is copied when it stops', async () => {
      await nodes[0].ok(
        '(while [ ! -e /run/stop ]; do head -c 65536 /dev/urandom > /mnt/data/small; sync /mnt/data/small; sleep 0.2; done) >/dev/null 2>&1 & echo $! > /run/writer',
      );
      await flock(nodes[0], `move ${volume} --to node-2 --pause 60s`);
      // A round of what changed since the first one; how fast it was is not asked.
      await until(async () => ((await moveOf(volume))?.status?.round ?? 0) >= 2);
      await nodes[0].ok('touch /run/stop; while kill -0 $(cat /run/writer) 2>/dev/null; do sleep 0.1; done; rm /run/stop');
      const sums = await nodes[0].ok(`${SUM}; md5sum < /mnt/data/small`);
      await flock(nodes[0], `volume unmount ${volume}`);
      await until(async () =>
        ['Retaining', 'Done', 'Published', 'Activating', 'Committed'].includes((await moveOf(volume))?.status?.phase ?? ''),
      );
      await until(
        async () =>
          (
            await nodes[1].answer(
              `FLOCK_KUBECONFIG=/host/lvm/server/kubeconfig /run/flock-checkout/bin/flockctl volume mount ${volume} /mnt/data`,
            )
          ).code === 0,
      );
      assert.equal(await nodes[1].ok(`${SUM}; md5sum < /mnt/data/small`), sums);
    });

    it('is gone when it is deleted, and what others have there is as it was', async () => {
      await flock(nodes[1], `volume unmount ${volume}`);
      await flock(nodes[1], `volume delete ${volume}`);
      for (const node of nodes) {
        await until(async () => !/[0-9a-f]{8}-/u.test(await node.ok('lvs --noheadings -o lv_name data')));
        assert.equal(await node.ok('head -n 1 /dev/mapper/data-theirs'), 'theirs\n');
        assert.doesNotMatch(await node.ok('dmsetup info -c --noheadings -o suspended,tables_loaded'), /Suspended|Both/u);
      }
    });
  });

async function moveOf(volume: string) {
  const { items } = await hosts.client.list(Moves);
  return items.find(({ spec }) => spec.volume === volume) ?? null;
}
