// The command `rig`: words in, one call of the cluster's API out. Holds no knowledge of clusters.
import { spawnSync } from 'node:child_process';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { built, NotBuilt } from './built.ts';
import { clusterNames, endCluster, loadImage, nodesReady, openCluster, startCluster, surroundings, type Cluster } from './cluster.ts';
import { SERVERS, type ServerName } from './control-plane.ts';
import { writeImage } from './image.ts';
import type { RigNode } from './node.ts';

const HELP = `A real Kubernetes cluster on this machine; see docs/rig.md. FLOCK_RIG=NAME says which cluster is meant (default: rig).

rig build                     make what a cluster needs, unless it is there (minutes the first time; needs root, x86-64, Go, apt)
rig up [N]                    start a cluster of N nodes (default 2, at most 9) and wait until they are Ready
rig down                      end it and remove everything it had, also after a start that was broken off
rig list                      names of the clusters on this machine
rig kubectl WORDS...          kubectl as the administrator
rig inside PROGRAM WORDS...   run a program in the cluster's network, with kubectl, helm, csi-sanity on its PATH (bash for a shell)
rig node N exec SCRIPT...     run a bash line on node N, as root; works while it is partitioned
rig node N kill | stop        cut its power | write out what is in memory and switch it off
rig node N start              boot it, with the disks that it had, and wait until it is Ready
rig node N partition | heal   unplug its network cable | plug it in again
rig node N log                its console (its kubelet's and containerd's logs are in the cluster's folder, under host/node-N)
rig server NAME kill | start | log
                              ${SERVERS.join(', ')}
rig image NAME FOLDER [ENTRYPOINT WORDS...]
                              make the image docker.io/library/NAME:local of a folder, and load it into all nodes
rig load FILE.tar [N...]      load an image archive (OCI) into nodes (default: all)
`;

class Misused extends Error {}

const name = process.env['FLOCK_RIG'] ?? 'rig';
const say = (text: string): void => void process.stdout.write(text);
const here = (): Promise<Cluster> => openCluster(name);

type Verb = (words: readonly string[]) => Promise<number | void>;

const verbs: Record<string, Verb> = {
  help: async () => say(HELP),
  build: async () => void (await built()),
  up: async ([nodes = '2']) => void (await startCluster(name, Number(nodes))),
  down: async () => await endCluster(name),
  list: async () => say((await clusterNames()).map((each) => `${each}\n`).join('')),
  kubectl: async (words) => inside(await here(), ['kubectl', ...words]),
  inside: async (words) => inside(await here(), words),
  node: async ([number, verb = '', ...words]) => {
    const cluster = await here();
    const node = nodeOf(cluster, number);
    const act = nodeVerbs[verb];
    if (act === undefined) throw new Misused(`no such verb of a node: ${verb}`);
    return await act(node, words, cluster);
  },
  server: async ([server = '', verb = '']) => {
    const { servers } = await here();
    if (!SERVERS.some((each) => each === server)) throw new Misused(`no such server: ${server}`);
    const one = servers[server as ServerName];
    if (verb === 'start') await one.start();
    else if (verb === 'kill') await one.kill();
    else if (verb === 'log') say(await readFile(one.log, 'utf8'));
    else throw new Misused(`no such verb of a server: ${verb}`);
  },
  image: async ([image, folder, ...entrypoint]) => {
    if (image === undefined || folder === undefined || !(await stat(folder)).isDirectory()) throw new Misused('rig image NAME FOLDER');
    const cluster = await here();
    const archive = join(cluster.place.host, 'images', `${image}.tar`);
    await writeImage({ name: image, folder, config: entrypoint.length > 0 ? { Entrypoint: entrypoint } : {} }, archive);
    await loadImage(cluster, archive);
  },
  load: async ([archive, ...numbers]) => {
    if (archive === undefined) throw new Misused('rig load FILE.tar');
    const cluster = await here();
    await loadImage(cluster, archive, numbers.length > 0 ? numbers.map((number) => nodeOf(cluster, number)) : cluster.nodes);
  },
};

type NodeVerb = (node: RigNode, words: readonly string[], cluster: Cluster) => Promise<number | void>;

const nodeVerbs: Record<string, NodeVerb> = {
  exec: async (node, words) => {
    const { code, stdout, stderr } = await node.answer(words.join(' '));
    say(stdout);
    process.stderr.write(stderr);
    return code;
  },
  start: async (node, _words, cluster) => {
    await node.start();
    await nodesReady(cluster, [node]);
  },
  kill: (node) => node.kill(),
  stop: (node) => node.stop(),
  partition: (node) => node.partition(),
  heal: (node) => node.heal(),
  log: async (node) => say(await readFile(node.log, 'utf8')),
};

function nodeOf({ nodes }: Cluster, number: string | undefined): RigNode {
  const node = nodes.find((each) => String(each.number) === number);
  if (node === undefined) throw new Misused(`no such node: ${number ?? ''}`);
  return node;
}

function inside(cluster: Cluster, words: readonly string[]): number {
  const { argv, env } = surroundings(cluster);
  const [program, ...before] = argv;
  const { status, error } = spawnSync(program, [...before, ...words], { stdio: 'inherit', env });
  if (error !== undefined) throw error;
  return status ?? 1;
}

const [verb = 'help', ...words] = process.argv.slice(2);
try {
  const act = verbs[verb];
  if (act === undefined) throw new Misused(`no such verb: ${verb}`);
  process.exitCode = (await act(words)) ?? 0;
} catch (error) {
  const hint = error instanceof Misused ? ' (`rig help` tells what there is)' : '';
  // What this machine lacks was said already, in one line.
  if (!(error instanceof NotBuilt)) process.stderr.write(`rig: ${error instanceof Error ? error.message : String(error)}${hint}\n`);
  process.exitCode = error instanceof Misused ? 2 : 1;
}
