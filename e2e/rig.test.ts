// The cluster that the scenarios run on is a real one: nodes with kernels of their own, pods, DNS, LVM, and nodes that are lost and come back.
// Needs a running cluster of three nodes, named by FLOCK_RIG (`npm run e2e -- --only rig` makes one); leaves it as it was.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { HostAbilities } from '../src/host/probe.ts';
import { run } from '../src/host/run.ts';
import { clusterNames, loadImage, nodesReady, openCluster, surroundings, type Cluster } from './rig/cluster.ts';
import { apiReady } from './rig/control-plane.ts';
import { writeImage } from './rig/image.ts';
import { hasNetwork, members } from './rig/network.ts';
import type { RigNode } from './rig/node.ts';
import { placeOf } from './rig/place.ts';

let cluster: Cluster;
let nodes: [RigNode, RigNode, RigNode];
const kubectl = (...words: string[]): Promise<string> => cluster.kubectl.ok(words);

before(async () => {
  cluster = await openCluster(process.env['FLOCK_RIG'] ?? 'e2e');
  const [first, second, third] = cluster.nodes;
  assert.ok(first && second && third, 'the cluster has three nodes');
  nodes = [first, second, third];
});

/** Waits until `seen` answers what is wanted. */
async function until<T>(wanted: T, seen: () => Promise<T>): Promise<void> {
  const end = Date.now() + 120_000;
  for (let last = await seen(); last !== wanted; last = await seen()) {
    if (Date.now() > end) assert.equal(last, wanted);
    await pause(200);
  }
}

const readiness = (node: RigNode): Promise<string> =>
  kubectl('get', 'node', node.name, '-o', 'jsonpath={.status.conditions[?(@.type=="Ready")].status}');

const apply = (...items: object[]): Promise<string> =>
  cluster.kubectl.ok(['apply', '-f', '-'], JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));

/** A Deployment of pods that serve the name of their node, one on each node, with a headless Service and one with an address. */
function web(replicas: number): object[] {
  const labels = { app: 'web' };
  const spread = {
    maxSkew: 1,
    topologyKey: 'kubernetes.io/hostname',
    whenUnsatisfiable: 'DoNotSchedule',
    labelSelector: { matchLabels: labels },
  };
  const server = {
    name: 'web',
    image: 'busybox:local',
    imagePullPolicy: 'Never',
    command: ['sh', '-c', 'mkdir /www; echo "$NODE" > /www/index.html; exec httpd -f -p 8080 -h /www'],
    env: [{ name: 'NODE', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } }],
    readinessProbe: { httpGet: { path: '/', port: 8080 }, periodSeconds: 1 },
  };
  // Pods stay with a node that is lost: they are looked for there when it is back.
  const tolerations = ['not-ready', 'unreachable'].map((key) => ({
    key: `node.kubernetes.io/${key}`,
    operator: 'Exists',
    effect: 'NoExecute',
  }));
  const pod = { containers: [server], topologySpreadConstraints: [spread], tolerations, terminationGracePeriodSeconds: 0 };
  const template = { metadata: { labels }, spec: pod };
  const spec = { replicas, selector: { matchLabels: labels }, template };
  const ports = [{ port: 80, targetPort: 8080 }];
  return [
    { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'web' }, spec },
    { apiVersion: 'v1', kind: 'Service', metadata: { name: 'web' }, spec: { selector: labels, ports } },
    { apiVersion: 'v1', kind: 'Service', metadata: { name: 'each' }, spec: { selector: labels, ports, clusterIP: 'None' } },
  ];
}

describe('the cluster', () => {
  it('has three Ready nodes, each a kernel of its own', async () => {
    const lives = new Set<string>();
    for (const node of nodes) {
      assert.equal(await readiness(node), 'True');
      assert.equal(await node.ok('hostname'), `${node.name}\n`);
      lives.add(await node.ok('cat /proc/sys/kernel/random/boot_id'));
    }
    lives.add(await readFile('/proc/sys/kernel/random/boot_id', 'utf8'));
    assert.equal(lives.size, 4);
  });

  it("tells a script's output, errors and exit status apart", async () => {
    assert.deepEqual(await nodes[0].answer('echo out; echo err >&2; exit 3'), { code: 3, stdout: 'out\n', stderr: 'err\n' });
    await assert.rejects(nodes[0].ok('echo no >&2; false'), /on node-1, .* ended with 1: no/u);
  });

  it('finds what etcd kept after its API server was killed', async () => {
    const api = cluster.servers['kube-apiserver'];
    await kubectl('create', 'configmap', 'kept', '--from-literal=word=here');
    await api.kill();
    await cluster.kubectl.refused(['get', 'configmap', 'kept']);
    await api.start();
    await apiReady(api, cluster.kubectl);
    assert.equal(await kubectl('get', 'configmap', 'kept', '-o', 'jsonpath={.data.word}'), 'here');
    await kubectl('delete', 'configmap', 'kept');
  });
});

describe('a Deployment', () => {
  before(async () => {
    await apply(...web(3));
  });
  after(async () => {
    await kubectl('delete', 'deployment/web', 'service/web', 'service/each', '--ignore-not-found', '--timeout=25s');
  });

  const inPod = (...words: string[]): Promise<string> => kubectl('exec', 'deployment/web', '--', ...words);

  it('runs its pods, one on each node', async () => {
    await until('3', () => kubectl('get', 'deployment', 'web', '-o', 'jsonpath={.status.availableReplicas}'));
    const where = await kubectl('get', 'pods', '-l', 'app=web', '-o', 'jsonpath={.items[*].spec.nodeName}');
    assert.deepEqual(
      where.split(' ').toSorted(),
      nodes.map(({ name }) => name),
    );
  });

  it('has pods that every node reaches', async () => {
    const addresses = (await kubectl('get', 'pods', '-l', 'app=web', '-o', 'jsonpath={.items[*].status.podIP}')).split(' ');
    for (const node of nodes) {
      const answers = await node.ok(addresses.map((address) => `curl -sSm5 http://${address}:8080`).join(' && '));
      assert.deepEqual(answers.trim().split('\n').toSorted(), ['node-1', 'node-2', 'node-3']);
    }
  });

  it('is reached at its Service: by name from a pod, and by address from the control plane, as webhooks are', async () => {
    // In the first second after a Service appears a request may be lost.
    const wget = ['exec', 'deployment/web', '--', 'wget', '-qO-', '-T2', 'http://web'];
    await until(true, async () => /^node-\d\n$/u.test((await cluster.kubectl.answer(wget)).stdout));
    const [program, ...words] = surroundings(cluster).argv;
    const address = await kubectl('get', 'service', 'web', '-o', 'jsonpath={.spec.clusterIP}');
    assert.match((await run(program, [...words, 'curl', '-sSm5', `http://${address}`])).stdout, /^node-\d\n$/u);
  });

  it('reaches the API server at the Service that every pod is told', async () => {
    assert.equal(await inPod('sh', '-c', 'wget -qO- --no-check-certificate "https://$KUBERNETES_SERVICE_HOST/readyz"'), 'ok');
  });

  it('has names that DNS tells, and addresses that DNS names', async () => {
    const address = await kubectl('get', 'service', 'web', '-o', 'jsonpath={.spec.clusterIP}');
    assert.ok((await inPod('nslookup', 'web.default.svc.cluster.local')).includes(`Address: ${address}`));
    assert.ok((await inPod('nslookup', address)).includes('name = web.default.svc.cluster.local'));
    const [pod = ''] = (await kubectl('get', 'pods', '-l', 'app=web', '-o', 'jsonpath={.items[*].status.podIP}')).split(' ');
    assert.ok((await inPod('nslookup', pod)).includes(`name = ${pod.replaceAll('.', '-')}.each.default.svc.cluster.local`));
  });

  it('keeps its pod on a node that lost its power: container, disk and name are back', async () => {
    const node = nodes[1];
    await node.ok('echo acknowledged > /root/kept && sync && echo disk | dd of=/dev/ubdc conv=fsync status=none');
    await node.kill();
    await assert.rejects(node.answer('true'), /node-2 is down/u);
    await until('Unknown', () => readiness(node));
    await node.start();
    await nodesReady(cluster, [node]);
    assert.equal(await node.ok('cat /root/kept && head -c 5 /dev/ubdc'), 'acknowledged\ndisk\n');
    await until('3', () => kubectl('get', 'deployment', 'web', '-o', 'jsonpath={.status.availableReplicas}'));
  });

  it('does not notice that the kubelet and the container runtime of its node ended, and were started again', async () => {
    const node = nodes[0];
    const pids = (): Promise<string> => node.ok('pgrep -x containerd; pgrep -x kubelet');
    const containers = (): Promise<string> => node.ok('ctr -n k8s.io tasks list -q | sort');
    const [before, running] = [await pids(), await containers()];
    await node.ok('pkill -x kubelet; pkill -x containerd');
    await until(true, async () => {
      const { code, stdout } = await node.answer('pgrep -x containerd && pgrep -x kubelet && ctr version > /dev/null');
      return code === 0 && !before.split('\n').some((pid) => pid !== '' && stdout.split('\n').includes(pid));
    });
    assert.equal(await containers(), running);
    await nodesReady(cluster, [node]);
  });

  it('runs on while its node is cut off, for nobody fences it', async () => {
    const node = nodes[2];
    const containers = (): Promise<string> => node.ok('ctr -n k8s.io tasks list -q | sort');
    const running = await containers();
    await node.partition();
    try {
      await until('Unknown', () => readiness(node));
      assert.notEqual((await node.answer('ping -c1 -W1 10.77.0.1')).code, 0);
      assert.equal(await containers(), running);
    } finally {
      await node.heal();
    }
    await until('True', () => readiness(node));
    assert.equal(await containers(), running);
  });
});

describe('an image from a folder', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'flock-image-'));
  });
  after(async () => {
    await kubectl('delete', 'pod', 'greeting', '--ignore-not-found', '--force', '--timeout=25s');
    await rm(folder, { recursive: true, force: true });
  });

  it('has the same bytes whenever it is made, and runs on every node', async () => {
    await run('cp', [join(cluster.built.node, 'busybox'), join(folder, 'busybox')]);
    const image = { name: 'greeting', folder, config: { Entrypoint: ['/busybox', 'echo', 'made of a folder'] } };
    const [one, other] = ['greeting.tar', 'again.tar'].map((file) => join(tmpdir(), `flock-${process.pid}-${file}`)) as [string, string];
    try {
      await writeImage(image, one);
      await writeImage(image, other);
      assert.deepEqual(await readFile(one), await readFile(other));
      await loadImage(cluster, one);
    } finally {
      for (const archive of [one, other]) await rm(archive, { force: true });
    }
    const spec = { restartPolicy: 'Never', containers: [{ name: 'one', image: 'greeting:local', imagePullPolicy: 'Never' }] };
    await apply({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'greeting' }, spec });
    await until('Succeeded', () => kubectl('get', 'pod', 'greeting', '-o', 'jsonpath={.status.phase}'));
    assert.equal(await kubectl('logs', 'greeting'), 'made of a folder\n');
  });
});

describe('LVM on a node', () => {
  let node: RigNode;
  before(async () => {
    node = nodes[0];
    await node.ok('vgcreate -q test /dev/ubdb');
  });
  after(async () => {
    await node.ok('umount /mnt 2>/dev/null; vgremove -qff test && pvremove -q /dev/ubdb && wipefs -qa /dev/ubdb');
  });

  it('makes a thick volume whose snapshot stays as it was', async () => {
    await node.ok(
      'lvcreate -qy -L 256m -n thick test && mkfs.ext4 -q /dev/test/thick && mount /dev/test/thick /mnt && echo before > /mnt/file',
    );
    await node.ok('lvcreate -qy -s -L 64m -n point test/thick && echo after > /mnt/file && sync');
    assert.equal(
      await node.ok('mkdir -p /run/point && mount -o ro /dev/test/point /run/point && cat /run/point/file /mnt/file'),
      'before\nafter\n',
    );
    await node.ok('umount /run/point /mnt && lvremove -qy test/point');
  });

  it('makes thin volumes and snapshots, and lists what differs between them', async () => {
    await node.ok('lvcreate -qy -L 512m --thinpool pool test && lvcreate -qy -V 1g -n thin --thinpool test/pool');
    await node.ok('dd if=/dev/urandom of=/dev/test/thin bs=1M count=8 conv=fsync status=none && lvcreate -qy -s -n frozen test/thin');
    await node.ok('dd if=/dev/urandom of=/dev/test/thin bs=64k count=3 seek=4 conv=fsync,notrunc status=none');
    const ids = (await node.ok('lvs --noheadings -o thin_id test/frozen test/thin')).trim().split(/\s+/u);
    await node.ok('dmsetup message test-pool-tpool 0 reserve_metadata_snap');
    const words = `--metadata-snap --snap1 ${ids[0]} --snap2 ${ids[1]} /dev/mapper/test-pool_tmeta`;
    const differing = await node.ok(`thin_delta ${words}; dmsetup message test-pool-tpool 0 release_metadata_snap`);
    assert.match(differing, /<different begin="4" length="3"\/>/u);
  });

  it('has its volumes active after the node was switched off and on', async () => {
    await node.ok('mount /dev/test/thick /mnt && echo synced > /mnt/file');
    await node.stop();
    await node.start();
    await nodesReady(cluster, [node]);
    assert.equal(await node.ok('mount /dev/test/thick /mnt && cat /mnt/file; umount /mnt'), 'synced\n');
  });
});

describe("a node's kernel", () => {
  const facts: Record<string, string> = {
    'device-mapper targets for pools, copies, limits and faults':
      'for target in thin-pool snapshot mirror raid clone era crypt flakey delay dust log-writes; do modprobe dm-$target; done',
    'direct IO on loop devices, with sectors of 4096 bytes':
      'cd /var/tmp && truncate -s 64M f && d=$(losetup -f --show --direct-io=on --sector-size 4096 f) && losetup -nO DIO $d | grep -q 1; s=$?; losetup -d $d; rm f; exit $s',
    'XFS with reflinks':
      'cd /var/tmp && truncate -s 400M f && mkfs.xfs -q f && mkdir -p m && mount -o loop f m && dd if=/dev/zero of=m/a bs=1M count=4 status=none && cp --reflink=always m/a m/b; s=$?; umount m; rm f; exit $s',
    'Btrfs with reflinks':
      'cd /var/tmp && truncate -s 400M f && mkfs.btrfs -q f && mkdir -p m && mount -o loop f m && dd if=/dev/zero of=m/a bs=1M count=4 status=none && cp --reflink=always m/a m/b; s=$?; umount m; rm f; exit $s',
    'IO limits of cgroups': 'grep -qw io /sys/fs/cgroup/cgroup.controllers',
    'TLS by the kernel': 'modprobe tls',
    'delay and loss on the network': 'tc qdisc add dev vec0 root netem delay 1ms && tc qdisc del dev vec0 root',
  };
  for (const [fact, script] of Object.entries(facts)) {
    it(`has ${fact}`, async () => {
      await nodes[2].ok(script);
    });
  }

  it('has everything that an engine without LVM asks of its machine', async () => {
    const node = nodes[2];
    const checkout = join(import.meta.dirname, '..');
    await node.ok(`mkdir -p /checkout && mount -t hostfs -o ro,hostfs=${checkout} none /checkout`);
    try {
      const program = `import { hostAbilities } from '/checkout/src/host/probe.ts'; console.log(JSON.stringify(await hostAbilities()));`;
      const told = await node.ok(`/checkout/node_modules/.bin/node --input-type=module -e "${program}"`);
      const { root, loopDevices, canMount, filesystems, missing } = JSON.parse(told) as HostAbilities;
      assert.deepEqual({ root, loopDevices, canMount, missing }, { root: true, loopDevices: true, canMount: true, missing: [] });
      assert.deepEqual(filesystems.toSorted(), ['btrfs', 'ext4', 'xfs']);
    } finally {
      await node.ok('umount /checkout');
    }
  });
});

describe('another cluster beside it', () => {
  const place = placeOf(`${process.env['FLOCK_RIG'] ?? 'e2e'}-2`);
  const env = { ...process.env, FLOCK_RIG: place.name };
  const rig = (...words: string[]): ReturnType<typeof spawn> =>
    spawn(join(import.meta.dirname, 'rig/rig'), words, { env, stdio: 'inherit' });
  const ended = async (...words: string[]): Promise<unknown> => (await once(rig(...words), 'exit'))[0];
  after(() => ended('down'));

  it('is ended by `rig down`, also when who started it was killed half-way', async () => {
    const starting = rig('up', '1');
    const exit = once(starting, 'exit');
    await until(true, async () => (await members(place)).length >= 3);
    starting.kill('SIGKILL');
    await exit;
    assert.equal(await ended('down'), 0);
    assert.deepEqual([hasNetwork(place), existsSync(place.folder)], [false, false]);
  });

  it('has a kubectl of its own, and leaves nothing', async () => {
    assert.equal(await ended('up', '1'), 0);
    assert.deepEqual((await clusterNames()).includes(place.name), true);
    const config = join(place.credentials, 'admin.conf');
    const { stdout } = await run(join(place.bin, 'kubectl'), ['--kubeconfig', config, 'get', 'nodes', '-o', 'name']);
    assert.equal(stdout, 'node/node-1\n');
    assert.equal((await kubectl('get', 'nodes', '-o', 'name')).split('\n').filter(Boolean).length, 3);
    const running = await members(place);
    assert.equal(await ended('down'), 0);
    for (const pid of running) await until(false, async () => existsSync(`/proc/${pid}`));
    assert.deepEqual([hasNetwork(place), existsSync(place.folder)], [false, false]);
  });
});
