// From the chart to claims in running pods: what a person does with Flock on Kubernetes, on image pools. Needs a cluster of three nodes, named
// by FLOCK_RIG (`npm run e2e -- --only csi` makes one); Flock is installed there when it is not, and stays.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { NAMESPACE, POOL, rigValues, THICK, THIN } from './flock/chart.ts';
import { claim, items, pod, until, type ClaimOptions, type Space } from './flock/objects.ts';
import { scenario } from './flock/scenario.ts';

const flock = scenario();

describe('the chart', () => {
  it('runs an agent on every node and two controllers', async () => {
    assert.deepEqual([(await flock.parts('agent')).length, (await flock.parts('controller')).length], [3, 2]);
  });

  it('makes the driver known to every kubelet, with the node and its pool as topology', async () => {
    const seen = async (): Promise<unknown> => {
      const nodes = await items<{ spec: { drivers: { name: string; topologyKeys: string[] }[] | null } }>(
        flock.cluster.kubectl,
        'csinodes',
      );
      return nodes.map(({ spec }) => spec.drivers?.find(({ name }) => name === 'csi.flock.dev')?.topologyKeys.toSorted());
    };
    const keys = ['csi.flock.dev/node', ...[THICK, POOL, THIN].map((pool) => `pool.csi.flock.dev/${pool}`)];
    await until([keys, keys, keys], seen);
  });

  it("tells the scheduler of every node's room", async () => {
    const seen = async (): Promise<number> =>
      (await items<{ capacity?: string }>(flock.cluster.kubectl, 'csistoragecapacities', '-n', NAMESPACE)).filter(
        ({ capacity }) => capacity !== '0',
      ).length;
    // Of classes that bind at once the scheduler is asked nothing.
    const classes = rigValues().storageClasses as { volumeBindingMode?: string }[];
    await until(classes.filter(({ volumeBindingMode }) => volumeBindingMode === undefined).length * 3, seen);
  });
});

describe('a claim', () => {
  const KINDS: { name: string; options: ClaimOptions; shows: string }[] = [
    { name: 'ext4', options: {}, shows: 'ext4' },
    { name: 'xfs', options: { size: '320Mi', storageClass: 'flock-xfs' }, shows: 'xfs' },
    { name: 'once', options: { mode: 'ReadWriteOncePod' }, shows: 'ext4' },
  ];
  let own: Space;
  before(async () => {
    own = await flock.space('claims');
    await own.apply(
      ...KINDS.flatMap(({ name, options }) => [claim(name, options), pod(name, { script: 'echo written > /data/file' })]),
      claim('block', { block: true }),
      pod('block', { block: true, script: 'echo written > /dev/data' }),
    );
  });

  for (const { name, shows } of KINDS)
    it(`(${name}) becomes a volume in a pod that writes`, async () => {
      await own.ready(name);
      assert.equal(await own.inPod(name, 'cat /data/file'), 'written\n');
      assert.equal((await own.inPod(name, "grep ' /data ' /proc/mounts | cut -d' ' -f3")).trim(), shows);
    });

  it('(block) becomes a device in a pod that writes', async () => {
    await own.ready('block');
    assert.equal(await own.inPod('block', 'head -c 8 /dev/data'), 'written\n');
  });

  it('for many nodes at once is refused with the reason', async () => {
    await own.apply(claim('many', { mode: 'ReadWriteMany' }), pod('many'));
    await until(true, async () => (await own.events('PersistentVolumeClaim', 'many')).includes('Use ReadWriteOnce or ReadWriteOncePod'));
    await own.gone('pod/many', 'pvc/many');
  });

  it('grows while its pod writes', async () => {
    const sizes = { ext4: '256Mi', xfs: '640Mi', block: '128Mi' };
    await Promise.all(Object.entries(sizes).map(([name, size]) => own.grow(name, size)));
    await until(true, async () => Number(await own.inPod('ext4', "df -kP /data | tail -n 1 | awk '{print $2}'")) > 200_000);
    await until(true, async () => Number(await own.inPod('xfs', "df -kP /data | tail -n 1 | awk '{print $2}'")) > 500_000);
    assert.equal((await own.get('pod/ext4', '.status.containerStatuses[0].restartCount')).trim(), '0');
  });

  it('is written by a group of its pod', async () => {
    const grouped = pod('grouped', { claims: ['grouped'] }) as { spec: { securityContext?: object } };
    grouped.spec.securityContext = { runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000 };
    await own.apply(claim('grouped'), grouped);
    await own.ready('grouped');
    assert.equal(await own.inPod('grouped', 'echo mine > /data/file && stat -c %g /data/file'), '2000\n');
  });

  it('that is gone gives its room back, and the next one in its place reads zeros', async () => {
    const before = await flock.booked();
    await own.apply(
      claim('first', { size: '32Mi', block: true }),
      pod('first', { block: true, node: 'node-2', script: 'yes secret | head -c 33554432 > /dev/data' }),
    );
    await own.ready('first');
    await own.gone('pod/first', 'pvc/first');
    await until(before, flock.booked);
    await own.apply(claim('second', { size: '32Mi', block: true }), pod('second', { block: true, node: 'node-2' }));
    await own.ready('second');
    assert.equal(await own.inPod('second', "tr -d '\\000' < /dev/data | wc -c"), '0\n');
  });

  it('made for one pod only ends with it', async () => {
    const before = await flock.booked();
    const short = pod('short', { claims: [] }) as { spec: { volumes: object[]; containers: { volumeMounts: object[] }[] } };
    const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '64Mi' } } };
    short.spec.volumes = [{ name: 'data', ephemeral: { volumeClaimTemplate: { spec } } }];
    short.spec.containers[0]!.volumeMounts = [{ name: 'data', mountPath: '/data' }];
    await own.apply(short);
    await own.ready('short');
    await own.gone('pod/short');
    await until(before, flock.booked);
  });
});

describe('a namespace with volumes', () => {
  it('goes with all of them', async () => {
    const before = await flock.booked();
    const own = await flock.space('whole');
    const names = ['a', 'b', 'c', 'd'];
    await own.apply(...names.flatMap((name) => [claim(name), pod(name)]));
    await own.ready(...names);
    await own.end();
    await until(before, flock.booked);
  });
});
