// A real kubectl on a real kube-apiserver, the same on our own server, and on a whole cluster as `flockctl up` makes it.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { GROUP_VERSION } from '../src/model/meta.ts';
import { startCluster } from './kube/cluster.ts';
import { installDefinitions } from './kube/definitions.ts';
import { Kubectl, programs } from './kube/programs.ts';
import { kubectlContract } from './kubectl-contract.ts';
import { startOwnServer } from './own-server.ts';

kubectlContract('kubectl on kube-apiserver', async () => {
  const cluster = await startCluster();
  await installDefinitions(cluster.kubectl);
  return { kubectl: cluster.kubectl, close: () => cluster.stop() };
});

kubectlContract('kubectl on flockctl server', startOwnServer);

describe('kubectl with the kubeconfig that flockctl up writes', { timeout: 120_000 }, () => {
  let folder: string;
  let kubectl: Kubectl;
  const flockctl = (...words: string[]): Promise<unknown> => {
    const env = { PATH: process.env['PATH'], XDG_STATE_HOME: join(folder, 'state') };
    return promisify(execFile)(join(import.meta.dirname, '../bin/flockctl'), words, { env });
  };

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'flock-up-'));
    await flockctl('up', '--nodes', '1', '--dir', join(folder, 'cluster'));
    kubectl = new Kubectl((await programs()).kubectl, join(folder, 'cluster', 'kubeconfig'), join(folder, 'kubectl'));
  });
  after(async () => {
    try {
      await flockctl('down', '--dir', join(folder, 'cluster'), '--delete');
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it('waits for the node and finds its heartbeat', async () => {
    assert.equal(
      await kubectl.ok(['wait', 'fnode/node-1', '--for=condition=Ready', '--timeout=30s']),
      'storagenode.flock.dev/node-1 condition met\n',
    );
    const holder = await kubectl.ok(['get', 'lease', 'node-node-1', '-n', 'flock-system', '-o', 'jsonpath={.spec.holderIdentity}']);
    assert.equal(holder, 'node-1');
  });

  it('makes a volume, sees what was done for it, and removes it with its bytes', async () => {
    const spec = { size: '64Mi', pool: 'local', node: 'node-1' };
    await kubectl.ok(['apply', '-f', '-'], JSON.stringify({ apiVersion: GROUP_VERSION, kind: 'Volume', metadata: { name: 'db' }, spec }));
    await kubectl.ok(['wait', 'fvol/db', '--for=jsonpath={.status.phase}=Available', '--timeout=30s']);
    const row = await kubectl.ok(['get', 'fvol', 'db', '--no-headers']);
    assert.deepEqual(row.split(/ +/u).slice(0, 5), ['db', '64Mi', 'local', 'node-1', 'Available']);
    // Both processes tell what they did, a moment after they did it.
    await kubectl.ok(['wait', 'events', '--for=create', '--field-selector', 'involvedObject.name=db,reason=CopyCreated', '--timeout=30s']);
    const described = await kubectl.ok(['describe', 'fvol', 'db']);
    assert.match(described, /\n {2}Normal +VolumePlaced +\S+ +flock-controller +volume db goes to pool local of node node-1\n/u);
    assert.match(
      described,
      /\n {2}Normal +CopyCreated +\S+ +flock-agent +copy \w+ \(active\) of 67108864 bytes in pool local of node node-1\n/u,
    );
    assert.equal(await kubectl.ok(['delete', 'fvol', 'db', '--timeout=30s']), 'volume.flock.dev "db" deleted\n');
  });
});
