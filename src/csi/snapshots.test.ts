// Snapshots and what begins with them, by calls over a real socket, with the real controller and agents over pools in memory.
import { status } from '@grpc/grpc-js';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Snapshots } from '../model/snapshot.ts';
import { Volumes } from '../model/volume.ts';
import type { Test } from '../testing/afterwards.ts';
import { refused } from '../testing/csi-client.ts';
import {
  block,
  driver,
  GIBI,
  MEBI,
  mounted,
  on,
  request,
  sized,
  snapshotContent,
  volumeContent,
  type Driver,
} from '../testing/csi-driver.ts';
import type { WorldOptions } from '../testing/world.ts';
import type { CreateSnapshotRequest, CreateVolumeRequest, Snapshot } from './generated/csi.ts';

/** With a volume `db` on node-2. */
async function withVolume(t: Test, options: WorldOptions = {}): Promise<Driver> {
  const d = await driver(t, options);
  await d.create('db', { accessibilityRequirements: on('node-2') });
  return d;
}

async function take(d: Driver, name: string, change: Partial<CreateSnapshotRequest> = {}): Promise<Snapshot> {
  const { snapshot } = await d.during(d.controller.createSnapshot({ name, sourceVolumeId: 'db', ...change }));
  assert.ok(snapshot);
  await d.world.settle();
  return snapshot;
}

const recorded = async ({ world }: Driver): Promise<string[]> =>
  (await world.client.list(Snapshots)).items.map(({ metadata }) => metadata.name);

test('a snapshot is taken and ready when the call answers, and asking again changes nothing', async (t) => {
  const d = await withVolume(t);
  const { creationTime, ...taken } = await take(d, 'monday');
  assert.deepEqual(taken, { snapshotId: 'monday', sourceVolumeId: 'db', sizeBytes: GIBI, readyToUse: true, groupSnapshotId: '' });
  assert.ok(creationTime);
  const before = d.world.registry.version;
  assert.deepEqual(await take(d, 'monday'), { ...taken, creationTime });
  assert.equal(d.world.registry.version, before);
});

test('whatever a caller names a snapshot, its id is a name of ours', async (t) => {
  const d = await withVolume(t);
  const { snapshotId } = await take(d, 'Monday at 9');
  assert.match(snapshotId, /^snap-[0-9a-f]{40}$/u);
  assert.equal((await take(d, 'Monday at 9')).snapshotId, snapshotId);
});

test('the snapshotter tells for whom it is; other parameters are refused', async (t) => {
  const d = await withVolume(t);
  await take(d, 'monday', { parameters: { 'csi.storage.k8s.io/volumesnapshot/name': 'm' } });
  await refused(
    d.controller.createSnapshot({ name: 'x', sourceVolumeId: 'db', parameters: { fast: 'yes' } }),
    status.INVALID_ARGUMENT,
    /unknown parameter "fast"/u,
  );
});

test('a name that another volume has taken, a volume that is not there, and no name are refused', async (t) => {
  const d = await withVolume(t);
  await d.create('other');
  await take(d, 'monday');
  const { controller } = d;
  await refused(controller.createSnapshot({ name: 'monday', sourceVolumeId: 'other' }), status.ALREADY_EXISTS, /of volume db/u);
  await refused(controller.createSnapshot({ name: 'x', sourceVolumeId: 'none' }), status.NOT_FOUND, /no volume none/u);
  await refused(controller.createSnapshot({ sourceVolumeId: 'db' }), status.INVALID_ARGUMENT, /name is missing/u);
  await refused(controller.createSnapshot({ name: 'x' }), status.INVALID_ARGUMENT, /volume_id is missing/u);
  await refused(controller.deleteSnapshot({}), status.INVALID_ARGUMENT, /snapshot_id is missing/u);
});

test('where the pool cannot keep one, or has no room for one, the call says so and nothing is left', async (t) => {
  const unable = await withVolume(t, { points: false });
  await refused(
    unable.during(unable.controller.createSnapshot({ name: 'monday', sourceVolumeId: 'db' })),
    status.FAILED_PRECONDITION,
    /cannot keep points/u,
  );
  assert.deepEqual(await recorded(unable), []);
  const full = await withVolume(t, { capacity: GIBI + 512n * MEBI });
  await refused(full.during(full.controller.createSnapshot({ name: 'monday', sourceVolumeId: 'db' })), status.RESOURCE_EXHAUSTED);
  assert.deepEqual(await recorded(full), []);
});

test('a deleted snapshot is gone when the call answers, and deleting it again is no error', async (t) => {
  const d = await withVolume(t);
  await take(d, 'monday');
  await d.during(d.controller.deleteSnapshot({ snapshotId: 'monday' }));
  assert.deepEqual(await recorded(d), []);
  await d.controller.deleteSnapshot({ snapshotId: 'monday' });
});

test('snapshots are told one by one, of a volume, and in pages; those taken for clones are not', async (t) => {
  const d = await withVolume(t);
  const { controller } = d;
  await d.create('other');
  for (const name of ['a', 'b', 'c']) await take(d, name);
  await take(d, 'd', { sourceVolumeId: 'other' });
  await d.world.client.patch(Snapshots, 'c', { metadata: { labels: { 'flock.dev/taken-for': 'somebody' } } });
  const ids = async (asked: Parameters<typeof controller.listSnapshots>[0]): Promise<string[]> =>
    (await controller.listSnapshots(asked)).entries.map(({ snapshot }) => snapshot?.snapshotId ?? '');
  assert.deepEqual(await ids({}), ['a', 'b', 'd']);
  assert.deepEqual(await ids({ sourceVolumeId: 'db' }), ['a', 'b']);
  assert.deepEqual(await ids({ snapshotId: 'd' }), ['d']);
  assert.deepEqual(await ids({ snapshotId: 'none' }), []);
  const first = await controller.listSnapshots({ maxEntries: 2 });
  assert.deepEqual(await ids({ maxEntries: 2, startingToken: first.nextToken }), ['d']);
  assert.equal((await controller.getSnapshot({ snapshotId: 'a' })).snapshot?.sourceVolumeId, 'db');
  await refused(controller.getSnapshot({ snapshotId: 'none' }), status.NOT_FOUND);
});

test('a volume is not deleted before its snapshots', async (t) => {
  const d = await withVolume(t);
  await take(d, 'monday');
  await refused(d.controller.deleteVolume({ volumeId: 'db' }), status.FAILED_PRECONDITION, /has snapshots: delete monday first/u);
  await d.during(d.controller.deleteSnapshot({ snapshotId: 'monday' }));
  await d.during(d.controller.deleteVolume({ volumeId: 'db' }));
  assert.deepEqual(d.world.copies(), []);
});

// ---- what begins with one --------------------------------------------------------------------------------------------------------

for (const [what, content] of [
  ['a snapshot', snapshotContent('monday')],
  ['another volume', volumeContent('db')],
] as const)
  test(`a volume that begins with ${what} is on its node, wherever the scheduler put the pod, as large or larger`, async (t) => {
    const d = await withVolume(t);
    await take(d, 'monday');
    const same = await d.create('same', {
      volumeContentSource: content,
      capacityRange: sized(0n),
      accessibilityRequirements: on('node-1'),
    });
    assert.deepEqual(
      [same.capacityBytes, same.contentSource, same.accessibleTopology],
      [GIBI, content, [{ segments: { 'csi.flock.dev/node': 'node-2' } }]],
    );
    const larger = await d.create('larger', { volumeContentSource: content, capacityRange: sized(2n * GIBI) });
    assert.equal(larger.capacityBytes, 2n * GIBI);
    assert.deepEqual(await d.create('larger', { volumeContentSource: content, capacityRange: sized(2n * GIBI) }), larger);
    await d.world.settle();
    assert.deepEqual(await recorded(d), ['monday']);
  });

test('one that follows its application may be on any node afterwards', async (t) => {
  const d = await withVolume(t);
  await take(d, 'monday');
  const parameters = { dataMigrationMode: 'VolumeTransfer' };
  const { accessibleTopology } = await d.create('moves', { volumeContentSource: snapshotContent('monday'), parameters });
  assert.deepEqual(accessibleTopology, [{ segments: { 'pool.csi.flock.dev/local': 'true' } }]);
});

test('it has the filesystem of what it begins with, and outlives it', async (t) => {
  const d = await driver(t);
  await d.create('db', { volumeCapabilities: [mounted(undefined, { fsType: 'xfs' })] });
  await take(d, 'monday');
  await d.create('restored', { volumeContentSource: snapshotContent('monday') });
  assert.equal((await d.world.client.get(Volumes, 'restored')).spec.filesystem, 'xfs');
  await d.during(d.controller.deleteSnapshot({ snapshotId: 'monday' }));
  await d.during(d.controller.deleteVolume({ volumeId: 'db' }));
  assert.deepEqual(
    d.world.volumes().map(({ metadata }) => metadata.name),
    ['restored'],
  );
});

const UNLIKE: [what: string, change: Partial<CreateVolumeRequest>, code: status, text: RegExp][] = [
  ['from a snapshot that is not there', { volumeContentSource: snapshotContent('none') }, status.NOT_FOUND, /no snapshot none/u],
  ['from a volume that is not there', { volumeContentSource: volumeContent('none') }, status.NOT_FOUND, /no volume none/u],
  ['of at most less than its size', { capacityRange: sized(0n, GIBI / 2n) }, status.OUT_OF_RANGE, /at least 1073741824/u],
  ['in another pool', { parameters: { pool: 'other' } }, status.INVALID_ARGUMENT, /use a class of pool local/u],
  ['as a block device', { volumeCapabilities: [block] }, status.INVALID_ARGUMENT, /holds ext4, and a raw block volume/u],
  ['with another filesystem', { parameters: { 'csi.storage.k8s.io/fstype': 'xfs' } }, status.INVALID_ARGUMENT, /holds ext4, and xfs/u],
  [
    'where its node is not among the possible ones',
    { accessibilityRequirements: { preferred: [], requisite: [{ segments: { 'csi.flock.dev/node': 'node-1' } }] } },
    status.RESOURCE_EXHAUSTED,
    /is on node node-2/u,
  ],
  ['larger than the room there', { capacityRange: sized(100n * GIBI) }, status.RESOURCE_EXHAUSTED, /node-2/u],
];

test('what cannot begin so is refused, says why, and leaves nothing', async (t) => {
  const d = await withVolume(t);
  await take(d, 'monday');
  for (const [what, change, code, text] of UNLIKE)
    await t.test(what, async () => {
      const asked = request('x', { volumeContentSource: snapshotContent('monday'), ...change });
      await refused(d.during(d.controller.createVolume(asked)), code, text);
      assert.deepEqual(d.world.copies(), ['node-2 active 1']);
    });
});

test('a volume of the same name that begins with something else is another volume', async (t) => {
  const d = await withVolume(t);
  await take(d, 'monday');
  await refused(
    d.controller.createVolume(request('db', { volumeContentSource: snapshotContent('monday') })),
    status.ALREADY_EXISTS,
    /no content to begin with/u,
  );
  await d.create('restored', { volumeContentSource: snapshotContent('monday') });
  await refused(d.controller.createVolume(request('restored')), status.ALREADY_EXISTS, /the content of snapshot monday/u);
});
