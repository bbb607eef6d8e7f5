// Flock on plain hosts inside the cluster's network: a server and a controller on this machine, agents as processes on nodes of the rig, run
// from the checkout. Beside whatever Kubernetes runs there, on ports and folders of their own.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { stringify } from 'yaml';
import type { Client } from '../../src/api/client.ts';
import { httpClient } from '../../src/api/http-client.ts';
import { readKubeconfig } from '../../src/api/kubeconfig.ts';
import { run } from '../../src/host/run.ts';
import { StorageNodes, type StorageNodeStatus } from '../../src/model/storage-node.ts';
import type { Cluster } from '../rig/cluster.ts';
import { GATEWAY } from '../rig/network.ts';
import type { RigNode } from '../rig/node.ts';

const CHECKOUT = join(import.meta.dirname, '../..');
const FLOCKCTL = join(CHECKOUT, 'bin/flockctl');
const SERVER = `https://${GATEWAY}:9906`;
/** On a node: the checkout, and the agent's own folder. */
const SEEN = '/run/flock-checkout';
const AGENT = '/var/lib/flock-lvm';
const LONGEST = 240_000;

export async function until<T>(seen: () => Promise<T | null | false>): Promise<T> {
  const end = Date.now() + LONGEST;
  for (;;) {
    const found = await seen();
    if (found !== null && found !== false) return found;
    if (Date.now() > end) throw new Error(`it did not come to pass in ${LONGEST / 1000} s: ${seen.toString()}`);
    await pause(250);
  }
}

export class Hosts {
  readonly #folder: string;
  readonly #processes: ChildProcess[] = [];
  client!: Client;

  constructor(cluster: Cluster) {
    this.#folder = join(cluster.place.host, 'lvm');
  }

  async start(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
    await mkdir(this.#folder);
    this.#begin(['server', '--dir', join(this.#folder, 'server'), '--listen', `${GATEWAY}:9906`]);
    const kubeconfig = join(this.#folder, 'server/kubeconfig');
    this.client = await until(async () => {
      try {
        const client = httpClient(readKubeconfig(kubeconfig).connection);
        await client.list(StorageNodes);
        return client;
      } catch {
        return null;
      }
    });
    this.#begin(['controller', '--kubeconfig', join(this.#folder, 'server/controller.kubeconfig')]);
  }

  #begin(words: readonly string[]): void {
    this.#processes.push(spawn(FLOCKCTL, words, { stdio: ['ignore', 'ignore', 'inherit'] }));
  }

  /** The checkout is at SEEN there. */
  async prepare(node: RigNode): Promise<void> {
    await node.ok(`mkdir -p ${SEEN}; mountpoint -q ${SEEN} || mount -t hostfs -o ro,hostfs=${CHECKOUT} none ${SEEN}`);
  }

  /** An agent with these pools, enrolled; ready once its record says so. */
  async startAgent(node: RigNode, pools: readonly object[]): Promise<void> {
    await writeFile(join(this.#folder, `${node.name}.yaml`), stringify({ pools }));
    const words = ['server', 'invite', '--node', node.name, '--kubeconfig', join(this.#folder, 'server/kubeconfig')];
    const { stdout } = await run(FLOCKCTL, words);
    const [invitation] = /flock-invite\S+/u.exec(stdout) ?? [];
    await this.#launch(node, `FLOCK_INVITE=${invitation}`);
  }

  async #launch(node: RigNode, environment: string): Promise<void> {
    const words = `--name ${node.name} --dir ${AGENT} --pools /host/lvm/${node.name}.yaml --server ${SERVER} --listen 0.0.0.0:9907`;
    await node.ok(
      `${environment} setsid ${SEEN}/bin/flockctl agent ${words} >>/host/lvm/${node.name}.log 2>&1 </dev/null & echo $! >/run/flock-lvm.pid`,
    );
    await until(async () => (await this.pools(node)) !== null);
  }

  /** As its record says. */
  async pools(node: RigNode): Promise<StorageNodeStatus['pools'] | null> {
    const { items } = await this.client.list(StorageNodes);
    return items.find(({ metadata }) => metadata.name === node.name)?.status?.pools ?? null;
  }

  /** flockctl on the node; throws with what it said. */
  flockctl(node: RigNode, words: string): Promise<string> {
    return node.ok(`FLOCK_KUBECONFIG=/host/lvm/server/kubeconfig ${SEEN}/bin/flockctl ${words}`);
  }

  async stopAgent(node: RigNode): Promise<void> {
    await node.answer(
      `pid=$(cat /run/flock-lvm.pid) && kill $pid && while [ -e /proc/$pid ]; do sleep 0.1; done; rm -f /run/flock-lvm.pid`,
    );
  }

  async stop(nodes: readonly RigNode[]): Promise<void> {
    for (const node of nodes) {
      await this.stopAgent(node);
      await node.answer(`rm -rf ${AGENT}; umount ${SEEN}`);
    }
    for (const each of this.#processes.toReversed()) {
      const ended = each.exitCode === null ? once(each, 'exit') : null;
      each.kill('SIGTERM');
      await ended;
    }
    await rm(this.#folder, { recursive: true });
  }
}
