// The node's calls over a real socket, with mounts in memory: what is refused, and what is remembered.
import { status } from '@grpc/grpc-js';
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { LocalNode } from '../agent/local-node.ts';
import type { InUse } from '../agent/publishing.ts';
import { FlockError } from '../model/errors.ts';
import { afterwards, type Test } from '../testing/afterwards.ts';
import { clientOf, refused, type Calls } from '../testing/csi-client.ts';
import { temporaryFolder } from '../testing/folders.ts';
import { keptLog } from '../testing/kept-log.ts';
import { aVolume } from '../testing/records.ts';
import type { Binds } from './binds.ts';
import * as csi from './generated/csi.ts';
import { VolumeCapability_AccessMode_Mode as Mode } from './generated/csi.ts';
import { serveNode } from './serve-node.ts';

const MEBI = 1n << 20n;

/** What outlives an agent: mounts by path, and what is published. */
interface Machine {
  mounts: Map<string, { device: string; options: string }>;
  published: Map<string, { target: string; readOnly: boolean }[]>;
  /** Volumes that the agent may publish. */
  volumes: Map<string, { block: boolean }>;
  /** What publishing answers instead. */
  failure: Error | null;
  filled: string[];
  /** How often unpublishing finds somebody else with the device open. */
  busy: number;
}

const deviceOf = (volume: string): string => `/dev/${volume}`;

function localNode(of: Machine, node: string): LocalNode {
  return {
    node,
    pools: () => ['local', 'other'],
    volume: (name) => {
      const there = of.volumes.get(name);
      return there ? aVolume({ meta: { name }, spec: there.block ? { volumeMode: 'Block' } : { filesystem: 'ext4' } }) : null;
    },
    publish: async ({ volume, target, readOnly }) => {
      if (of.failure) throw of.failure;
      if (!of.volumes.has(volume)) throw new FlockError('NotFound', `there is no volume ${volume}`);
      of.mounts.set(target, { device: deviceOf(volume), options: '' });
      of.published.set(volume, [...(of.published.get(volume) ?? []).filter((one) => one.target !== target), { target, readOnly }]);
      return { device: deviceOf(volume), target };
    },
    unpublish: async ({ volume, target }) => {
      if (of.busy > 0) {
        of.busy -= 1;
        throw new FlockError('InUse', `${deviceOf(volume)} is in use: opened by process 1 (udevd)`);
      }
      const all = of.published.get(volume) ?? [];
      for (const one of all) if (one.target === target) of.mounts.delete(one.target);
      const rest = all.filter((one) => one.target !== target);
      if (rest.length > 0) of.published.set(volume, rest);
      else of.published.delete(volume);
    },
    published: async (volume): Promise<InUse | null> => {
      const publications = of.published.get(volume);
      const volumeMode = of.volumes.get(volume)?.block ? 'Block' : 'Filesystem';
      return publications ? { device: deviceOf(volume), size: 64n * MEBI, volumeMode, publications } : null;
    },
    fill: async (volume) => void of.filled.push(volume),
  };
}

function memoryBinds({ mounts }: Machine): Binds {
  return {
    beBound: async (source, target, options) => {
      const from = mounts.get(source);
      if (!from) throw new FlockError('Internal', `nothing is mounted at ${source}`);
      mounts.set(target, { device: from.device, options: options.join(',') });
    },
    beDevice: async (device, target) => void mounts.set(target, { device, options: '' }),
    beGone: async (target) => void mounts.delete(target),
    isMounted: async (target) => mounts.has(target),
    isOf: async (target, device) => mounts.get(target)?.device === device,
    usage: async () => ({
      bytes: { total: 60n * MEBI, used: MEBI, available: 59n * MEBI },
      inodes: { total: 100n, used: 11n, available: 89n },
    }),
    size: async () => 64n * MEBI,
  };
}

interface Driver {
  of: Machine;
  node: Calls<csi.NodeServer>;
  folder: string;
  stage(volume?: string, capability?: csi.VolumeCapability): Promise<unknown>;
  publish(target: string, change?: Partial<csi.NodePublishVolumeRequest>): Promise<unknown>;
  /** The agent's process ends and another begins. */
  restart(): Promise<void>;
}

async function driver(t: Test, name = 'node-1'): Promise<Driver> {
  const folder = await temporaryFolder(t);
  const of: Machine = {
    mounts: new Map(),
    published: new Map(),
    volumes: new Map([
      ['x', { block: false }],
      ['raw', { block: true }],
    ]),
    failure: null,
    filled: [],
    busy: 0,
  };
  const socket = join(folder, 'csi.sock');
  const start = (): ReturnType<ReturnType<typeof serveNode>> =>
    serveNode({ socket, folder, log: keptLog(), version: '1', binds: memoryBinds(of) })(localNode(of, name));
  let endpoint = await start();
  afterwards(t, () => endpoint.close());
  const d: Driver = {
    of,
    folder,
    node: clientOf<csi.NodeServer>(t, socket, csi.NodeClient, csi),
    stage: (volumeId = 'x', volumeCapability = mounted()) =>
      d.node.nodeStageVolume({ volumeId, volumeCapability, stagingTargetPath: join(folder, 'staging') }),
    publish: (target, change = {}) =>
      d.node.nodePublishVolume({
        volumeId: 'x',
        volumeCapability: mounted(),
        stagingTargetPath: join(folder, 'staging'),
        targetPath: target,
        ...change,
      }),
    restart: async () => {
      await endpoint.close();
      endpoint = await start();
      d.node = clientOf<csi.NodeServer>(t, socket, csi.NodeClient, csi);
    },
  };
  return d;
}

const mounted = (mode: Mode = Mode.SINGLE_NODE_WRITER, mountFlags: string[] = [], fsType = ''): csi.VolumeCapability => ({
  accessMode: { mode },
  accessType: { $case: 'mount', value: { fsType, mountFlags, volumeMountGroup: '' } },
});
const block = (mode: Mode = Mode.SINGLE_NODE_WRITER): csi.VolumeCapability => ({
  accessMode: { mode },
  accessType: { $case: 'block', value: {} },
});

test('the node says by which keys volumes find it', async (t) => {
  const { node } = await driver(t);
  assert.deepEqual(await node.nodeGetInfo(), {
    nodeId: 'node-1',
    maxVolumesPerNode: 0n,
    accessibleTopology: {
      segments: { 'csi.flock.dev/node': 'node-1', 'pool.csi.flock.dev/local': 'true', 'pool.csi.flock.dev/other': 'true' },
    },
  });
});

test('a node whose name no label can hold says so', async (t) => {
  const d = await driver(t, 'n'.repeat(64));
  await refused(d.node.nodeGetInfo(), status.FAILED_PRECONDITION, /shorter --name/u);
});

test('a volume is staged once and bound to the path of each user, and every call may be repeated', async (t) => {
  const d = await driver(t);
  for (let time = 0; time < 2; time += 1) await d.stage();
  for (let time = 0; time < 2; time += 1) await d.publish('/pods/1');
  await d.publish('/pods/2', { readonly: true });
  assert.deepEqual(
    [...d.of.mounts].map(([path, { device, options }]) => [path.replace(d.folder, ''), device, options]),
    [
      ['/staging', '/dev/x', ''],
      ['/pods/1', '/dev/x', ''],
      ['/pods/2', '/dev/x', 'ro'],
    ],
  );
  const staged = { volumeId: 'x', stagingTargetPath: join(d.folder, 'staging') };
  await refused(d.node.nodeUnstageVolume(staged), status.FAILED_PRECONDITION, /still published at \/pods\/1, \/pods\/2/u);
  for (const targetPath of ['/pods/1', '/pods/2', '/pods/1']) await d.node.nodeUnpublishVolume({ volumeId: 'x', targetPath });
  for (let time = 0; time < 2; time += 1) await d.node.nodeUnstageVolume(staged);
  assert.deepEqual([...d.of.mounts], []);
});

test('a block volume is the device itself, at the path of each user', async (t) => {
  const d = await driver(t);
  await d.stage('raw', block());
  await d.publish('/pods/raw', { volumeId: 'raw', volumeCapability: block() });
  assert.deepEqual(
    [...d.of.mounts.keys()].map((path) => path.replace(d.folder, '')),
    ['/staging/device', '/pods/raw'],
  );
  const readOnly = { volumeId: 'raw', volumeCapability: block(), readonly: true };
  await refused(d.publish('/pods/raw', readOnly), status.INVALID_ARGUMENT, /cannot be published read-only/u);
  await refused(d.stage('raw', mounted()), status.INVALID_ARGUMENT, /mode Block, not Filesystem/u);
});

test('mount options are those of the user', async (t) => {
  const d = await driver(t);
  await d.stage();
  await d.publish('/pods/1', { volumeCapability: mounted(undefined, ['noatime', 'noexec', 'rw']) });
  assert.equal(d.of.mounts.get('/pods/1')?.options, 'noatime,noexec');
  await refused(d.publish('/pods/2', { volumeCapability: mounted(undefined, ['dev']) }), status.INVALID_ARGUMENT, /"dev" is not possible/u);
});

// ---- who may use it ------------------------------------------------------------------------------------------------------------

const SECOND: [string, Mode, boolean][] = [
  ['a pod of ReadWriteOncePod', Mode.SINGLE_NODE_SINGLE_WRITER, false],
  ['a pod of ReadWriteOnce', Mode.SINGLE_NODE_MULTI_WRITER, true],
  ['an orchestrator of before', Mode.SINGLE_NODE_WRITER, true],
];

for (const [who, mode, allowed] of SECOND)
  test(`a volume in use is ${allowed ? 'given to' : 'kept from'} ${who} on the same node, after a restart too`, async (t) => {
    const d = await driver(t);
    await d.stage('x', mounted(mode));
    await d.publish('/pods/1', { volumeCapability: mounted(mode) });
    await d.restart();
    const second = d.publish('/pods/2', { volumeCapability: mounted(mode) });
    if (allowed) await second;
    else await refused(second, status.FAILED_PRECONDITION, /for one pod at a time, and is published at \/pods\/1/u);
    await d.publish('/pods/1', { volumeCapability: mounted(mode) });
  });

test('a publish that failed keeps no place', async (t) => {
  const d = await driver(t);
  const single = { volumeCapability: mounted(Mode.SINGLE_NODE_SINGLE_WRITER) };
  await d.stage();
  d.of.mounts.delete(join(d.folder, 'staging'));
  await refused(d.publish('/pods/1', single), status.FAILED_PRECONDITION);
  await d.stage();
  await d.publish('/pods/2', single);
});

test('a path that is published for reading is not published for writing as well', async (t) => {
  const d = await driver(t);
  await d.stage();
  await d.publish('/pods/1', { readonly: true });
  await refused(d.publish('/pods/1'), status.ALREADY_EXISTS, /read-only/u);
});

test('a volume that nobody may write is staged so', async (t) => {
  const d = await driver(t);
  const reading = mounted(Mode.SINGLE_NODE_READER_ONLY);
  await d.stage('x', reading);
  assert.equal(d.of.published.get('x')?.[0]?.readOnly, true);
  await d.publish('/pods/1', { volumeCapability: reading });
  assert.equal(d.of.mounts.get('/pods/1')?.options, 'ro');
});

// ---- what must not happen ------------------------------------------------------------------------------------------------------

test('nothing is published from a folder where the volume is not mounted', async (t) => {
  const d = await driver(t);
  await refused(d.publish('/pods/1'), status.FAILED_PRECONDITION, /is not staged at/u);
  await d.stage();
  // Somebody unmounted it, or mounted something else there.
  d.of.mounts.delete(join(d.folder, 'staging'));
  await refused(d.publish('/pods/1'), status.FAILED_PRECONDITION, /not mounted there any more/u);
  d.of.mounts.set(join(d.folder, 'staging'), { device: '/dev/else', options: '' });
  await refused(d.publish('/pods/1'), status.FAILED_PRECONDITION, /not mounted there any more/u);
  assert.equal(d.of.mounts.has('/pods/1'), false);
});

test('what is mounted at a path and is not the volume is left alone', async (t) => {
  const d = await driver(t);
  d.of.mounts.set('/home', { device: '/dev/sda', options: '' });
  await refused(d.node.nodeUnpublishVolume({ volumeId: 'x', targetPath: '/home' }), status.FAILED_PRECONDITION, /left as it is/u);
  await d.stage();
  await refused(d.node.nodeUnpublishVolume({ volumeId: 'x', targetPath: '/home' }), status.FAILED_PRECONDITION, /left as it is/u);
  assert.ok(d.of.mounts.has('/home'));
});

test('a mount of the volume that was not written down is taken away all the same', async (t) => {
  const d = await driver(t);
  await d.stage();
  d.of.mounts.set('/pods/lost', { device: '/dev/x', options: '' });
  await d.node.nodeUnpublishVolume({ volumeId: 'x', targetPath: '/pods/lost' });
  assert.equal(d.of.mounts.has('/pods/lost'), false);
});

const REFUSALS: [FlockError, status][] = [
  [new FlockError('NotPermitted', 'volume x is on node node-2'), status.FAILED_PRECONDITION],
  [new FlockError('InUse', 'the staging path is taken'), status.FAILED_PRECONDITION],
  [new FlockError('Corrupt', 'nothing is found on it'), status.DATA_LOSS],
  [new FlockError('Internal', '`mkfs.ext4` failed with exit code 1'), status.INTERNAL],
  [new FlockError('Unavailable', 'the server does not answer'), status.UNAVAILABLE],
];

for (const [failure, code] of REFUSALS)
  test(`when the agent says ${failure.reason}, staging says ${status[code]}`, async (t) => {
    const d = await driver(t);
    d.of.failure = failure;
    assert.equal(await refused(d.stage(), code), failure.message);
  });

// ---- sizes and state -----------------------------------------------------------------------------------------------------------

test('a grown volume has its filesystem grown, and a block volume is left as it is', async (t) => {
  const d = await driver(t);
  await d.stage();
  await d.stage('raw', block());
  const asked = { volumePath: '/pods/1', capacityRange: { requiredBytes: 64n * MEBI, limitBytes: 0n } };
  assert.deepEqual(await d.node.nodeExpandVolume({ ...asked, volumeId: 'x' }), { capacityBytes: 64n * MEBI });
  assert.deepEqual(await d.node.nodeExpandVolume({ ...asked, volumeId: 'raw' }), { capacityBytes: 64n * MEBI });
  assert.deepEqual(d.of.filled, ['x']);
  const more = { ...asked, capacityRange: { requiredBytes: 65n * MEBI, limitBytes: 0n } };
  await refused(d.node.nodeExpandVolume({ ...more, volumeId: 'x' }), status.UNAVAILABLE, /try again when it has grown/u);
  await refused(d.node.nodeExpandVolume({ ...asked, volumeId: 'y' }), status.NOT_FOUND);
});

test('use and condition are told for where the volume is', async (t) => {
  const d = await driver(t);
  await d.stage();
  await d.publish('/pods/1');
  assert.deepEqual(await d.node.nodeGetVolumeStats({ volumeId: 'x', volumePath: '/pods/1' }), {
    usage: [
      { unit: 1, total: 60n * MEBI, used: MEBI, available: 59n * MEBI },
      { unit: 2, total: 100n, used: 11n, available: 89n },
    ],
    volumeCondition: { abnormal: false, message: 'volume x is on node node-1' },
  });
  await refused(d.node.nodeGetVolumeStats({ volumeId: 'x', volumePath: '/pods/2' }), status.NOT_FOUND);
  await refused(d.node.nodeGetVolumeStats({ volumeId: 'x', volumePath: 'some/path' }), status.NOT_FOUND);
  await refused(d.node.nodeGetVolumeStats({ volumeId: 'y', volumePath: 'some/path' }), status.NOT_FOUND);
  d.of.mounts.delete('/pods/1');
  const { usage, volumeCondition } = await d.node.nodeGetVolumeStats({ volumeId: 'x', volumePath: '/pods/1' });
  assert.deepEqual([usage, volumeCondition?.abnormal], [[], true]);
});

test('a block volume tells its size', async (t) => {
  const d = await driver(t);
  await d.stage('raw', block());
  await d.publish('/pods/raw', { volumeId: 'raw', volumeCapability: block() });
  const { usage } = await d.node.nodeGetVolumeStats({ volumeId: 'raw', volumePath: '/pods/raw' });
  assert.deepEqual(usage, [{ unit: 1, total: 64n * MEBI, used: 0n, available: 0n }]);
});

// ---- ids and paths -------------------------------------------------------------------------------------------------------------

const BAD_IDS = ['', '../x', 'a/b', '.', '..', 'a\u0000b', 'x'.repeat(4096), '%2e%2e', 'ö', 'A', '-x', 'x y'];
const BAD_PATHS = ['', 'pods/1', '/', '/pods/../etc', '/a\u0000b', `/${'x'.repeat(4096)}`];

const CALLS: { [name: string]: (d: Driver, asked: { volumeId?: string; path?: string }) => Promise<unknown> } = {
  NodeStageVolume: (d, { volumeId = 'x', path = '/staging' }) =>
    d.node.nodeStageVolume({ volumeId, stagingTargetPath: path, volumeCapability: mounted() }),
  NodeUnstageVolume: (d, { volumeId = 'x', path = '/staging' }) => d.node.nodeUnstageVolume({ volumeId, stagingTargetPath: path }),
  NodePublishVolume: (d, { volumeId = 'x', path = '/pods/1' }) => d.publish(path, { volumeId }),
  NodeUnpublishVolume: (d, { volumeId = 'x', path = '/pods/1' }) => d.node.nodeUnpublishVolume({ volumeId, targetPath: path }),
  NodeExpandVolume: (d, { volumeId = 'x', path = '/pods/1' }) => d.node.nodeExpandVolume({ volumeId, volumePath: path }),
  NodeGetVolumeStats: (d, { volumeId = 'x', path = '/pods/1' }) => d.node.nodeGetVolumeStats({ volumeId, volumePath: path }),
};

/** Those that only look whether the volume is there. */
const LOOKING = ['NodeExpandVolume', 'NodeGetVolumeStats'];

for (const [name, call] of Object.entries(CALLS))
  test(`${name} refuses ids and paths that cannot be`, async (t) => {
    const d = await driver(t);
    await d.stage();
    const before = structuredClone(d.of.mounts);
    for (const volumeId of BAD_IDS) await refused(call(d, { volumeId }), status.INVALID_ARGUMENT, /is not valid|is missing/u);
    for (const path of LOOKING.includes(name) ? [''] : BAD_PATHS)
      await refused(call(d, { path }), status.INVALID_ARGUMENT, /is not valid|is missing|cannot be \//u);
    assert.deepEqual(d.of.mounts, before);
  });

test('who looks at all devices for a moment keeps none of them staged', async (t) => {
  const d = await driver(t);
  await d.stage();
  d.of.busy = 2;
  await d.node.nodeUnstageVolume({ volumeId: 'x', stagingTargetPath: join(d.folder, 'staging') });
  assert.deepEqual([...d.of.mounts], []);
});

test('staging and publishing need to know as what', async (t) => {
  const d = await driver(t);
  await refused(d.node.nodeStageVolume({ volumeId: 'x', stagingTargetPath: '/staging' }), status.INVALID_ARGUMENT, /volume_capability/u);
  await refused(d.publish('/pods/1', { volumeCapability: undefined }), status.INVALID_ARGUMENT, /volume_capability/u);
  await refused(d.stage('x', mounted(undefined, [], 'xfs')), status.INVALID_ARGUMENT, /has ext4, not xfs/u);
});
