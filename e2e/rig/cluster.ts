// A real Kubernetes cluster on this machine: a control plane in a network namespace of its own, and nodes that are kernels of their own.
// It outlives who started it and is found again by its name. Must not know Flock.
import { existsSync } from 'node:fs';
import { chmod, constants, copyFile, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Kubectl, tail } from '../kube/programs.ts';
import { killMembers } from './background.ts';
import { built, type Built } from './built.ts';
import { apiReady, Server, SERVERS, writeCredentials, type ServerName } from './control-plane.ts';
import { writeBasicImages } from './image.ts';
import { hasNetwork, makeNetwork, members, MOST_NODES, removeNetwork } from './network.ts';
import { RigNode } from './node.ts';
import { CLUSTERS, inside, placeOf, type Place } from './place.ts';

export interface Cluster {
  place: Place;
  /** As the administrator, from inside the namespace and from outside. */
  kubectl: Kubectl;
  /** node-1 first. */
  nodes: RigNode[];
  servers: Record<ServerName, Server>;
  /** Paths of what it was made of. */
  built: Built;
}

/** Written last: a cluster without it is left over from a start that was broken off. */
const COMPLETE = 'built.json';
const LONGEST_BOOT = 180_000;

/**
 * Starts one and waits until its nodes are Ready: seconds, and minutes when something must be built first. What is left of an earlier one of
 * this name is removed; one that is complete and runs is an error. When the start fails, nothing is left. Throws NotBuilt.
 */
export async function startCluster(name: string, nodes: number): Promise<Cluster> {
  const place = placeOf(name);
  if (!(nodes >= 1 && nodes <= MOST_NODES)) throw new Error(`a cluster has 1 to ${MOST_NODES} nodes, and ${nodes} were asked for`);
  if (await isComplete(place)) throw new Error(`cluster ${name} runs already: end it first (rig down)`);
  const parts = await built();
  await endCluster(name);
  try {
    const cluster = clusterOf(place, parts, nodes);
    await lay(cluster);
    await boot(cluster);
    await writeFile(join(place.folder, COMPLETE), JSON.stringify(parts));
    return cluster;
  } catch (error) {
    await endCluster(name);
    throw error;
  }
}

/** One that was started, maybe by somebody else. Throws when there is none. */
export async function openCluster(name: string): Promise<Cluster> {
  const place = placeOf(name);
  if (!(await isComplete(place))) throw new Error(`there is no cluster ${name}: start it first (rig up)`);
  const parts = JSON.parse(await readFile(join(place.folder, COMPLETE), 'utf8')) as Built;
  const entries = await readdir(place.host);
  return clusterOf(place, parts, entries.filter((entry) => entry.startsWith('node-')).length);
}

/** Kills everything that runs in it and removes everything that it had. Of a start that was broken off, or none at all, too. */
export async function endCluster(name: string): Promise<void> {
  const place = placeOf(name);
  const removeFolder = (): Promise<void> => rm(place.folder, { recursive: true, force: true });
  // First, so that a start which is under way cannot launch anything more: there is no place for its log.
  await removeFolder();
  if (hasNetwork(place)) {
    await killMembers(place);
    await removeNetwork(place);
  }
  await removeFolder();
}

/** Names of all that are there, also of those left over from a start that was broken off. */
export const clusterNames = (): Promise<string[]> => readdir(CLUSTERS).catch(() => []);

/** Waits until nodes are Ready in their present life: of one that was restarted, the record alone would still speak of the last one. */
export async function nodesReady(cluster: Cluster, nodes: readonly RigNode[] = cluster.nodes): Promise<void> {
  await Promise.all(nodes.map((node) => nodeReady(cluster, node)));
}

/** Brings an archive of `writeImage` to nodes, and to all that boot later. */
export async function loadImage(cluster: Cluster, archive: string, nodes: readonly RigNode[] = cluster.nodes): Promise<void> {
  const there = join(cluster.place.host, 'images', basename(archive));
  if (there !== archive) await copyFile(archive, there, constants.COPYFILE_FICLONE);
  await Promise.all(nodes.map(async (node) => ((await node.runs()) ? node.import(basename(archive)) : undefined)));
}

/** The environment of programs that talk to the cluster, such as helm, and the argv before theirs. */
export function surroundings(cluster: Cluster): { argv: [string, ...string[]]; env: NodeJS.ProcessEnv } {
  const { place } = cluster;
  const env = { ...process.env, KUBECONFIG: cluster.kubectl.config, FLOCK_RIG: place.name, PATH: `${place.bin}:${process.env['PATH']}` };
  return { argv: inside(place), env };
}

const isComplete = async (place: Place): Promise<boolean> => (await members(place)).length > 0 && existsSync(join(place.folder, COMPLETE));

function clusterOf(place: Place, parts: Built, nodes: number): Cluster {
  const servers = Object.fromEntries(SERVERS.map((name) => [name, new Server(name, place, parts)])) as Record<ServerName, Server>;
  const kubectl = new Kubectl(join(place.bin, 'kubectl'), join(place.credentials, 'admin.conf'), join(place.folder, 'kubectl'));
  return {
    place,
    kubectl,
    servers,
    built: parts,
    nodes: Array.from({ length: nodes }, (_, index) => new RigNode(index + 1, place, parts)),
  };
}

/** Everything that must be there before the first program starts. */
async function lay(cluster: Cluster): Promise<void> {
  const { place } = cluster;
  await mkdir(place.folder, { recursive: true, mode: 0o700 });
  for (const folder of [place.bin, place.logs, place.pids, place.disks, place.host, join(place.host, 'images')]) await mkdir(folder);
  await makeNetwork(place);
  await writeCredentials(place);
  await Promise.all([laySharedFiles(cluster), layPrograms(cluster), ...cluster.nodes.map((node) => node.make())]);
}

async function laySharedFiles({ place, built: { kubernetes, node } }: Cluster): Promise<void> {
  const ours = join(import.meta.dirname, 'node');
  const files = ['boot', 'import', 'containerd.toml', 'kubelet.yaml'].map((file) => join(ours, file));
  files.push(kubernetes['kubelet']!, join(place.credentials, 'ca.crt'));
  for (const file of files) await copyFile(file, join(place.host, basename(file)), constants.COPYFILE_FICLONE);
  await writeBasicImages(join(node, 'busybox'), join(place.host, 'images'));
}

async function layPrograms({ place, built: { kubernetes, tools } }: Cluster): Promise<void> {
  const kubectl = join(place.bin, 'kubectl');
  await writeFile(kubectl, `#!/bin/sh\nexec ${inside(place).join(' ')} ${kubernetes['kubectl']} "$@"\n`);
  await chmod(kubectl, 0o755);
  for (const tool of await readdir(tools)) await symlink(join(tools, tool), join(place.bin, tool));
}

/** Nodes boot while the control plane begins: the kubelet asks until it is answered. */
async function boot(cluster: Cluster): Promise<void> {
  const { 'kube-apiserver': api, etcd, ...others } = cluster.servers;
  await etcd.start();
  await api.start();
  await Promise.all(cluster.nodes.map((node) => node.start()));
  await apiReady(api, cluster.kubectl);
  await Promise.all(Object.values(others).map((server) => server.start()));
  await nodesReady(cluster);
}

interface NodeObject {
  status: { nodeInfo?: { bootID: string }; conditions?: { type: string; status: string }[] };
}

async function nodeReady({ kubectl }: Cluster, node: RigNode): Promise<void> {
  const until = Date.now() + LONGEST_BOOT;
  const life = (await node.ok('cat /proc/sys/kernel/random/boot_id')).trim();
  for (;;) {
    const { code, stdout } = await kubectl.answer(['get', 'node', node.name, '-o', 'json']);
    if (code === 0 && isReady(JSON.parse(stdout) as NodeObject, life)) return;
    if (!(await node.runs())) throw new Error(`${node.name} ended: ${await tail(node.log)}`);
    if (Date.now() > until) throw new Error(`${node.name} is not Ready after ${LONGEST_BOOT / 1000} s: ${await tail(node.log)}`);
    await pause(200);
  }
}

const isReady = ({ status }: NodeObject, life: string): boolean =>
  status.nodeInfo?.bootID === life && status.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true;
