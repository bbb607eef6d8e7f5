// Snapshots and clones as people order them: VolumeSnapshots, and claims that begin with one or with another claim. Needs a cluster as csi.test.ts.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { claim, pod, snapshot, until, type Space } from './flock/objects.ts';
import { scenario } from './flock/scenario.ts';

const flock = scenario();
const POOLS = [
  { of: 'images', storageClass: 'flock' },
  { of: 'thin LVM', storageClass: 'flock-thin' },
];

/** Of all events about PersistentVolumes, which are in the namespace `default`. */
const messages = (): Promise<string> =>
  flock.cluster.kubectl.ok([
    'get',
    'events',
    '--field-selector=involvedObject.kind=PersistentVolume',
    '-o',
    'jsonpath={.items[*].message}',
  ]);

for (const { of, storageClass } of POOLS)
  describe(`of a volume on ${of}`, () => {
    let own: Space;
    before(async () => {
      own = await flock.space(`snapshots-${storageClass}`);
      await own.apply(claim('db', { storageClass }), pod('db', { node: 'node-1', script: 'echo first > /data/file' }));
      await own.ready('db');
    });

    it('a snapshot is taken while its pod writes, and is ready', async () => {
      await own.apply(snapshot('monday', 'db'));
      await until('true', () => own.get('volumesnapshot/monday', '.status.readyToUse'));
      assert.equal(await own.get('volumesnapshot/monday', '.status.restoreSize'), '64Mi');
      await own.inPod('db', 'echo second > /data/file');
    });

    it('a claim begins with it, larger than it was, and one begins with the volume as it is now; each pod goes where the data is', async () => {
      await own.apply(
        claim('restored', { storageClass, size: '128Mi', source: { kind: 'VolumeSnapshot', name: 'monday' } }),
        claim('cloned', { storageClass, source: { kind: 'PersistentVolumeClaim', name: 'db' } }),
        pod('restored'),
        pod('cloned'),
      );
      await own.ready('restored', 'cloned');
      assert.equal(await own.inPod('restored', 'cat /data/file'), 'first\n');
      assert.equal(await own.inPod('cloned', 'cat /data/file'), 'second\n');
      await until(true, async () => Number(await own.inPod('restored', "df -kP /data | tail -n 1 | awk '{print $2}'")) > 100_000);
    });

    it('all of it goes, the volume after its snapshot', async () => {
      await own.ok('delete', 'pod/db', 'pvc/db', '--wait=false');
      await until(true, async () => (await messages()).includes('has snapshots: delete'));
      await own.gone('volumesnapshot/monday');
      await own.end();
      await until('', async () => (await flock.cluster.kubectl.ok(['get', 'volumes.flock.dev,snapshots.flock.dev', '-o', 'name'])).trim());
    });
  });
