// The CSI driver as it runs from the command line: a controller and an agent with their sockets, and who calls them.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readKubeconfig } from '../api/kubeconfig.ts';
import * as csi from '../csi/generated/csi.ts';
import { InfoRequest, RegistrationClient, type RegistrationServer } from '../csi/generated/pluginregistration.ts';
import { afterwards } from '../testing/afterwards.ts';
import { flockctl, overHttp, start, whenWritten } from '../testing/cli.ts';
import { clientOf } from '../testing/csi-client.ts';
import { temporaryFolder } from '../testing/folders.ts';

test('controller and agent serve CSI on the sockets that they are told, and the kubelet is told of the second', async (t) => {
  const folder = await temporaryFolder(t);
  const begin = async (words: string[], said: string, env: { [name: string]: string } = {}): Promise<void> => {
    const running = start(words, overHttp(env));
    afterwards(t, async () => {
      running.interrupt();
      await running.done;
    });
    await whenWritten(running, said);
  };
  const server = join(folder, 'server');
  await begin(['server', '--dir', server, '--listen', '127.0.0.1:0'], 'server runs');
  const socket = (name: string): string => join(folder, `${name}.sock`);
  await begin(['controller', '--kubeconfig', join(server, 'controller.kubeconfig'), '--csi-socket', socket('controller')], 'CSI is served');
  const url = readKubeconfig(join(server, 'kubeconfig')).connection.server;
  const { out: token } = await flockctl(['server', 'invite'], overHttp({ FLOCK_KUBECONFIG: join(server, 'kubeconfig') }));
  mkdirSync(join(folder, 'pool'));
  writeFileSync(join(folder, 'pools.yaml'), `pools: [{name: local, type: image, path: ${folder}/pool}]`);
  const words = ['agent', '--name', 'host-a', '--dir', join(folder, 'agent'), '--pools', join(folder, 'pools.yaml'), '--server', url];
  const sockets = ['--csi-socket', socket('node'), '--registration-socket', socket('registration')];
  await begin([...words, '--listen', '127.0.0.1:0', ...sockets], 'agent runs', { FLOCK_INVITE: token.trim() });

  const registration = clientOf<RegistrationServer>(t, socket('registration'), RegistrationClient, { GetInfoRequest: InfoRequest });
  assert.equal((await registration.getInfo()).endpoint, socket('node'));
  const node = clientOf<csi.NodeServer>(t, socket('node'), csi.NodeClient, csi);
  const { nodeId, accessibleTopology } = await node.nodeGetInfo();
  assert.equal(nodeId, 'host-a');
  const controller = clientOf<csi.ControllerServer>(t, socket('controller'), csi.ControllerClient, csi);
  const { volume } = await controller.createVolume({
    name: 'x',
    volumeCapabilities: [{ accessMode: { mode: 1 }, accessType: { $case: 'block', value: {} } }],
    capacityRange: { requiredBytes: 16n << 20n, limitBytes: 0n },
    accessibilityRequirements: { requisite: [], preferred: accessibleTopology ? [accessibleTopology] : [] },
  });
  assert.equal(volume?.capacityBytes, 16n << 20n);
  assert.deepEqual(await controller.deleteVolume({ volumeId: 'x' }), {});
});

test('a cluster on one machine serves CSI in the folder that it is told, and again when it comes up later', async (t) => {
  const folder = await temporaryFolder(t);
  const [cluster, sockets] = [join(folder, 'cluster'), join(folder, 'csi')];
  const env = { XDG_STATE_HOME: folder, FLOCK_SERVER: '', FLOCK_KUBECONFIG: '' };
  const flock = async (...words: string[]): Promise<void> => {
    const ran = await flockctl([...words, '--dir', cluster], { env });
    assert.equal(ran.code, 0, ran.err);
  };
  afterwards(t, () => flock('down', '--delete'));
  await flock('up', '--nodes', '1', '--csi', sockets);
  await flock('down');
  await flock('up');
  const controller = clientOf<csi.IdentityServer>(t, join(sockets, 'controller.sock'), csi.IdentityClient, csi);
  assert.equal((await controller.getPluginInfo()).name, 'csi.flock.dev');
  const node = clientOf<csi.NodeServer>(t, join(sockets, 'node-1.sock'), csi.NodeClient, csi);
  assert.equal((await node.nodeGetInfo()).nodeId, 'node-1');
});

test('an agent without pools says that its node will hold no volumes', async (t) => {
  const folder = await temporaryFolder(t);
  writeFileSync(join(folder, 'pools.yaml'), 'pools: []');
  const words = ['agent', '--name', 'a', '--dir', folder, '--pools', join(folder, 'pools.yaml'), '--server', 'https://127.0.0.1:1'];
  const ran = await flockctl(words, overHttp({}));
  assert.match(`${ran.out}${ran.err}`, /pools\.yaml names no pool: this node will hold no volumes/u);
});

test('a registration without a driver is a slip', async (t) => {
  const folder = await temporaryFolder(t);
  writeFileSync(join(folder, 'pools.yaml'), 'pools: []');
  const words = ['agent', '--name', 'a', '--dir', folder, '--pools', join(folder, 'pools.yaml'), '--server', 'https://127.0.0.1:1'];
  const ran = await flockctl([...words, '--registration-socket', join(folder, 'r.sock')], overHttp({}));
  assert.notEqual(ran.code, 0);
  assert.match(ran.err, /add --csi-socket/u);
});
