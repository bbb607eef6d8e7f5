// The controller's calls over a real socket, with the real controller and agents over pools in memory.
import { status } from '@grpc/grpc-js';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GROUP_VERSION } from '../model/meta.ts';
import { Moves } from '../model/move.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { Volumes } from '../model/volume.ts';
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
import type * as csi from './generated/csi.ts';
import { VolumeCapability_AccessMode_Mode as Mode } from './generated/csi.ts';

/** Names of all copies on all disks, and what is recorded. */
const left = ({ world }: Driver): { copies: string[]; records: string[] } => ({
  copies: world.copies(),
  records: world.volumes().map(({ metadata }) => metadata.name),
});

// ---- create --------------------------------------------------------------------------------------------------------------------

test('a volume is made where the scheduler put the pod', async (t) => {
  const d = await driver(t);
  const volume = await d.create('pvc-1', { accessibilityRequirements: on('node-2', 'node-1') });
  assert.deepEqual(volume, {
    volumeId: 'pvc-1',
    capacityBytes: GIBI,
    volumeContext: {},
    contentSource: undefined,
    accessibleTopology: [{ segments: { 'csi.flock.dev/node': 'node-2' } }],
  });
  assert.deepEqual(d.world.copies(), ['node-2 active 1']);
});

test('a volume that may be anywhere goes where the room is, and has one node then', async (t) => {
  const d = await driver(t);
  await d.create('pvc-1', { capacityRange: sized(6n * GIBI), accessibilityRequirements: on('node-1') });
  const volume = await d.create('pvc-2', { capacityRange: sized(6n * GIBI) });
  assert.deepEqual(volume.accessibleTopology, [{ segments: { 'csi.flock.dev/node': 'node-2' } }]);
});

test('of the nodes that are merely possible the one with the most room is taken', async (t) => {
  const d = await driver(t);
  await d.create('pvc-1', { accessibilityRequirements: on('node-2') });
  const { accessibleTopology } = await d.create('pvc-2', { accessibilityRequirements: on() });
  assert.deepEqual(accessibleTopology, [{ segments: { 'csi.flock.dev/node': 'node-1' } }]);
});

test('the same call again finds the same volume, though its size was rounded; another size is another volume', async (t) => {
  const d = await driver(t);
  const first = await d.create('x', { capacityRange: sized(1_500_000_000n) });
  assert.equal(first.capacityBytes, 1_500_000_256n);
  const before = d.world.volumes();
  assert.deepEqual(await d.create('x', { capacityRange: sized(1_500_000_000n) }), first);
  assert.deepEqual(d.world.volumes(), before);
  await refused(
    d.controller.createVolume(request('x', { capacityRange: sized(2n * GIBI) })),
    status.ALREADY_EXISTS,
    /a size of 1500000256 bytes/u,
  );
});

test('a volume that was begun by a call that ended is gone on with', async (t) => {
  const d = await driver(t);
  await refused(
    d.controller.createVolume(request('x', { accessibilityRequirements: on('node-1') }), 300),
    status.DEADLINE_EXCEEDED,
    /volume x/u,
  );
  const [begun] = d.world.volumes();
  assert.equal((await d.create('x', { accessibilityRequirements: on('node-1') })).volumeId, 'x');
  assert.deepEqual(
    d.world.volumes().map(({ metadata }) => metadata.uid),
    [begun?.metadata.uid],
  );
});

test('who waits when the driver stops is told to come again', async (t) => {
  const d = await driver(t);
  const call = refused(d.controller.createVolume(request('x')), status.UNAVAILABLE, /the driver is stopping; try again; volume x/u);
  while (d.world.volumes().length === 0) await d.world.clock.settle();
  await d.stop();
  await call;
});

test('a volume that nothing was made of goes where it is needed now', async (t) => {
  const d = await driver(t);
  await refused(d.controller.createVolume(request('x', { accessibilityRequirements: on('node-1') }), 300), status.DEADLINE_EXCEEDED);
  const { accessibleTopology } = await d.create('x', { accessibilityRequirements: on('node-2') });
  assert.deepEqual(accessibleTopology, [{ segments: { 'csi.flock.dev/node': 'node-2' } }]);
  assert.deepEqual(d.world.copies(), ['node-2 active 1']);
});

const DIFFERENCES: [string, Partial<csi.CreateVolumeRequest>, RegExp][] = [
  ['mode', { volumeCapabilities: [block] }, /volumeMode Filesystem/u],
  ['filesystem', { volumeCapabilities: [mounted(undefined, { fsType: 'xfs' })] }, /filesystem ext4/u],
  ['retention', { parameters: { pool: 'local', retainSource: '1h' } }, /retainSource not set/u],
  ['pool', { parameters: { pool: 'other' } }, /pool local/u],
  ['lower limit', { capacityRange: sized(1n, MEBI) }, /a size of/u],
];

for (const [what, change, text] of DIFFERENCES)
  test(`a volume of the same name with another ${what} is another volume`, async (t) => {
    const d = await driver(t);
    await d.create('x', { parameters: { pool: 'local' } });
    await refused(d.controller.createVolume(request('x', change)), status.ALREADY_EXISTS, text);
  });

test('five at once on a pool for three: exactly three are made, two are told to look elsewhere, nothing is left of them', async (t) => {
  const d = await driver(t, { nodes: 1 });
  for (let round = 0; round < 50; round += 1) {
    const names = [1, 2, 3, 4, 5].map((number) => `r${round}-${number}`);
    const calls = names.map((name) =>
      d.controller.createVolume(request(name, { capacityRange: sized(3n * GIBI), accessibilityRequirements: on('node-1') })),
    );
    const ends = await d.during(Promise.allSettled(calls));
    const codes = ends.map((end) => (end.status === 'fulfilled' ? 'OK' : status[(end.reason as { code: status }).code])).toSorted();
    assert.deepEqual(codes, ['OK', 'OK', 'OK', 'RESOURCE_EXHAUSTED', 'RESOURCE_EXHAUSTED']);
    assert.equal(d.world.copies().length, 3);
    assert.equal(d.world.volumes().length, 3);
    await d.during(Promise.all(d.world.volumes().map(({ metadata }) => d.controller.deleteVolume({ volumeId: metadata.name }))));
    assert.deepEqual(left(d), { copies: [], records: [] });
  }
});

const NOT_HERE: [string, (d: Driver) => Promise<unknown>, string, RegExp][] = [
  [
    'is full',
    (d) => d.create('big', { capacityRange: sized(9n * GIBI + 512n * MEBI), accessibilityRequirements: on('node-1') }),
    'node-1',
    /room for/u,
  ],
  ['does not exist', async () => undefined, 'node-9', /there is no node "node-9"/u],
  [
    'takes no new volumes',
    (d) => d.world.client.patch(StorageNodes, 'node-1', { spec: { unschedulable: true } }),
    'node-1',
    /takes no new volumes/u,
  ],
  [
    'does not answer',
    async (d) => {
      d.world.silent.add('node-1');
      await d.world.settle();
    },
    'node-1',
    /does not answer/u,
  ],
];

for (const [what, before, node, text] of NOT_HERE)
  test(`the scheduler is told to look elsewhere when the node ${what}`, async (t) => {
    const d = await driver(t);
    await before(d);
    const there = left(d);
    await refused(d.controller.createVolume(request('x', { accessibilityRequirements: on(node) })), status.RESOURCE_EXHAUSTED, text);
    assert.deepEqual(left(d), there);
  });

const INVALID: [string, Partial<csi.CreateVolumeRequest>, RegExp][] = [
  ['without a name', { name: '' }, /name is missing/u],
  ['with control characters in its name', { name: 'a\u0000b' }, /control characters/u],
  ['without capabilities', { volumeCapabilities: [] }, /volume_capabilities are missing/u],
  [
    'without an access type',
    { volumeCapabilities: [{ accessMode: { mode: Mode.SINGLE_NODE_WRITER }, accessType: undefined }] },
    /neither mount nor block/u,
  ],
  ['without an access mode', { volumeCapabilities: [mounted(Mode.UNKNOWN)] }, /UNKNOWN is not possible/u],
  ['for many nodes', { volumeCapabilities: [mounted(Mode.MULTI_NODE_MULTI_WRITER)] }, /Use ReadWriteOnce or ReadWriteOncePod/u],
  ['for readers on many nodes', { volumeCapabilities: [mounted(Mode.MULTI_NODE_READER_ONLY)] }, /MULTI_NODE_READER_ONLY is not possible/u],
  ['both mounted and block', { volumeCapabilities: [mounted(), block] }, /not both/u],
  ['with two filesystems', { volumeCapabilities: ['xfs', 'ext4'].map((fsType) => mounted(undefined, { fsType })) }, /one filesystem/u],
  ['with an unknown filesystem', { volumeCapabilities: [mounted(undefined, { fsType: 'ntfs' })] }, /ext4, xfs, btrfs/u],
  [
    'with an unknown mount option',
    { volumeCapabilities: [mounted(undefined, { mountFlags: ['noatime', 'suid'] })] },
    /"suid" is not possible/u,
  ],
  ['with an option hidden behind a comma', { volumeCapabilities: [mounted(undefined, { mountFlags: ['noatime,suid'] })] }, /"suid"/u],
  ['with an unknown parameter', { parameters: { poool: 'local' } }, /unknown parameter "poool"/u],
  ['with a parameter that is one of every object', { parameters: { toString: 'x' } }, /unknown parameter "toString"/u],
  ['with a pool that cannot be one', { parameters: { pool: '../x' } }, /pool name/u],
  ['with a duration that is none', { parameters: { retainSource: 'soon' } }, /duration "soon"/u],
  [
    'with a format option that is not on the list',
    { parameters: { formatOptions: '-O encrypt' } },
    /-O encrypt" is not possible for ext4/u,
  ],
  ['with a wipe that is none', { parameters: { wipe: 'burn' } }, /none, discard, zero/u],
  ['with a rate that is none', { parameters: { transferBandwidth: 'fast' } }, /size "fast"/u],
  ['from nothing', { volumeContentSource: { type: undefined } }, /neither snapshot nor volume/u],
  ['from a snapshot without a name', { volumeContentSource: snapshotContent('') }, /snapshot_id is missing/u],
  ['with mutable parameters', { mutableParameters: { a: 'b' } }, /changed later/u],
  ['of a negative size', { capacityRange: sized(-1n) }, /negative/u],
  ['on a node whose name cannot be one', { accessibilityRequirements: on('../x') }, /node name/u],
];

test('a request that cannot be right is refused, says what is wrong, and leaves nothing', async (t) => {
  const d = await driver(t);
  for (const [what, change, text] of INVALID) {
    await t.test(what, async () => {
      await refused(d.controller.createVolume(request('x', change)), status.INVALID_ARGUMENT, text);
      assert.deepEqual(left(d), { copies: [], records: [] });
    });
  }
});

test('a filesystem may be named by a parameter, and the capability says it better', async (t) => {
  const d = await driver(t);
  const parameters = { 'csi.storage.k8s.io/fstype': 'xfs' };
  await d.create('x', { parameters });
  await d.create('y', { parameters, volumeCapabilities: [mounted(undefined, { fsType: 'ext4' })] });
  await d.create('z', { parameters, volumeCapabilities: [block] });
  assert.deepEqual(
    d.world.volumes().map(({ spec }) => spec.volumeMode === 'Block' || spec.filesystem),
    ['xfs', 'ext4', true],
  );
});

test('parameters and claim are in the record', async (t) => {
  const d = await driver(t);
  await d.create('x', {
    volumeCapabilities: [mounted(undefined, { fsType: 'xfs' })],
    parameters: {
      pool: 'local',
      retainSource: '1h30m',
      allowedPause: '500ms',
      transferBandwidth: '200M',
      wipe: 'zero',
      'csi.storage.k8s.io/pvc/name': 'data',
      'csi.storage.k8s.io/pvc/namespace': 'shop',
      'csi.storage.k8s.io/pv/name': 'x',
    },
  });
  const [{ spec, metadata } = { spec: null, metadata: null }] = d.world.volumes();
  assert.deepEqual(
    { ...spec, copy: undefined },
    {
      size: String(GIBI),
      pool: 'local',
      retainSource: '1h30m',
      allowedPause: '500ms',
      transferBandwidth: '200M',
      wipe: 'zero',
      volumeMode: 'Filesystem',
      filesystem: 'xfs',
      node: 'node-1',
      epoch: 1,
      copy: undefined,
    },
  );
  assert.deepEqual(metadata?.annotations, { 'flock.dev/refused-by': '', 'flock.dev/claim': 'shop/data' });
});

const NAMES: [string, RegExp][] = [
  ['pvc-7c0f6a2e-8d5b-4a3f-9a51-3f1f7d2f0a11', /^pvc-7c0f6a2e-8d5b-4a3f-9a51-3f1f7d2f0a11$/u],
  ['Sanity_NAME', /^vol-[0-9a-f]{40}$/u],
  ['../../etc/passwd', /^vol-[0-9a-f]{40}$/u],
  ['x'.repeat(129), /^vol-[0-9a-f]{40}$/u],
  ['объём', /^vol-[0-9a-f]{40}$/u],
];

test('whatever a caller names a volume, its id is a name of ours, and the same for the same name', async (t) => {
  const d = await driver(t);
  for (const [name, id] of NAMES) {
    const { volumeId } = await d.create(name, { capacityRange: sized(MEBI) });
    assert.match(volumeId, id);
    assert.equal((await d.create(name, { capacityRange: sized(MEBI) })).volumeId, volumeId);
  }
  assert.equal(d.world.volumes().length, NAMES.length);
});

// ---- sizes ---------------------------------------------------------------------------------------------------------------------

const SIZES: [string, csi.CapacityRange | undefined, bigint][] = [
  ['1G', sized(1_000_000_000n), 1_000_001_536n],
  ['1Gi', sized(GIBI), GIBI],
  ['1Gi + 1', sized(1_073_741_825n), 1_073_745_920n],
  ['1.5Gi', sized(GIBI + GIBI / 2n), GIBI + GIBI / 2n],
  ['1500M', sized(1_500_000_000n), 1_500_000_256n],
  ['of an importer of disks', sized(4_362_347_344n), 4_362_350_592n],
  ['1 byte, which ext4 cannot be made on', sized(1n), 8n * MEBI],
  ['511 bytes', sized(511n), 8n * MEBI],
  ['nothing', undefined, GIBI],
  ['nothing but a limit', sized(0n, 100_000_000n), 99_999_744n],
  ['nothing but a high limit', sized(0n, 5n * GIBI), GIBI],
  ['exactly so much', sized(GIBI, GIBI), GIBI],
];

for (const [what, capacityRange, size] of SIZES)
  test(`who asks for ${what} is told the real size`, async (t) => {
    const d = await driver(t, { nodes: 1 });
    assert.equal((await d.create('x', { capacityRange })).capacityBytes, size);
    assert.equal(d.world.volumes()[0]?.status?.capacity, String(size));
  });

test('a block volume has no least size but the unit', async (t) => {
  const d = await driver(t);
  assert.equal((await d.create('x', { volumeCapabilities: [block], capacityRange: sized(513n) })).capacityBytes, 4096n);
});

const OUT_OF_RANGE: [string, csi.CapacityRange, RegExp][] = [
  ['2^63 - 1', sized(2n ** 63n - 1n), /more than a volume can have/u],
  ['a limit below the size', sized(GIBI, MEBI), /below required_bytes/u],
  ['a window without a multiple of the unit', sized(GIBI + 1n, GIBI + 2n), /multiples of 4096/u],
  ['a limit below what the filesystem needs', sized(1n, MEBI), /at least 8388608/u],
];

for (const [what, capacityRange, text] of OUT_OF_RANGE)
  test(`${what} is out of range`, async (t) => {
    const d = await driver(t);
    await refused(d.controller.createVolume(request('x', { capacityRange })), status.OUT_OF_RANGE, text);
    assert.deepEqual(left(d), { copies: [], records: [] });
  });

test('the unit is that of the pool', async (t) => {
  const d = await driver(t, { nodes: 1 });
  const pools = { local: { unit: String(4n * MEBI) } };
  await d.world.client.patch(StorageNodes, 'node-1', { status: { pools } }, { subresource: 'status' });
  await refused(
    d.controller.createVolume(request('x', { capacityRange: sized(GIBI + 1n, GIBI + MEBI), accessibilityRequirements: on('node-1') })),
    status.OUT_OF_RANGE,
    /multiples of 4194304/u,
  );
  assert.equal(
    (await d.create('x', { capacityRange: sized(1_000_000_000n), accessibilityRequirements: on('node-1') })).capacityBytes,
    1_002_438_656n,
  );
});

// ---- delete, expand ------------------------------------------------------------------------------------------------------------

test('a deleted volume is gone when the call answers, and deleting it again is no error', async (t) => {
  const d = await driver(t);
  await d.create('x');
  await d.during(d.controller.deleteVolume({ volumeId: 'x' }));
  assert.deepEqual(left(d), { copies: [], records: [] });
  assert.deepEqual(await d.controller.deleteVolume({ volumeId: 'x' }), {});
});

test('a volume in use is not deleted', async (t) => {
  const d = await driver(t);
  await d.create('db', { accessibilityRequirements: on('node-1') });
  await d.world.publish('node-1');
  await d.world.settle();
  const call = refused(d.controller.deleteVolume({ volumeId: 'db' }), status.FAILED_PRECONDITION, /in use on node node-1 at \/srv\/db/u);
  const passing = setInterval(() => void d.world.clock.advance(1_000), 10);
  await call.finally(() => clearInterval(passing));
  assert.equal(d.world.volumes()[0]?.metadata.deletionTimestamp, undefined);
});

test('a volume that was unmounted just now is deleted once its node says so', async (t) => {
  const d = await driver(t);
  await d.create('db', { accessibilityRequirements: on('node-1') });
  await d.world.publish('node-1');
  await d.world.settle();
  await d.world.unpublish('node-1');
  await d.during(d.controller.deleteVolume({ volumeId: 'db' }));
  assert.deepEqual(left(d), { copies: [], records: [] });
});

test('while a volume is being deleted, one of its name is not made', async (t) => {
  const d = await driver(t);
  await d.create('x');
  await d.world.client.delete(Volumes, 'x');
  await refused(d.controller.createVolume(request('x')), status.ABORTED, /being deleted/u);
});

test('a volume grows to the real size that is told, and asking again changes nothing', async (t) => {
  const d = await driver(t);
  await d.create('x');
  const grow = { volumeId: 'x', capacityRange: sized(1_500_000_000n) };
  const grown = { capacityBytes: 1_500_000_256n, nodeExpansionRequired: true };
  assert.deepEqual(await d.during(d.controller.controllerExpandVolume(grow)), grown);
  assert.deepEqual(await d.controller.controllerExpandVolume(grow), grown);
  assert.deepEqual(await d.controller.controllerExpandVolume({ volumeId: 'x', capacityRange: sized(GIBI) }), grown);
});

test('a block volume needs no work on its node to grow', async (t) => {
  const d = await driver(t);
  await d.create('x', { volumeCapabilities: [block] });
  const answer = await d.during(d.controller.controllerExpandVolume({ volumeId: 'x', capacityRange: sized(2n * GIBI) }));
  assert.deepEqual(answer, { capacityBytes: 2n * GIBI, nodeExpansionRequired: false });
});

test('a volume that has no room to grow keeps its size, in the record too', async (t) => {
  const d = await driver(t, { nodes: 1 });
  await d.create('x');
  await refused(
    d.controller.controllerExpandVolume({ volumeId: 'x', capacityRange: sized(20n * GIBI) }),
    status.RESOURCE_EXHAUSTED,
    /cannot grow to 20.0 GiB: pool local of node node-1/u,
  );
  assert.equal(d.world.volumes()[0]?.spec.size, String(GIBI));
});

test('a volume does not shrink', async (t) => {
  const d = await driver(t);
  await d.create('x');
  await refused(
    d.controller.controllerExpandVolume({ volumeId: 'x', capacityRange: sized(1n, MEBI) }),
    status.OUT_OF_RANGE,
    /cannot shrink/u,
  );
});

// ---- attach --------------------------------------------------------------------------------------------------------------------

test('a volume is attached where it is', async (t) => {
  const d = await driver(t);
  await d.create('x', { accessibilityRequirements: on('node-2') });
  const there = { volumeId: 'x', nodeId: 'node-2', volumeCapability: mounted() };
  assert.deepEqual(await d.controller.controllerPublishVolume(there), { publishContext: {} });
  assert.deepEqual(await d.controller.controllerUnpublishVolume({ volumeId: 'x', nodeId: 'node-2' }), {});
});

const follows = { parameters: { dataMigrationMode: 'VolumeTransfer' }, accessibilityRequirements: on('node-2') };
const moves = async (d: Driver): Promise<string[]> =>
  (await d.world.client.list(Moves)).items.map(({ spec, status: seen }) => `to ${spec.target}: ${seen?.phase ?? 'Pending'}`);
/** Until the call is answered, with a second of the world's time for every turn. */
const lasting = async <T>(d: Driver, call: Promise<T>): Promise<T> => {
  let over = false;
  const end = (): boolean => (over = true);
  call.then(end, end);
  for (let turns = 0; !over; turns += 1) {
    assert.ok(turns < 2_000, `no answer after ${turns} turns: ${JSON.stringify(d.world.volumes())}`);
    await d.world.turn();
    await d.world.clock.advance(1_000);
  }
  return call;
};

test('a volume that follows its application may be on any node with its pool', async (t) => {
  const d = await driver(t);
  const { accessibleTopology } = await d.create('x', follows);
  assert.deepEqual(accessibleTopology, [{ segments: { 'pool.csi.flock.dev/local': 'true' } }]);
});

test('it is moved to where it is attached, by one move for however many calls', async (t) => {
  const d = await driver(t);
  await d.create('x', follows);
  const there = { volumeId: 'x', nodeId: 'node-1', volumeCapability: mounted() };
  const calls = [d.controller.controllerPublishVolume(there), d.controller.controllerPublishVolume(there)];
  assert.deepEqual(await lasting(d, Promise.all(calls)), [{ publishContext: {} }, { publishContext: {} }]);
  assert.equal(d.world.volumes()[0]?.spec.node, 'node-1');
  assert.equal((await moves(d)).length, 1);
});

test('its move is taken back when nobody wants it there any more', async (t) => {
  let asked = 0;
  const d = await driver(t, {}, async () => (asked += 1) === 1);
  await d.create('db', follows);
  await d.world.publish('node-2');
  const call = d.controller.controllerPublishVolume({ volumeId: 'db', nodeId: 'node-1', volumeCapability: mounted() });
  await lasting(d, refused(call, status.ABORTED, /not wanted on node node-1 any more/u));
  const again = d.controller.controllerPublishVolume({ volumeId: 'db', nodeId: 'node-1', volumeCapability: mounted() });
  await lasting(d, refused(again, status.ABORTED, /not wanted/u));
  await d.world.settle();
  assert.deepEqual(await moves(d), ['to node-1: Cancelled']);
  assert.equal(d.world.volumes()[0]?.spec.node, 'node-2');
});

const ATTACHES: [string, Partial<csi.ControllerPublishVolumeRequest>, status, RegExp][] = [
  ['elsewhere', { nodeId: 'node-1' }, status.FAILED_PRECONDITION, /is on node node-2.*flockctl move x --to node-1/u],
  ['on a node that does not exist', { nodeId: 'node-9' }, status.NOT_FOUND, /no node node-9/u],
  ['when it does not exist', { volumeId: 'y' }, status.NOT_FOUND, /no volume y/u],
  ['as a block device', { volumeCapability: block }, status.INVALID_ARGUMENT, /mode Filesystem, not Block/u],
  ['to many nodes', { volumeCapability: mounted(Mode.MULTI_NODE_MULTI_WRITER) }, status.INVALID_ARGUMENT, /not possible/u],
  ['without a capability', { volumeCapability: undefined }, status.INVALID_ARGUMENT, /missing/u],
  ['without a node', { nodeId: '' }, status.INVALID_ARGUMENT, /node_id is missing/u],
];

test('a volume is not attached', async (t) => {
  const d = await driver(t);
  await d.create('x', { accessibilityRequirements: on('node-2') });
  for (const [what, change, code, text] of ATTACHES)
    await t.test(what, async () => {
      const asked = { volumeId: 'x', nodeId: 'node-2', volumeCapability: mounted(), ...change };
      await refused(d.controller.controllerPublishVolume(asked), code, text);
    });
});

// ---- questions -----------------------------------------------------------------------------------------------------------------

test('what a volume can be used as is confirmed or refused with the reason', async (t) => {
  const d = await driver(t);
  await d.create('x');
  const confirmed = await d.controller.validateVolumeCapabilities({ volumeId: 'x', volumeCapabilities: [mounted()] });
  assert.equal(confirmed.confirmed?.volumeCapabilities.length, 1);
  const other = await d.controller.validateVolumeCapabilities({
    volumeId: 'x',
    volumeCapabilities: [mounted(Mode.MULTI_NODE_MULTI_WRITER)],
  });
  assert.equal(other.confirmed, undefined);
  assert.match(other.message, /ReadWriteOnce/u);
  await refused(d.controller.validateVolumeCapabilities({ volumeId: 'x' }), status.INVALID_ARGUMENT);
  await refused(d.controller.validateVolumeCapabilities({ volumeId: 'y', volumeCapabilities: [mounted()] }), status.NOT_FOUND);
});

test('volumes are listed by name in pages that what is made and deleted meanwhile does not shift', async (t) => {
  const d = await driver(t);
  for (const name of ['c', 'a', 'd', 'b']) await d.create(name, { capacityRange: sized(8n * MEBI) });
  const names = ({ entries }: csi.ListVolumesResponse): (string | undefined)[] => entries.map(({ volume }) => volume?.volumeId);
  const first = await d.controller.listVolumes({ maxEntries: 2 });
  assert.deepEqual([names(first), first.nextToken !== ''], [['a', 'b'], true]);
  await d.during(d.controller.deleteVolume({ volumeId: 'b' }));
  await d.create('bb', { capacityRange: sized(8n * MEBI) });
  const second = await d.controller.listVolumes({ startingToken: first.nextToken });
  assert.deepEqual([names(second), second.nextToken], [['bb', 'c', 'd'], '']);
  await refused(d.controller.listVolumes({ startingToken: 'invalid-token' }), status.ABORTED);
  await refused(d.controller.listVolumes({ maxEntries: -1 }), status.INVALID_ARGUMENT);
});

test('a volume says where it is and how it is', async (t) => {
  const d = await driver(t);
  await d.create('x', { accessibilityRequirements: on('node-2') });
  const well = await d.controller.controllerGetVolume({ volumeId: 'x' });
  assert.deepEqual(well.status, {
    publishedNodeIds: ['node-2'],
    volumeCondition: { abnormal: false, message: 'volume x is on node node-2' },
  });
  d.world.silent.add('node-2');
  await d.world.settle();
  const { status: ill } = await d.controller.controllerGetVolume({ volumeId: 'x' });
  assert.deepEqual(ill?.volumeCondition, { abnormal: true, message: 'NodeNotReady: the agent of node node-2 does not answer' });
  await refused(d.controller.controllerGetVolume({ volumeId: 'y' }), status.NOT_FOUND);
});

test('the room of a node is what could be made there now, of all nodes together their sum', async (t) => {
  const d = await driver(t);
  await d.create('x', { capacityRange: sized(4n * GIBI), accessibilityRequirements: on('node-2') });
  const room = async (asked: Partial<csi.GetCapacityRequest>): Promise<bigint[]> => {
    const answer = await d.controller.getCapacity(asked);
    return [answer.availableCapacity, answer.maximumVolumeSize ?? -1n, answer.minimumVolumeSize ?? -1n];
  };
  const at = (node: string): Partial<csi.GetCapacityRequest> => ({ accessibleTopology: { segments: { 'csi.flock.dev/node': node } } });
  assert.deepEqual(await room({}), [16n * GIBI, 10n * GIBI, 8n * MEBI]);
  assert.deepEqual(await room(at('node-2')), [6n * GIBI, 6n * GIBI, 8n * MEBI]);
  assert.deepEqual(await room({ ...at('node-2'), volumeCapabilities: [block] }), [6n * GIBI, 6n * GIBI, -1n]);
  assert.deepEqual(await room({ ...at('node-2'), parameters: { pool: 'other' } }), [0n, 0n, 8n * MEBI]);
  assert.deepEqual(await room(at('node-9')), [0n, 0n, 8n * MEBI]);
  await d.world.client.patch(StorageNodes, 'node-2', { spec: { unschedulable: true } });
  assert.deepEqual(await room(at('node-2')), [0n, 0n, 8n * MEBI]);
});

// ---- ids -----------------------------------------------------------------------------------------------------------------------

const BAD_IDS = ['../x', 'a/b', '.', '..', 'a\u0000b', 'x'.repeat(4096), '%2e%2e', 'ö', 'A', '-x', 'x y'];

test('an id that cannot be one of ours is refused by every call, and nothing is looked up by it', async (t) => {
  const d = await driver(t);
  await d.world.client.create(Volumes, { apiVersion: GROUP_VERSION, kind: 'Volume', metadata: { name: 'x' }, spec: { size: '1Gi' } });
  const { controller } = d;
  const calls: { [name: string]: (volumeId: string) => Promise<unknown> } = {
    DeleteVolume: (volumeId) => controller.deleteVolume({ volumeId }),
    ControllerPublishVolume: (volumeId) => controller.controllerPublishVolume({ volumeId, nodeId: 'node-1', volumeCapability: mounted() }),
    'ControllerPublishVolume by node': (nodeId) =>
      controller.controllerPublishVolume({ volumeId: 'x', nodeId, volumeCapability: mounted() }),
    ControllerUnpublishVolume: (volumeId) => controller.controllerUnpublishVolume({ volumeId, nodeId: 'node-1' }),
    'ControllerUnpublishVolume by node': (nodeId) => controller.controllerUnpublishVolume({ volumeId: 'x', nodeId }),
    ValidateVolumeCapabilities: (volumeId) => controller.validateVolumeCapabilities({ volumeId, volumeCapabilities: [mounted()] }),
    ControllerGetVolume: (volumeId) => controller.controllerGetVolume({ volumeId }),
    'CreateSnapshot of a volume': (sourceVolumeId) => controller.createSnapshot({ name: 's', sourceVolumeId }),
    DeleteSnapshot: (snapshotId) => controller.deleteSnapshot({ snapshotId }),
    GetSnapshot: (snapshotId) => controller.getSnapshot({ snapshotId }),
    'CreateVolume from a snapshot': (id) => controller.createVolume(request('n', { volumeContentSource: snapshotContent(id) })),
    'CreateVolume from a volume': (id) => controller.createVolume(request('n', { volumeContentSource: volumeContent(id) })),
    ControllerExpandVolume: (volumeId) => controller.controllerExpandVolume({ volumeId, capacityRange: sized(GIBI) }),
  };
  const before = d.world.registry.version;
  for (const [name, call] of Object.entries(calls))
    await t.test(name, async () => {
      for (const id of BAD_IDS) await refused(call(id), status.INVALID_ARGUMENT, /is not valid/u);
    });
  assert.equal(d.world.registry.version, before);
});
