// One node: a kernel of its own as a process of this machine, with two disks, a cable, and a shell that works without the cable.
// Must not know the other nodes, nor Flock.
import { copyFile, mkdir, mkdtemp, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { issue, signedBy } from '../kube/credentials.ts';
import type { Answer } from '../kube/programs.ts';
import { kill, launch, logOf, pidOf } from './background.ts';
import type { Built } from './built.ts';
import { writeClient } from './control-plane.ts';
import { addressOf, cableOf, layCable, plug, unplug } from './network.ts';
import type { Place } from './place.ts';

/** Of a node; this machine gives what the node touches. */
const MEMORY = '1200M';
/** GiB of /dev/ubdb and /dev/ubdc; sparse files of this machine. */
const DISKS = { ubdb: 16, ubdc: 4 };
/** How often an answer is looked for, ms: a file says it, for a node has no other way that survives a partition. */
const LOOK = 20;

export class RigNode {
  readonly number: number;
  /** Of the Node object. */
  readonly name: string;
  readonly address: string;
  readonly #place: Place;
  readonly #kernel: string;

  constructor(number: number, place: Place, built: Built) {
    this.number = number;
    this.name = `node-${number}`;
    this.address = addressOf(number);
    this.#place = place;
    this.#kernel = built.node;
  }

  get #own(): string {
    return join(this.#place.host, this.name);
  }

  get #requests(): string {
    return join(this.#own, 'requests');
  }

  /** Its disks, its cable and its identity: once in a cluster's life. */
  async make(): Promise<void> {
    await mkdir(this.#own);
    for (const [disk, gibibytes] of Object.entries(DISKS)) {
      await using file = await open(this.#disk(disk), 'wx', 0o600);
      await file.truncate(gibibytes * 2 ** 30);
    }
    const kubeconfig = await writeClient(this.#place, this.name, `/O=system:nodes/CN=system:node:${this.name}`);
    await copyFile(kubeconfig, join(this.#own, 'kubeconfig'));
    await this.#servingCertificate();
    await layCable(this.#place, this.number);
  }

  /** What the kubelet shows to the API server, for `kubectl exec` and logs. */
  async #servingCertificate(): Promise<void> {
    const names = `subjectAltName=IP:${this.address},DNS:${this.name}`;
    const serving = `${this.name}-serving`;
    await issue(this.#place.credentials, serving, `/O=system:nodes/CN=system:node:${this.name}`, signedBy(this.#place.credentials, names));
    for (const end of ['crt', 'key']) await copyFile(join(this.#place.credentials, `${serving}.${end}`), join(this.#own, `serving.${end}`));
  }

  #disk(disk: string): string {
    return join(this.#place.disks, `${this.name}.${disk}`);
  }

  /** Boots it; all disks are as they were, the root too. It is Ready some seconds later. */
  async start(): Promise<void> {
    // Requests of its last life are nobody's any more.
    await rm(this.#requests, { recursive: true, force: true });
    await mkdir(this.#requests);
    const disks = [
      `ubda=${this.#disk('root')},${this.#kernel}/root.img`,
      ...Object.keys(DISKS).map((each) => `${each}=${this.#disk(each)}`),
    ];
    // After a power cut the kubelet and the runtime must find whole files, although they do not flush all that they write.
    const root = ['root=/dev/ubda', 'rw', 'rootfstype=ext4', 'rootflags=noinit_itable,nodelalloc,commit=1', 'init=/usr/sbin/node-init'];
    // Without gro=1 the kernel complains of every large frame and stalls.
    const network = `vec0:transport=tap,ifname=${cableOf(this.number)},depth=64,gro=1`;
    const console = ['con=null', 'con0=null,fd:1', 'quiet'];
    const itself = [`uml_dir=${this.#place.folder}/kernels/`, `umid=${this.name}`];
    const words = [`node=${this.name}`, `address=${this.address}`, `host=${this.#place.host}`];
    const argv = [`${this.#kernel}/linux`, `mem=${MEMORY}`, ...itself, ...disks, network, ...console, ...root, ...words];
    // Its memory is a file there.
    await launch(this.#place, this.name, argv, { TMPDIR: '/dev/shm' });
  }

  async runs(): Promise<boolean> {
    return (await pidOf(this.#place, this.name)) !== null;
  }

  /** Cuts its power. What it had written to its disks is there at the next start, flushed or not: this machine's cache survives. */
  kill(): Promise<void> {
    return kill(this.#place, this.name);
  }

  /** Writes out what is in memory and switches it off. */
  async stop(): Promise<void> {
    await this.ok('for letter in s u; do echo $letter > /proc/sysrq-trigger; done; (sleep 0.5; echo o > /proc/sysrq-trigger) &');
    const until = Date.now() + 30_000;
    while (await this.runs()) {
      if (Date.now() > until) throw new Error(`${this.name} was told to switch itself off and still runs after 30 s`);
      await pause(LOOK);
    }
  }

  /** Unplugs its cable: nobody reaches it, and it reaches nobody. */
  partition(): Promise<void> {
    return unplug(this.#place, this.number);
  }

  heal(): Promise<void> {
    return plug(this.#place, this.number);
  }

  /** Runs a bash script on it as root, whatever its exit status is; also while the node is partitioned. Throws when the node is down. */
  async answer(script: string): Promise<Answer> {
    const making = await mkdtemp(join(this.#own, 'request-'));
    const request = making.replace(/request-(?=[^/]*$)/u, 'requests/');
    await writeFile(join(making, 'script'), script);
    await rename(making, request);
    try {
      while (!(await readFile(join(request, 'code'), 'utf8').catch(() => '')).endsWith('\n')) {
        if (!(await this.runs())) throw new Error(`${this.name} is down, and was asked for: ${script}`);
        await pause(LOOK);
      }
      const [code, stdout, stderr] = await Promise.all(['code', 'stdout', 'stderr'].map((file) => readFile(join(request, file), 'utf8')));
      return { code: Number(code), stdout: stdout!, stderr: stderr! };
    } finally {
      // At once, for file by file it would look to the node like a request that nobody has taken.
      await rename(request, making).catch(() => {});
      await rm(making, { recursive: true, force: true });
    }
  }

  /** The script's stdout; throws with its stderr when it fails. */
  async ok(script: string): Promise<string> {
    const { code, stdout, stderr } = await this.answer(script);
    if (code !== 0) throw new Error(`on ${this.name}, \`${script}\` ended with ${code}: ${stderr}`);
    return stdout;
  }

  /** Imports an image archive of `writeImage` that lies in the cluster's folder of images. */
  async import(archive: string): Promise<void> {
    await this.ok(`bash /host/import /host/images/${archive}`);
  }

  /** Path of its console, over all its lives; the kubelet's and containerd's logs are beside. */
  get log(): string {
    return logOf(this.#place, this.name);
  }
}
