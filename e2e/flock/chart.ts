// Flock's chart, installed on a cluster as a person does it: images, pools on the nodes' disks, helm. Must not know a scenario.
import { readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parse } from 'yaml';
import { run } from '../../src/host/run.ts';
import { surroundings, type Cluster } from '../rig/cluster.ts';
import type { RigNode } from '../rig/node.ts';
import { until } from './objects.ts';
import { beSnapshotting } from './snapshots.ts';
import { FLOCK_IMAGE, loadFlock, loadSidecars, sidecarImage, SIDECARS } from './images.ts';

export const NAMESPACE = 'flock-system';
const CHECKOUT = resolve(import.meta.dirname, '../..');
export const CHART = join(CHECKOUT, 'charts/flock');
export const POOL = 'local';
const POOL_PATH = '/srv/flock/local';
/** Of LVM: the thick one is the documented one. */
export const THICK = 'data';
export const THIN = 'thin';
const VOLUME_GROUP = 'data';
const THIN_POOL = 'pool0';

/** On a node. */
export const AGENT_CRASH = '/var/lib/flock/agent/crash';
/** In a controller's pod. */
export const CONTROLLER_CRASH = '/run/csi/crash';

export interface Values {
  image?: { tag?: string; [name: string]: unknown };
  pools?: object[];
  storageClasses?: object[];
  [name: string]: unknown;
}

const CLASSES = [
  { name: 'flock', pool: POOL, default: true },
  { name: 'flock-moving', pool: POOL, parameters: { dataMigrationMode: 'VolumeTransfer', retainSource: '10s' } },
  { name: 'flock-slow', pool: POOL, parameters: { dataMigrationMode: 'VolumeTransfer', transferBandwidth: '1Mi' } },
  { name: 'flock-now', pool: POOL, volumeBindingMode: 'Immediate' },
  { name: 'flock-data', pool: THICK, parameters: { dataMigrationMode: 'VolumeTransfer' } },
  { name: 'flock-thin', pool: THIN, parameters: { dataMigrationMode: 'VolumeTransfer', retainSource: '10s' } },
  { name: 'flock-xfs', pool: POOL, parameters: { 'csi.storage.k8s.io/fstype': 'xfs' } },
];

/** What differs from the chart's own values on the rig. */
export const rigValues = (more: Values = {}): Values & Required<Pick<Values, 'storageClasses'>> => ({
  storageClasses: CLASSES,
  pools: [
    { name: POOL, type: 'image', path: POOL_PATH },
    { name: THICK, type: 'lvm', volumeGroup: VOLUME_GROUP },
    { name: THIN, type: 'lvm-thin', volumeGroup: VOLUME_GROUP, thinPool: THIN_POOL, tools: 'image' },
  ],
  snapshotClasses: [{ name: 'flock', default: true }],
  // Scenarios write into these where a process is to die.
  agent: { env: [{ name: 'FLOCK_CRASH_FILE', value: AGENT_CRASH }] },
  controller: { env: [{ name: 'FLOCK_CRASH_FILE', value: CONTROLLER_CRASH }] },
  ...more,
  ...imagesOf(more),
});

/** Nodes have no registry: images are called as they were loaded. */
const imagesOf = ({ image }: Values): Values => ({
  sidecars: Object.fromEntries(SIDECARS.map((sidecar) => [sidecar, { image: sidecarImage(sidecar) }])),
  image: { ...image, ...FLOCK_IMAGE, pullPolicy: 'Never', ...(image?.tag === undefined ? {} : { tag: image.tag }) },
});

/** The values that a document shows to a person, as they stand there: its one block of YAML that names an image. */
export async function documentedValues(document: string): Promise<Values> {
  const text = await readFile(join(CHECKOUT, document), 'utf8');
  const blocks = [...text.matchAll(/^```yaml\n(?<yaml>image:.*?)^```$/gmsu)];
  const [yaml, ...more] = blocks.map(({ groups }) => groups?.['yaml'] ?? '');
  if (yaml === undefined || more.length > 0) throw new Error(`${document} shows values ${blocks.length} times, and is to show them once`);
  return parse(yaml) as Values;
}

/** With the images of this checkout in place of those that it names. */
export const onRig = (values: Values): Values => ({ ...values, ...imagesOf({ image: { tag: FLOCK_IMAGE.tag } }) });

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

/** An XFS with reflinks on the node's first disk, which is there again after every boot; a volume group with a thin pool on the second. */
const layPools = (node: RigNode): Promise<string> =>
  node.ok(`set -e
    blkid /dev/ubdb >/dev/null || mkfs.xfs -q /dev/ubdb
    mkdir -p ${POOL_PATH}
    grep -q ubdb /etc/fstab || echo '/dev/ubdb ${POOL_PATH} xfs defaults 0 0' >>/etc/fstab
    mountpoint -q ${POOL_PATH} || mount ${POOL_PATH}
    vgs ${VOLUME_GROUP} >/dev/null 2>&1 || vgcreate -qy ${VOLUME_GROUP} /dev/ubdc
    lvs ${VOLUME_GROUP}/${THIN_POOL} >/dev/null 2>&1 || lvcreate -qy -L 1500m -T ${VOLUME_GROUP}/${THIN_POOL}`);

/** All that an installation needs: definitions of snapshots, images, disks. */
export async function prepare(cluster: Cluster): Promise<void> {
  await beSnapshotting(cluster);
  await loadSidecars(cluster);
  await loadFlock(cluster);
  for (const node of cluster.nodes) await layPools(node);
}

/** The release is there and was installed to its end. */
export async function isInstalled(cluster: Cluster): Promise<boolean> {
  const found = JSON.parse(await helm(cluster, 'list', '-A', '-o', 'json')) as { name: string; status: string }[];
  return found.some(({ name, status }) => name === 'flock' && status === 'deployed');
}
