// `npm run bench -- directory [--files 500000] [--huge 1Gi] [--json FILE]`: a volume that is a directory of very many small files moves between
// two agents as they are shipped, there and, after some files changed, back; rsync carries the same trees over the same disk in the same run.
// And one huge file, changed in a few places: what goes over the wire. Knows no tree's inside.
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { httpClient, type HttpClient } from '../src/api/http-client.ts';
import { readKubeconfig } from '../src/api/kubeconfig.ts';
import { localAgent } from '../src/cli/agent-socket.ts';
import { found } from '../src/cli/local/child.ts';
import { bringDown, bringUp } from '../src/cli/local/cluster.ts';
import { freePort, writeDescription } from '../src/cli/local/description.ts';
import { layoutOf, nodeNames, placesOf, type Layout } from '../src/cli/local/layout.ts';
import { run } from '../src/host/run.ts';
import { systemClock } from '../src/model/clock.ts';
import { GROUP_VERSION, type Stored } from '../src/model/meta.ts';
import { Moves, type Move } from '../src/model/move.ts';
import { Volumes } from '../src/model/volume.ts';
import { missingPrograms } from './packages.ts';
import { add, type Samples } from './samples.ts';
import { say } from './say.ts';

const MIB = 1024 * 1024;
const DISK = 16n << 30n;
const NODES = 2;
const FOLDERS = 500;
/** Of a small file at most, bytes. */
const SMALL = 4096;
/** One file of so many changes before the way back. */
const CHANGED = 500;
/** Of the huge file, and how much in each. */
const PLACES = 20;
const PIECE = 4096;
const LOOK = 200;

export interface Wanted {
  files: number;
  /** Bytes. */
  huge: number;
}

/** By what was measured; seconds, bytes. */
export async function benchDirectory(wanted: Wanted): Promise<Samples> {
  await missingPrograms([{ needs: { rsync: 'rsync' } }]);
  // As bin/flockctl starts an agent.
  process.env['UV_THREADPOOL_SIZE'] ??= '16';
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'flock-bench-')));
  const cluster = new Cluster(layoutOf(folder));
  try {
    await cluster.open();
    const samples: Samples = {};
    await smallFiles(cluster, wanted, samples);
    await hugeFile(cluster, wanted, samples);
    return samples;
  } finally {
    await bringDown(folder, true, systemClock);
    rmSync(folder, { recursive: true, force: true });
  }
}

async function smallFiles(cluster: Cluster, { files }: Wanted, samples: Samples): Promise<void> {
  const from = await cluster.volume('small', 8n << 30n);
  say(`making ${files} files of up to ${SMALL} bytes`);
  plant(from, files);
  const reference = join(placesOf(cluster.layout, 'node-2').pools.directory.folder, 'reference');
  await compared(cluster, samples, { of: 'small files', from, reference, target: 'node-2' });
  await cluster.scrubbed('small-1');
  const to = await cluster.mount('small');
  say(`changing ${change(to, files)} of them`);
  await compared(cluster, samples, { of: 'some of them changed', from: to, reference, target: 'node-1' });
  await run('rm', ['-rf', reference], { timeout: 600_000 });
  await cluster.delete('small');
}

/** What rsync does with the tree as it is mounted now, and then a move. */
async function compared(
  cluster: Cluster,
  samples: Samples,
  { of, from, reference, target }: { of: string; from: string; reference: string; target: string },
): Promise<void> {
  await run('sync', ['--file-system', from], { timeout: 600_000 });
  const theirs = await rsync(from, reference);
  say(`rsync -a: ${theirs.toFixed(1)} s`);
  await cluster.unmount('small');
  const { seconds, bytesSent, resident } = await cluster.move('small', target);
  say(`moved: ${seconds.toFixed(1)} s until it is committed, ${bytesSent} bytes`);
  add(samples, of, { rsync: theirs, move: seconds, 'over rsync': theirs / seconds, bytes: bytesSent });
  for (const [node, bytes] of Object.entries(resident)) add(samples, of, { [`resident ${node}, MiB`]: bytes / MIB });
}

async function hugeFile(cluster: Cluster, { huge }: Wanted, samples: Samples): Promise<void> {
  const from = await cluster.volume('huge', BigInt(huge) + 64n * BigInt(MIB));
  await run('dd', ['if=/dev/urandom', `of=${join(from, 'file')}`, 'bs=4M', `count=${huge / 4 / MIB}`, 'status=none', 'conv=fsync'], {
    timeout: 600_000,
  });
  await cluster.unmount('huge');
  const there = await cluster.move('huge', 'node-2');
  const to = await cluster.mount('huge');
  await using file = await open(join(to, 'file'), 'r+');
  for (let place = 0; place < PLACES; place += 1)
    await file.write(Buffer.alloc(PIECE, place + 1), 0, PIECE, Math.floor((huge / PLACES) * place));
  await file.sync();
  await file.close();
  await cluster.unmount('huge');
  const back = await cluster.move('huge', 'node-1');
  say(`a file of ${huge} bytes: ${there.bytesSent} bytes; with ${PLACES} pieces of ${PIECE} bytes changed: ${back.bytesSent} bytes`);
  add(samples, 'huge file', { bytes: there.bytesSent, 'over its size': there.bytesSent / huge });
  add(samples, 'changed in places', {
    bytes: back.bytesSent,
    'over the changes': back.bytesSent / (PLACES * PIECE),
    seconds: back.seconds,
  });
  await cluster.delete('huge');
}

/** The same tree there, on the disk when it returns. Seconds. */
async function rsync(from: string, to: string): Promise<number> {
  const began = performance.now();
  await run('rsync', ['-a', '--delete', `${from}/`, `${to}/`], { timeout: 3_600_000 });
  await run('sync', ['--file-system', to], { timeout: 600_000 });
  return (performance.now() - began) / 1000;
}

/** The same in every run. */
function plant(root: string, files: number): void {
  const bytes = Buffer.from(Array.from({ length: 2 * SMALL }, (_, at) => (at * 7919) % 251));
  for (let index = 0; index < files; index += 1) {
    const folder = join(root, `folder-${index % FOLDERS}`);
    if (index < FOLDERS) mkdirSync(folder);
    writeFileSync(join(folder, `file-${index}`), bytes.subarray(index % SMALL, (index % SMALL) + ((index * 31) % SMALL)));
  }
}

function change(root: string, files: number): number {
  let changed = 0;
  for (let index = 0; index < files; index += CHANGED, changed += 1)
    writeFileSync(join(root, `folder-${index % FOLDERS}`, `file-${index}`), `changed ${index}`);
  return changed;
}

interface Moved {
  /** From its order until it is committed. */
  seconds: number;
  bytesSent: number;
  /** The largest of each agent meanwhile, bytes. */
  resident: { [node: string]: number };
}

/** Two nodes with a pool of directories each, on disks of their own, as `flockctl up` has them. */
class Cluster {
  readonly layout: Layout;
  client!: HttpClient;
  readonly #moves = new Map<string, number>();

  constructor(layout: Layout) {
    this.layout = layout;
  }

  async open(): Promise<void> {
    const { layout } = this;
    await writeDescription(layout, { nodes: NODES, port: await freePort(), ground: 'xfs', diskSize: String(DISK) });
    await bringUp(layout.directory, { nodes: NODES }, { clock: systemClock, signal: new AbortController().signal, say, tied: true });
    this.client = httpClient(readKubeconfig(layout.kubeconfig).connection);
  }

  async volume(name: string, size: bigint): Promise<string> {
    const spec = { size: String(size), pool: 'directory', node: 'node-1', allowedPause: '24h' };
    await this.client.create(Volumes, { apiVersion: GROUP_VERSION, kind: Volumes.kind, metadata: { name }, spec });
    await this.#until(async () => ((await this.client.get(Volumes, name)).status?.phase === 'Available' ? true : null));
    return this.mount(name);
  }

  async mount(name: string): Promise<string> {
    const { node = '' } = (await this.client.get(Volumes, name)).spec;
    const target = join(this.layout.directory, `at-${name}`);
    await (await this.#agent(node)).publish({ volume: name, target });
    return target;
  }

  async unmount(name: string): Promise<void> {
    for (const node of nodeNames(NODES)) await (await this.#agent(node)).unpublish({ volume: name });
  }

  async move(volume: string, target: string): Promise<Moved> {
    const number = (this.#moves.get(volume) ?? 0) + 1;
    this.#moves.set(volume, number);
    const name = `${volume}-${number}`;
    const began = performance.now();
    await this.client.create(Moves, { apiVersion: GROUP_VERSION, kind: Moves.kind, metadata: { name }, spec: { volume, target } });
    const resident: Moved['resident'] = {};
    const move = await this.#until(async () => {
      for (const node of nodeNames(NODES)) resident[node] = Math.max(resident[node] ?? 0, residentOf(this.#pid(node)));
      const seen = await this.client.get(Moves, name);
      return seen.status?.committedAt === undefined ? null : seen;
    });
    const seconds = (performance.now() - began) / 1000;
    return { seconds, bytesSent: Number(move.status?.incoming?.bytesSent ?? 0), resident };
  }

  async scrubbed(name: string): Promise<void> {
    const move = await this.#until(async () => {
      const seen = await this.client.get(Moves, name);
      return ['Running', undefined].includes(seen.status?.incoming?.scrub?.state) ? null : seen;
    });
    if (move.status?.incoming?.scrub?.state !== 'Passed')
      throw new Error(`the scrub ended as ${JSON.stringify(move.status?.incoming?.scrub)}`);
  }

  async delete(name: string): Promise<void> {
    await this.client.delete(Volumes, name);
    for (const { metadata, spec } of (await this.client.list(Moves)).items)
      if (spec.volume === name) await this.client.delete(Moves, metadata.name);
    await this.#until(async () => ((await this.client.list(Volumes)).items.some(({ metadata }) => metadata.name === name) ? null : true));
  }

  async #until<T>(look: () => Promise<T | null>): Promise<T> {
    for (;;) {
      const answer = await look();
      if (answer !== null) return answer;
      await this.#checkMoves();
      await systemClock.sleep(LOOK);
    }
  }

  async #checkMoves(): Promise<void> {
    const ended = (await this.client.list(Moves)).items.find((move: Stored<Move>) => move.status?.phase === 'Failed');
    if (ended) throw new Error(`move ${ended.metadata.name} failed: ${JSON.stringify(ended.status?.obstacle)}`);
  }

  #agent(node: string): ReturnType<typeof localAgent> {
    return localAgent(node, join(placesOf(this.layout, node).folder, 'agent.sock'));
  }

  #pid(node: string): number {
    return found(this.layout.running, node)?.pid ?? 0;
  }
}

const residentOf = (pid: number): number =>
  Number(/^VmRSS:\s*([0-9]+) kB$/mu.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024;
