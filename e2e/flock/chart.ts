// Flock's chart, installed on a cluster as a person does it: images, pools on the nodes' disks, helm. Must not know a scenario.
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { run } from '../../src/host/run.ts';
import { surroundings, type Cluster } from '../rig/cluster.ts';
import type { RigNode } from '../rig/node.ts';
import { until } from './objects.ts';
import { FLOCK_IMAGE, loadFlock, loadSidecars, sidecarImage, SIDECARS } from './images.ts';

export const NAMESPACE = 'flock-system';
export const CHART = resolve(import.meta.dirname, '../../charts/flock');
export const POOL = 'local';
const POOL_PATH = '/srv/flock/local';

/** On a node. */
export const AGENT_CRASH = '/var/lib/flock/agent/crash';
/** In a controller's pod. */
export const CONTROLLER_CRASH = '/run/csi/crash';

export interface Values {
  image?: { tag?: string; [name: string]: unknown };
  [name: string]: unknown;
}

/** What differs from the chart's own values on the rig. */
export const rigValues = (more: Values = {}): Values => ({
  pools: [{ name: POOL, type: 'image', path: POOL_PATH }],
  storageClasses: [
    { name: 'flock', pool: POOL, default: true },
    { name: 'flock-moving', pool: POOL, parameters: { dataMigrationMode: 'VolumeTransfer', retainSource: '10s' } },
    { name: 'flock-slow', pool: POOL, parameters: { dataMigrationMode: 'VolumeTransfer', transferBandwidth: '1Mi' } },
    { name: 'flock-now', pool: POOL, volumeBindingMode: 'Immediate' },
    { name: 'flock-xfs', pool: POOL, parameters: { 'csi.storage.k8s.io/fstype': 'xfs' } },
  ],
  // Scenarios write into these where a process is to die.
  agent: { env: [{ name: 'FLOCK_CRASH_FILE', value: AGENT_CRASH }] },
  controller: { env: [{ name: 'FLOCK_CRASH_FILE', value: CONTROLLER_CRASH }] },
  sidecars: Object.fromEntries(SIDECARS.map((sidecar) => [sidecar, { image: sidecarImage(sidecar) }])),
  ...more,
  image: { ...FLOCK_IMAGE, pullPolicy: 'Never', ...more.image },
});

/** helm's words, as the cluster's administrator. */
export async function helm(cluster: Cluster, ...words: string[]): Promise<string> {
  const [program, ...before] = surroundings(cluster).argv;
  const ours = [join(cluster.built.tools, 'helm'), '--kubeconfig', cluster.kubectl.config];
  const { stdout } = await run(program, [...before, ...ours, ...words], { timeout: 300_000 });
  return stdout;
}

/** Installs or upgrades, and waits until everything runs. */
export async function install(cluster: Cluster, values: Values = rigValues()): Promise<void> {
  const file = join(cluster.place.folder, 'values.json');
  await writeFile(file, JSON.stringify(values));
  await helm(cluster, 'upgrade', '--install', 'flock', CHART, '-n', NAMESPACE, '--create-namespace', '-f', file);
  for (const part of ['daemonset/flock-agent', 'deployment/flock-controller'])
    await until(true, async () => (await cluster.kubectl.answer(['-n', NAMESPACE, 'rollout', 'status', part, '--timeout=25s'])).code === 0);
}

/** An XFS with reflinks on the node's first disk, which is there again after every boot. */
const layPool = (node: RigNode): Promise<string> =>
  node.ok(`set -e
    blkid /dev/ubdb >/dev/null || mkfs.xfs -q /dev/ubdb
    mkdir -p ${POOL_PATH}
    grep -q ubdb /etc/fstab || echo '/dev/ubdb ${POOL_PATH} xfs defaults 0 0' >>/etc/fstab
    mountpoint -q ${POOL_PATH} || mount ${POOL_PATH}`);

/** All of it, on a cluster that has none. */
export async function installAll(cluster: Cluster): Promise<void> {
  await loadSidecars(cluster);
  await loadFlock(cluster);
  for (const node of cluster.nodes) await layPool(node);
  await install(cluster);
}

/** The release is there and was installed to its end. */
export async function isInstalled(cluster: Cluster): Promise<boolean> {
  const found = JSON.parse(await helm(cluster, 'list', '-A', '-o', 'json')) as { name: string; status: string }[];
  return found.some(({ name, status }) => name === 'flock' && status === 'deployed');
}
