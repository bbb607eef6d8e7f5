// Nodes, kubelets and controllers that die at bad moments, and more claims than there is room for: pods get their volumes all the same, and nothing is
// left behind. Needs a cluster as csi.test.ts.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CONTROLLER_CRASH, NAMESPACE } from './flock/chart.ts';
import { claim, items, pod, until } from './flock/objects.ts';
import { scenario } from './flock/scenario.ts';
import { nodesReady } from './rig/cluster.ts';

const flock = scenario();

/** Restarts of the containers of that name, all together. */
async function restarts(container: string): Promise<number> {
  const pods = await items<{ status: { containerStatuses?: { name: string; restartCount: number }[] } }>(
    flock.cluster.kubectl,
    'pods',
    '-n',
    NAMESPACE,
  );
  const all = pods.flatMap(({ status }) => status.containerStatuses ?? []).filter(({ name }) => name === container);
  return all.reduce((sum, { restartCount }) => sum + restartCount, 0);
}

describe('a controller that is killed', () => {
  const inController = (name: string, script: string): Promise<void> =>
    until(
      0,
      async () => (await flock.cluster.kubectl.answer(['-n', NAMESPACE, 'exec', name, '-c', 'controller', '--', 'sh', '-c', script])).code,
    );

  /** Whichever replica serves the call dies; the other one, when it is asked next. */
  async function dieAt(call: string): Promise<void> {
    for (const name of await flock.parts('controller')) await inController(name, `echo csi:${call}:done > ${CONTROLLER_CRASH}`);
  }

  it('in each call, when its work is done and nothing was answered, is back and the call is carried out', async () => {
    const own = await flock.space('controllers');
    const before = await flock.booked();
    const died = await restarts('controller');
    await dieAt('createVolume');
    await own.apply(claim('life'), pod('life', { script: 'echo written > /data/file' }));
    await until('Bound', () => own.get('pvc/life', '.status.phase'));
    await dieAt('controllerExpandVolume');
    await own.ready('life');
    await own.ok('patch', 'pvc/life', '--type=merge', '-p', JSON.stringify({ spec: { resources: { requests: { storage: '128Mi' } } } }));
    await until('128Mi', () => own.get('pvc/life', '.status.capacity.storage'));
    await dieAt('controllerUnpublishVolume');
    await own.gone('pod/life');
    await until('', async () => (await flock.cluster.kubectl.ok(['get', 'volumeattachments', '-o', 'name'])).trim());
    await dieAt('controllerPublishVolume');
    await own.apply(pod('life'));
    await own.ready('life');
    assert.equal(await own.inPod('life', 'cat /data/file'), 'written\n');
    await dieAt('deleteVolume');
    await own.gone('pod/life', 'pvc/life');
    await until(before, flock.booked);
    assert.ok((await restarts('controller')) >= died + 5, 'it was killed in each');
    for (const name of await flock.parts('controller')) await inController(name, `rm -f ${CONTROLLER_CRASH}`);
  });
});

describe('a kubelet that is killed', () => {
  it('finds the driver and its volumes again', async () => {
    const own = await flock.space('kubelet');
    await own.apply(claim('before'), pod('before', { node: 'node-1', script: 'echo written > /data/file' }));
    await own.ready('before');
    await flock.node('node-1').ok('kill -9 $(pidof kubelet)');
    await own.apply(claim('after'), pod('after', { node: 'node-1' }));
    await own.ready('after', 'before');
    assert.equal(await own.inPod('before', 'cat /data/file'), 'written\n');
    await own.gone('pod/before', 'pvc/before');
  });
});

describe('a node that loses its power with volumes mounted', () => {
  it('has them again after its boot, with what was synced, and formats none', async () => {
    const own = await flock.space('power');
    const kinds = { ext4: {}, xfs: { size: '320Mi', storageClass: 'flock-xfs' } };
    for (const [name, options] of Object.entries(kinds))
      await own.apply(claim(name, options), pod(name, { node: 'node-3', script: 'echo start >> /data/starts; sync' }));
    await own.ready(...Object.keys(kinds));
    const node = flock.node('node-3');
    const uuids = (): Promise<string> =>
      node.ok("for d in $(grep 'csi.flock.dev/.*globalmount' /proc/mounts | cut -d' ' -f1); do blkid -p -s UUID -o value $d; done | sort");
    const before = await uuids();
    await node.kill();
    await node.start();
    await nodesReady(flock.cluster, [node]);
    for (const name of Object.keys(kinds)) await until('start\nstart\n', () => own.inPod(name, 'cat /data/starts').catch(() => ''));
    assert.equal(await uuids(), before);
  });
});

describe('many claims at once', () => {
  interface Claim {
    metadata: { name: string };
    status?: { phase?: string };
  }

  it('on pools that have not room for all get exactly what fits, and nothing leaks', async () => {
    const own = await flock.space('burst');
    const before = await flock.booked();
    const records = async (): Promise<string[]> =>
      (await items<Claim>(flock.cluster.kubectl, 'volumes.flock.dev')).map(({ metadata }) => metadata.name).toSorted();
    const others = await records();
    const rooms = await items<{ status?: { pools?: { [pool: string]: { free?: string } } } }>(flock.cluster.kubectl, 'storagenodes');
    const SIZE = 2 ** 30;
    const fits = rooms.reduce((sum, { status }) => sum + Math.floor(Number(status?.pools?.['local']?.free ?? 0) / SIZE), 0);
    assert.ok(fits > 20 && fits < 50, `${fits} claims fit`);
    await own.apply(...Array.from({ length: 50 }, (_, index) => claim(`claim-${index}`, { size: '1Gi', storageClass: 'flock-now' })));
    const bound = async (): Promise<number> =>
      (await items<Claim>(flock.cluster.kubectl, 'pvc', '-n', own.name)).filter(({ status }) => status?.phase === 'Bound').length;
    await until(fits, bound, 300_000);
    // The others are told why, and leave no record.
    await until(true, async () => (await own.ok('get', 'events', '-o', 'jsonpath={.items[*].message}')).includes(' are needed'));
    await until([...others, ...(await own.volumes())].toSorted(), records);
    assert.equal(await bound(), fits);
    await own.end();
    await until(before, flock.booked);
    await until(others, records);
  });
});
