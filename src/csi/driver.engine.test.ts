// The driver on real disks: a controller and two agents in this process, image pools on XFS, loop devices, mounts, and calls over the sockets
// as an orchestrator makes them.
import { status } from '@grpc/grpc-js';
import assert from 'node:assert/strict';
import { open, readFile, stat, writeFile, mkdir, access } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { mountsAt } from '../host/mounts.ts';
import { run } from '../host/run.ts';
import { systemClock } from '../model/clock.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { Volumes } from '../model/volume.ts';
import { afterwards, type Test } from '../testing/afterwards.ts';
import { clientOf, refused, type Calls } from '../testing/csi-client.ts';
import { fakePrograms } from '../testing/devices.ts';
import { startEngine, type Engine } from '../testing/engine.ts';
import { needsRoot, temporaryFolder } from '../testing/folders.ts';
import { keptLog } from '../testing/kept-log.ts';
import * as csi from './generated/csi.ts';
import { VolumeCapability_AccessMode_Mode as Mode } from './generated/csi.ts';
import { InfoRequest, RegistrationClient, type RegistrationServer } from './generated/pluginregistration.ts';
import { serveController } from './serve-controller.ts';
import { serveNode } from './serve-node.ts';

const MEBI = 1n << 20n;
const skip = needsRoot;

interface Driver {
  engine: Engine;
  controller: Calls<csi.ControllerServer>;
  node(name: string): Calls<csi.NodeServer>;
  path(name: string): string;
  create(name: string, change?: Partial<csi.CreateVolumeRequest>): Promise<csi.Volume>;
  stage(volumeId: string, capability?: csi.VolumeCapability): Promise<unknown>;
  publish(volumeId: string, target: string, change?: Partial<csi.NodePublishVolumeRequest>): Promise<unknown>;
  /** Unpublished from these paths, unstaged, deleted. */
  gone(volumeId: string, targets: readonly string[]): Promise<void>;
}

async function driver(t: Test, size = 512n * MEBI): Promise<Driver> {
  const folder = await temporaryFolder(t);
  const socketOf = (name: string): string => join(folder, `${name}.sock`);
  for (const name of ['node-1', 'node-2']) await mkdir(join(folder, name));
  const engine = await startEngine(t, {
    nodes: ['node-1', 'node-2'],
    filesystem: { type: 'xfs', size },
    agent: (name) => ({
      alongside: serveNode({
        socket: socketOf(name),
        registration: join(folder, `${name}-reg.sock`),
        folder: join(folder, name),
        log: keptLog(),
        version: '1',
      }),
    }),
  });
  return driverOf(t, engine, folder);
}

async function driverOf(t: Test, engine: Engine, folder: string): Promise<Driver> {
  const socket = join(folder, 'controller.sock');
  const serving = { socket, client: engine.client, clock: systemClock, random: Math.random, log: keptLog(), version: '1' };
  const endpoint = await serveController(serving);
  afterwards(t, () => endpoint.close(0));
  const controller = clientOf<csi.ControllerServer>(t, socket, csi.ControllerClient, csi);
  const node = (name: string): Calls<csi.NodeServer> => clientOf<csi.NodeServer>(t, join(folder, `${name}.sock`), csi.NodeClient, csi);
  const [first, staging] = [node('node-1'), join(folder, 'staging')];
  return {
    engine,
    controller,
    node,
    path: (name) => join(folder, name),
    create: async (name, change = {}) => {
      const { volume } = await controller.createVolume({ name, ...ORDER, ...change });
      assert.ok(volume);
      return volume;
    },
    stage: (volumeId, volumeCapability = mounted()) =>
      first.nodeStageVolume({ volumeId, volumeCapability, stagingTargetPath: join(staging, volumeId) }),
    publish: (volumeId, targetPath, change = {}) =>
      first.nodePublishVolume({ volumeId, targetPath, stagingTargetPath: join(staging, volumeId), volumeCapability: mounted(), ...change }),
    gone: async (volumeId, targets) => {
      for (const targetPath of targets) await first.nodeUnpublishVolume({ volumeId, targetPath });
      await first.nodeUnstageVolume({ volumeId, stagingTargetPath: join(staging, volumeId) });
      await controller.deleteVolume({ volumeId });
    },
  };
}

const mounted = (fsType = '', mode: Mode = Mode.SINGLE_NODE_WRITER): csi.VolumeCapability => ({
  accessMode: { mode },
  accessType: { $case: 'mount', value: { fsType, mountFlags: [], volumeMountGroup: '' } },
});
const block: csi.VolumeCapability = { accessMode: { mode: Mode.SINGLE_NODE_WRITER }, accessType: { $case: 'block', value: {} } };

const sized = (requiredBytes: bigint): csi.CapacityRange => ({ requiredBytes, limitBytes: 0n });

const ORDER: Partial<csi.CreateVolumeRequest> = {
  volumeCapabilities: [mounted()],
  capacityRange: sized(64n * MEBI),
  accessibilityRequirements: { requisite: [], preferred: [{ segments: { 'csi.flock.dev/node': 'node-1' } }] },
};

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

for (const [filesystem, size] of [
  ['ext4', 64n * MEBI],
  ['xfs', 320n * MEBI],
] as const)
  test(`a volume with ${filesystem} is made, used by two pods of a node, and leaves nothing`, { skip }, async (t) => {
    const d = await driver(t, 1024n * MEBI);
    const volumeCapabilities = [mounted(filesystem)];
    const made = await d.create('pvc-1', { volumeCapabilities, capacityRange: sized(size) });
    assert.deepEqual([made.capacityBytes, made.accessibleTopology], [size, [{ segments: { 'csi.flock.dev/node': 'node-1' } }]]);
    await d.controller.controllerPublishVolume({ volumeId: 'pvc-1', nodeId: 'node-1', volumeCapability: mounted() });
    const [one, two] = [d.path('pods/one'), d.path('pods/two')];
    for (let time = 0; time < 2; time += 1) await d.stage('pvc-1');
    for (let time = 0; time < 2; time += 1) await d.publish('pvc-1', one);
    await d.publish('pvc-1', two, { readonly: true });
    await writeFile(join(one, 'file'), 'written');
    assert.equal(await readFile(join(two, 'file'), 'utf8'), 'written');
    await assert.rejects(writeFile(join(two, 'file'), 'changed'), { code: 'EROFS' });
    const [mount] = await mountsAt(two);
    assert.deepEqual(
      ['ro', 'nodev', 'nosuid'].filter((option) => mount?.options.includes(option)),
      ['ro', 'nodev', 'nosuid'],
    );

    const { usage, volumeCondition } = await d.node('node-1').nodeGetVolumeStats({ volumeId: 'pvc-1', volumePath: one });
    assert.equal(volumeCondition?.abnormal, false);
    assert.ok((usage[0]?.available ?? 0n) > size / 2n, `the filesystem shows ${usage[0]?.available}`);

    await refused(d.controller.deleteVolume({ volumeId: 'pvc-1' }), status.FAILED_PRECONDITION, /in use/u);
    await d.gone('pvc-1', [one, two]);
    assert.deepEqual([await exists(one), await exists(two)], [false, false]);
    await d.engine.endsClean();
  });

test('a volume grows while its pod uses it, and the call to the node proves it', { skip }, async (t) => {
  const d = await driver(t, 1024n * MEBI);
  // ext4 asks for a capability that a container may lack.
  await d.create('pvc-1', { volumeCapabilities: [mounted('xfs')], capacityRange: sized(320n * MEBI) });
  const target = d.path('pods/one');
  await d.stage('pvc-1');
  await d.publish('pvc-1', target);
  await writeFile(join(target, 'file'), 'written');
  const capacityRange = sized(640n * MEBI);
  const { capacityBytes } = await d.controller.controllerExpandVolume({ volumeId: 'pvc-1', capacityRange });
  const grown = await d.node('node-1').nodeExpandVolume({ volumeId: 'pvc-1', volumePath: target, capacityRange });
  assert.deepEqual([capacityBytes, grown.capacityBytes], [640n * MEBI, 640n * MEBI]);
  const { usage } = await d.node('node-1').nodeGetVolumeStats({ volumeId: 'pvc-1', volumePath: target });
  assert.ok((usage[0]?.total ?? 0n) > 500n * MEBI, `the filesystem shows ${usage[0]?.total}`);
  assert.equal(await readFile(join(target, 'file'), 'utf8'), 'written');
  await d.gone('pvc-1', [target]);
  await d.engine.endsClean();
});

test('a block volume is a device at the path of its pod, with nothing of a tenant before', { skip }, async (t) => {
  const d = await driver(t);
  const target = d.path('pods/device');
  for (const turn of ['first', 'second']) {
    await d.create(turn, { volumeCapabilities: [block], capacityRange: sized(16n * MEBI) });
    await d.stage(turn, block);
    await d.publish(turn, target, { volumeCapability: block });
    assert.ok((await stat(target)).isBlockDevice());
    await using device = await open(target, 'r+');
    const { buffer } = await device.read(Buffer.alloc(4096), 0, 4096, 0);
    assert.ok(buffer.every((byte) => byte === 0));
    await device.write(Buffer.alloc(4096, turn), 0, 4096, 0);
    await device.sync();
    await device.close();
    const { usage } = await d.node('node-1').nodeGetVolumeStats({ volumeId: turn, volumePath: target });
    assert.equal(usage[0]?.total, 16n * MEBI);
    await d.gone(turn, [target]);
    assert.equal(await exists(target), false);
  }
  await d.engine.endsClean();
});

test('an agent that comes back knows what is published, and finishes what is asked again', { skip }, async (t) => {
  const d = await driver(t);
  await d.create('pvc-1');
  const only = { volumeCapability: mounted('', Mode.SINGLE_NODE_SINGLE_WRITER) };
  const target = d.path('pods/one');
  await d.stage('pvc-1', only.volumeCapability);
  await d.publish('pvc-1', target, only);
  await writeFile(join(target, 'file'), 'written');
  await d.engine.stopAgent('node-1');
  assert.equal(await readFile(join(target, 'file'), 'utf8'), 'written');
  await d.engine.startAgent('node-1');
  await d.publish('pvc-1', target, only);
  await refused(d.publish('pvc-1', d.path('pods/two'), only), status.FAILED_PRECONDITION, /one pod at a time/u);
  await d.gone('pvc-1', [target]);
  await d.engine.endsClean();
});

test('a bind mount whose options were not set yet is made anew', { skip }, async (t) => {
  const d = await driver(t);
  await d.create('pvc-1');
  await d.stage('pvc-1');
  const target = d.path('pods/one');
  await mkdir(target, { recursive: true });
  await run('mount', ['--bind', d.path('staging/pvc-1'), target]);
  await d.publish('pvc-1', target, { readonly: true });
  assert.ok((await mountsAt(target)).every(({ options }) => options.includes('ro')));
  assert.equal((await mountsAt(target)).length, 1);
  await d.gone('pvc-1', [target]);
  await d.engine.endsClean();
});

test('nothing is published after its staging was unmounted behind our back', { skip }, async (t) => {
  const d = await driver(t);
  await d.create('pvc-1');
  await d.stage('pvc-1');
  await run('umount', [d.path('staging/pvc-1')]);
  await refused(d.publish('pvc-1', d.path('pods/one')), status.FAILED_PRECONDITION, /not mounted there any more/u);
  assert.equal(await exists(d.path('pods/one')), false);
  await d.stage('pvc-1');
  await d.publish('pvc-1', d.path('pods/one'));
  await d.gone('pvc-1', [d.path('pods/one')]);
  await d.engine.endsClean();
});

test('what somebody wrote below an unmounted path is not deleted', { skip }, async (t) => {
  const d = await driver(t);
  await d.create('pvc-1');
  await d.stage('pvc-1');
  const target = d.path('pods/one');
  await d.publish('pvc-1', target);
  await run('umount', [target]);
  await writeFile(join(target, 'stray'), 'kept');
  await refused(d.node('node-1').nodeUnpublishVolume({ volumeId: 'pvc-1', targetPath: target }), status.FAILED_PRECONDITION, /not empty/u);
  assert.equal(await readFile(join(target, 'stray'), 'utf8'), 'kept');
  await run('rm', [join(target, 'stray')]);
  await d.gone('pvc-1', [target]);
  await d.engine.endsClean();
});

for (const program of ['mkfs.ext4', 'mount', 'blkid'])
  test(`a ${program} that fails is a failed staging each time, and nothing is left of it`, { skip }, async (t) => {
    const d = await driver(t);
    await d.create('pvc-1');
    const restore = await fakePrograms(t, { [program]: `echo ${program} is broken >&2; exit 1` });
    for (let time = 0; time < 2; time += 1) await refused(d.stage('pvc-1'), status.INTERNAL, new RegExp(`${program} is broken`, 'u'));
    assert.deepEqual(await mountsAt(d.path('staging/pvc-1')), []);
    restore();
    await d.stage('pvc-1');
    await d.gone('pvc-1', []);
    await d.engine.endsClean();
  });

test('a volume is staged on the node that has it only, and not while it is not there', { skip }, async (t) => {
  const d = await driver(t);
  await d.create('pvc-1');
  const asked = { volumeId: 'pvc-1', volumeCapability: mounted(), stagingTargetPath: d.path('staging/elsewhere') };
  await refused(d.node('node-2').nodeStageVolume(asked), status.FAILED_PRECONDITION, /is on node node-1/u);
  await refused(d.node('node-2').nodeStageVolume({ ...asked, volumeId: 'pvc-9' }), status.NOT_FOUND, /no such volume/u);
  await d.controller.deleteVolume({ volumeId: 'pvc-1' });
  await d.engine.endsClean();
});

test('of five at once those that fit are made, the others are told to look elsewhere, and nothing is left of them', { skip }, async (t) => {
  const d = await driver(t);
  const { status: known } = await d.engine.until(StorageNodes, 'node-1', (node) => node.status?.pools?.local?.free !== undefined);
  // What a file takes besides its bytes is left over.
  const third = ((BigInt(known?.pools?.local?.free ?? 0) - 16n * MEBI) / 3n / 4096n) * 4096n;
  const names = ['a', 'b', 'c', 'd', 'e'];
  const order = { ...ORDER, volumeCapabilities: [block], capacityRange: sized(third) };
  const ends = await Promise.allSettled(names.map((name) => d.controller.createVolume({ name, ...order })));
  const codes = ends.map((end) => (end.status === 'fulfilled' ? 'OK' : status[(end.reason as { code: status }).code])).toSorted();
  assert.deepEqual(codes, ['OK', 'OK', 'OK', 'RESOURCE_EXHAUSTED', 'RESOURCE_EXHAUSTED']);
  assert.equal((await d.engine.client.list(Volumes)).items.length, 3);
  for (const name of names) await d.controller.deleteVolume({ volumeId: name });
  await d.engine.endsClean();
});

test('the kubelet finds the driver, and a second agent does not take its sockets', { skip }, async (t) => {
  const d = await driver(t);
  const registration = clientOf<RegistrationServer>(t, d.path('node-1-reg.sock'), RegistrationClient, { GetInfoRequest: InfoRequest });
  assert.equal((await registration.getInfo()).endpoint, d.path('node-1.sock'));
  await d.engine.stopAgent('node-2');
  const socket = d.path('node-1.sock');
  const stealing = serveNode({ socket, folder: d.path('node-2'), log: keptLog(), version: '1' });
  await assert.rejects(d.engine.startAgent('node-2', { alongside: stealing }), { reason: 'Conflict', message: /another process serves/u });
  assert.equal((await d.node('node-1').nodeGetInfo()).nodeId, 'node-1');
  await d.engine.startAgent('node-2');
  assert.equal((await d.node('node-2').nodeGetInfo()).nodeId, 'node-2');
});
