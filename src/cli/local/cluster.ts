// A cluster on one machine: a server, a controller and agents as processes of their own, which come up and go down together. The parts
// are those that run on separate machines too; only where they lie and who starts them is decided here.
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { httpClient, type HttpClient } from '../../api/http-client.ts';
import { connectTo } from '../../api/http-connection.ts';
import { readKubeconfig } from '../../api/kubeconfig.ts';
import { beFolder, tryLockFile } from '../../host/files.ts';
import { mounts } from '../../host/mounts.ts';
import { isReady } from '../../decide/observed.ts';
import type { Clock } from '../../model/clock.ts';
import { FlockError, isReason } from '../../model/errors.ts';
import type { Stored } from '../../model/meta.ts';
import { StorageNodes, type StorageNode } from '../../model/storage-node.ts';
import { localAgent } from '../agent-socket.ts';
import { PACKAGE_ROOT } from '../version.ts';
import { allFound, begin, end, found } from './child.ts';
import { freePort, readDescription, writeDescription, type Description } from './description.ts';
import { CONTROLLER, layoutOf, nodeNames, placesOf, SERVER, type Layout, type NodePlaces } from './layout.ts';
import { bePool, bePoolAbsent, beUnused, chooseGround, diskSize, isPoolMounted, type Say } from './pool-disk.ts';

export interface Surroundings {
  clock: Clock;
  signal: AbortSignal;
  say: Say;
  /** The processes are to end when this one does. */
  tied?: boolean;
}

/**
 * Runs the cluster in the folder, or what of it does not run; made when there is none. Throws Conflict when all of it runs already. When it
 * fails, what it started is stopped again.
 */
export async function bringUp(
  directory: string,
  nodes: number | undefined,
  around: Surroundings,
): Promise<{ layout: Layout; description: Description }> {
  await beFolder(directory, 0o700);
  const layout = layoutOf(realpathSync(directory));
  refuseForeign(layout);
  return alone(layout, async () => {
    const description = await describe(layout, nodes, around.say);
    const missing = namesOf(description).filter((name) => found(layout.running, name) === null);
    if (missing.length === 0)
      throw new FlockError(
        'Conflict',
        `the cluster in ${layout.directory} runs already; flockctl down --dir ${layout.directory} stops it, flockctl node list --kubeconfig ${layout.kubeconfig} shows it`,
      );
    const mounted = await mountedPools(layout, description);
    try {
      await startAll(layout, description, around);
      return { layout, description };
    } catch (error) {
      // What was mounted before may be in use: an application outlives its agent.
      await endThese(layout, description, { names: missing, keep: mounted, clock: around.clock });
      throw error;
    }
  });
}

async function mountedPools(layout: Layout, { nodes, ground }: Description): Promise<ReadonlySet<string>> {
  const mounted = new Set<string>();
  if (ground === 'folder') return mounted;
  for (const name of nodeNames(nodes)) if (await isPoolMounted(placesOf(layout, name))) mounted.add(name);
  return mounted;
}

/** What lies in the folder of a new cluster would go with `down --delete`. */
function refuseForeign(layout: Layout): void {
  if (readDescription(layout) !== null) return;
  const foreign = readdirSync(layout.directory).filter((name) => name !== 'lock');
  if (foreign.length > 0)
    throw new FlockError(
      'Conflict',
      `${layout.directory} is not empty (${foreign.slice(0, 3).join(', ')}) and no cluster: choose an empty or a new folder as --dir`,
    );
}

/** Of two commands on one cluster the second is refused. */
async function alone<T>(layout: Layout, act: () => Promise<T>): Promise<T> {
  const file = join(layout.directory, 'lock');
  const lock = await tryLockFile(file, 'exclusive');
  if (!lock) throw new FlockError('Conflict', `another flockctl up or down works on ${layout.directory}: wait for it`);
  try {
    return await act();
  } finally {
    await rm(file, { force: true });
    await lock.release();
  }
}

async function describe(layout: Layout, nodes: number | undefined, say: Say): Promise<Description> {
  const there = readDescription(layout);
  if (there !== null) return regrown(layout, there, nodes ?? there.nodes);
  const count = nodes ?? 3;
  const ground = await chooseGround(say);
  const size = ground === 'folder' ? 0n : await diskSize(layout.directory, count);
  const made: Description = { nodes: count, port: await freePort(), ground, diskSize: String(size) };
  await writeDescription(layout, made);
  return made;
}

async function regrown(layout: Layout, there: Description, nodes: number): Promise<Description> {
  if (nodes < there.nodes)
    throw new FlockError(
      'Conflict',
      `the cluster in ${layout.directory} has ${there.nodes} nodes, with what is stored on them: it does not come up with ${nodes}; leave --nodes out, or take another --dir`,
    );
  if (nodes === there.nodes) return there;
  const more = { ...there, nodes };
  await writeDescription(layout, more);
  return more;
}

export const namesOf = ({ nodes }: Description): string[] => [SERVER, CONTROLLER, ...nodeNames(nodes)];

async function startAll(layout: Layout, description: Description, around: Surroundings): Promise<void> {
  mkdirSync(layout.logs, { recursive: true });
  const url = `https://127.0.0.1:${description.port}`;
  const { tied = false } = around;
  const words = ['server', '--dir', layout.server, '--listen', `127.0.0.1:${description.port}`, '--kubeconfig', layout.kubeconfig];
  start(layout, SERVER, { words, tied });
  const client = await reached(layout, around);
  try {
    start(layout, CONTROLLER, { words: ['controller', '--kubeconfig', layout.controllerKubeconfig], tied });
    for (const name of nodeNames(description.nodes)) await startAgent(layout, description, { places: placesOf(layout, name), url, tied });
    await allReady(layout, description, { client, around });
  } finally {
    client.close();
  }
}

interface Part {
  words: string[];
  tied: boolean;
  env?: { [name: string]: string };
}

/** What the caller's environment says of another server is not meant for it. */
const OWN_SERVER = { FLOCK_SERVER: '', FLOCK_KUBECONFIG: '' };

function start(layout: Layout, name: string, { words, tied, env = {} }: Part): void {
  if (found(layout.running, name) !== null) return;
  const order = { running: layout.running, name, log: logOf(layout, name), tied };
  begin({ ...order, words: [mainFile(), ...words], env: { ...OWN_SERVER, ...env } });
}

const logOf = (layout: Layout, name: string): string => join(layout.logs, `${name}.log`);

/** This program as it runs now: the sources in development, dist/ when installed. */
const mainFile = (): string => {
  const source = join(PACKAGE_ROOT, 'src', 'cli', 'main.ts');
  return existsSync(source) ? source : join(PACKAGE_ROOT, 'dist', 'cli', 'main.js');
};

async function startAgent(
  layout: Layout,
  { ground, diskSize: size }: Description,
  { places, url, tied }: { places: NodePlaces; url: string; tied: boolean },
): Promise<void> {
  mkdirSync(places.folder, { recursive: true, mode: 0o700 });
  await bePool(places, ground, BigInt(size));
  writeFileSync(places.pools, stringify({ pools: [{ name: 'local', type: 'image', path: places.pool }] }));
  const words = [
    'agent',
    '--name',
    places.name,
    '--dir',
    places.folder,
    '--pools',
    places.pools,
    '--server',
    url,
    '--listen',
    '127.0.0.1:0',
  ];
  // In the environment, for everybody can read the arguments of a process.
  const env = existsSync(join(places.folder, 'identity.json')) ? {} : { FLOCK_INVITE: await invitationFor(layout, places.name) };
  start(layout, places.name, { words, tied, env });
}

async function invitationFor(layout: Layout, node: string): Promise<string> {
  const connection = connectTo(readKubeconfig(layout.kubeconfig).connection);
  try {
    return ((await connection.demand({ method: 'POST', path: '/invite', body: { node } })) as { token: string }).token;
  } finally {
    connection.close();
  }
}

// ---- waiting ---------------------------------------------------------------------------------------------------------------------

const PATIENCE_MS = 60_000;
const LOOK_MS = 50;

/** Answers of `look` until one is not null. Fails when one of the processes has ended, or after a minute. */
async function eventually<T>(
  layout: Layout,
  names: readonly string[],
  { clock, signal }: Surroundings,
  look: () => Promise<T | null>,
): Promise<T> {
  const until = clock.monotonic() + PATIENCE_MS;
  for (;;) {
    signal.throwIfAborted();
    const answer = await look();
    if (answer !== null) return answer;
    const ended = names.find((name) => found(layout.running, name) === null);
    if (ended !== undefined)
      throw new FlockError('Internal', `${ended} has ended; the end of ${logOf(layout, ended)}:\n${endOf(logOf(layout, ended))}`);
    if (clock.monotonic() > until)
      throw new FlockError('Internal', `the cluster did not come up within ${PATIENCE_MS / 1000} s; the logs are in ${layout.logs}`);
    await clock.sleep(LOOK_MS, signal);
  }
}

function endOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').trimEnd().split('\n').slice(-5).join('\n');
  } catch {
    return '(it cannot be read)';
  }
}

/** A client of the server, once it answers. */
async function reached(layout: Layout, around: Surroundings): Promise<HttpClient> {
  return eventually(layout, [SERVER], around, async () => {
    if (!existsSync(layout.kubeconfig)) return null;
    const client = httpClient(readKubeconfig(layout.kubeconfig).connection);
    const answers = await orUnavailable(client.list(StorageNodes, { limit: 1 }).then(() => true as const));
    if (answers) return client;
    client.close();
    return null;
  });
}

async function orUnavailable<T>(asked: Promise<T>): Promise<T | null> {
  try {
    return await asked;
  } catch (error) {
    if (isReason(error, 'Unavailable')) return null;
    throw error;
  }
}

async function allReady(
  layout: Layout,
  description: Description,
  { client, around }: { client: HttpClient; around: Surroundings },
): Promise<void> {
  const wanted = nodeNames(description.nodes);
  await eventually(layout, namesOf(description), around, async () => {
    const { items } = await client.list(StorageNodes);
    const ready = await Promise.all(items.filter((node) => wanted.includes(node.metadata.name) && isReady(node)).map(answers));
    return ready.filter(Boolean).length === wanted.length ? true : null;
  });
}

/** The record may still speak of the agent before: this one answers by itself. */
async function answers({ metadata, status }: Stored<StorageNode>): Promise<boolean> {
  try {
    await (await localAgent(metadata.name, status?.socket)).fetching();
    return true;
  } catch (error) {
    if (isReason(error, 'Unavailable', 'Unsupported')) return false;
    throw error;
  }
}

// ---- down ------------------------------------------------------------------------------------------------------------------------

/**
 * Nothing of the cluster runs or is mounted; with `remove` nothing of it is left. Throws InUse when a volume is in use, and stops nothing
 * then. The folder as it is really called.
 */
export async function bringDown(directory: string, remove: boolean, clock: Clock): Promise<string> {
  const layout = layoutOf(existsSync(directory) ? realpathSync(directory) : directory);
  const description = readDescription(layout);
  if (description === null) throw new FlockError('NotFound', `there is no cluster in ${directory}; flockctl up makes one`);
  await alone(layout, async () => {
    for (const name of nodeNames(description.nodes)) await beUnused(placesOf(layout, name), description.ground);
    await endThese(layout, description, { names: namesOf(description), keep: new Set(), clock });
    if (remove) await removeAll(layout);
  });
  return layout.directory;
}

interface Ending {
  names: readonly string[];
  /** Nodes whose pools stay as they are. */
  keep: ReadonlySet<string>;
  clock: Clock;
}

/** Agents first: they say goodbye to the server. */
async function endThese(layout: Layout, description: Description, { names, keep, clock }: Ending): Promise<void> {
  const nodes = nodeNames(description.nodes).filter((name) => names.includes(name));
  await Promise.all(nodes.map((name) => end(layout.running, name, clock)));
  for (const name of [CONTROLLER, SERVER]) if (names.includes(name)) await end(layout.running, name, clock);
  for (const name of nodes) if (!keep.has(name)) await bePoolAbsent(placesOf(layout, name), description.ground);
}

async function removeAll(layout: Layout): Promise<void> {
  const left = allFound(layout.running).map(({ name }) => name);
  const below = (await mounts()).filter((mount) => mount.target.startsWith(`${layout.directory}/`)).map((mount) => mount.target);
  if (left.length + below.length > 0)
    throw new FlockError('InUse', `${layout.directory} is not removed: ${[...left, ...below].join(', ')} is still there`);
  await rm(layout.directory, { recursive: true });
}
