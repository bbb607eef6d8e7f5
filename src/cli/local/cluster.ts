// A cluster on one machine: a server, a controller and agents as processes of their own, which come up and go down together. The parts
// are those that run on separate machines too; only where they lie and who starts them is decided here.
import { existsSync, mkdirSync, readdirSync, realpathSync, writeFileSync } from 'node:fs';
import { readlink, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { publishedPaths } from '../../agent/publications.ts';
import { isRevoked } from '../../api/enrolment.ts';
import type { HttpClient } from '../../api/http-client.ts';
import { connectTo } from '../../api/http-connection.ts';
import { readKubeconfig } from '../../api/kubeconfig.ts';
import { readIdentity } from '../../api/node-identity.ts';
import { beFolder, tryLockFile } from '../../host/files.ts';
import { mounts } from '../../host/mounts.ts';
import type { Clock } from '../../model/clock.ts';
import { FlockError } from '../../model/errors.ts';
import { PACKAGE_ROOT } from '../version.ts';
import { allFound, begin, end, found } from './child.ts';
import { freePort, namesOf, readDescription, writeDescription, type Description } from './description.ts';
import { CONTROLLER, layoutOf, logOf, nodeNames, placesOf, poolsOf, SERVER, type Layout, type NodePlaces } from './layout.ts';
import { bePool, bePoolAbsent, beUnused, chooseGround, diskSize, isPoolMounted, type PoolGround, type Say } from './pool-disk.ts';
import { allReady, reached, type Patience } from './readiness.ts';

export interface Surroundings extends Patience {
  say: Say;
  /** The processes are to end when this one does. */
  tied?: boolean;
}

/** What is not said is as it was. */
export interface Wanted {
  nodes?: number;
  csi?: string;
}

/**
 * Runs the cluster in the folder, or what of it does not run or is not mounted; made when there is none. Throws Conflict when all of it is
 * there already. When it fails, what it started is stopped again.
 */
export async function bringUp(
  directory: string,
  wanted: Wanted,
  around: Surroundings,
): Promise<{ layout: Layout; description: Description }> {
  await beFolder(directory, 0o700);
  const layout = layoutOf(realpathSync(directory));
  refuseForeign(layout);
  return alone(layout, async () => {
    const description = await describe(layout, wanted, around.say);
    if (found(layout.running, SERVER) !== null)
      await withRecords(layout, around, (client) => endRevoked(layout, description, { client, around }));
    const missing = namesOf(description).filter((name) => found(layout.running, name) === null);
    const { mounted, unmounted } = await nodesByMounts(layout, description);
    if (missing.length + unmounted.size === 0)
      throw new FlockError(
        'Conflict',
        `the cluster in ${layout.directory} runs already; flockctl down --dir ${layout.directory} stops it, flockctl node list --kubeconfig ${layout.kubeconfig} shows it`,
      );
    // Under a running agent a pool may be mounted: it looks for its mark before it writes, and opens again what was gone.
    const mending = [...unmounted].filter((name) => !missing.includes(name));
    for (const name of mending) around.say(`what is not mounted of the pools of ${name} is mounted again`);
    try {
      await startAll(layout, description, { ...around, mending });
      return { layout, description };
    } catch (error) {
      // What was mounted before may be in use: an application outlives its agent.
      await endThese(layout, description, { names: missing, keep: mounted, clock: around.clock });
      throw error;
    }
  });
}

/**
 * A node whose record was deleted is shut out for good, and its agent goes on in vain. On one machine its owner takes that back by this
 * command: without its identity it is enrolled again, with what is stored on it.
 */
async function endRevoked(
  layout: Layout,
  { nodes }: Description,
  { client, around }: { client: HttpClient; around: Surroundings },
): Promise<void> {
  for (const name of nodeNames(nodes)) {
    const file = identityOf(placesOf(layout, name));
    if (!existsSync(file) || !(await isRevoked(client, (await readIdentity(file)).certificate))) continue;
    around.say(`the record of ${name} was deleted, which shut it out: it is enrolled again, with what is stored on it`);
    await end(layout.running, name, around.clock);
    await rm(file);
  }
}

const identityOf = ({ folder }: NodePlaces): string => join(folder, 'identity.json');

/** Nodes with a pool that is mounted, and with one that is not though it should be; a node may be both. */
async function nodesByMounts(layout: Layout, { nodes, ground }: Description): Promise<{ mounted: Set<string>; unmounted: Set<string> }> {
  const found = { mounted: new Set<string>(), unmounted: new Set<string>() };
  if (ground === 'folder') return found;
  for (const name of nodeNames(nodes))
    for (const pool of poolsOf(placesOf(layout, name))) found[(await isPoolMounted(pool)) ? 'mounted' : 'unmounted'].add(name);
  return found;
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

async function describe(layout: Layout, wanted: Wanted, say: Say): Promise<Description> {
  const there = readDescription(layout);
  if (there !== null) return changed(layout, there, wanted);
  const { nodes: count = 3, csi } = wanted;
  const ground = await chooseGround(say);
  const size =
    ground === 'folder' ? 0n : await diskSize(layout.directory, nodeNames(count).flatMap((name) => poolsOf(placesOf(layout, name))).length);
  const made: Description = { nodes: count, port: await freePort(), ground, diskSize: String(size), ...(csi === undefined ? {} : { csi }) };
  await writeDescription(layout, made);
  return made;
}

/** More nodes, or sockets for CSI from now on. */
async function changed(layout: Layout, there: Description, wanted: Wanted): Promise<Description> {
  const { nodes = there.nodes, csi = there.csi } = wanted;
  if (nodes < there.nodes)
    throw new FlockError(
      'Conflict',
      `the cluster in ${layout.directory} has ${there.nodes} nodes, with what is stored on them: it does not come up with ${nodes}; leave --nodes out, or take another --dir`,
    );
  if (nodes === there.nodes && csi === there.csi) return there;
  const more = { ...there, nodes, ...(csi === undefined ? {} : { csi }) };
  await writeDescription(layout, more);
  return more;
}

/** CSI of one process, if it is wanted. */
const csiWords = ({ csi }: Description, name: string): string[] => (csi === undefined ? [] : ['--csi-socket', join(csi, `${name}.sock`)]);

/** `mending`: nodes whose pools have to be reported as healthy again. */
async function startAll(layout: Layout, description: Description, around: Surroundings & { mending: readonly string[] }): Promise<void> {
  mkdirSync(layout.logs, { recursive: true });
  const url = `https://127.0.0.1:${description.port}`;
  const { tied = false } = around;
  const words = ['server', '--dir', layout.server, '--listen', `127.0.0.1:${description.port}`, '--kubeconfig', layout.kubeconfig];
  start(layout, SERVER, { words, tied });
  await withRecords(layout, around, async (client) => {
    await endRevoked(layout, description, { client, around });
    const controller = ['controller', '--kubeconfig', layout.controllerKubeconfig, ...csiWords(description, CONTROLLER)];
    start(layout, CONTROLLER, { words: controller, tied });
    for (const name of nodeNames(description.nodes)) await startAgent(layout, description, { places: placesOf(layout, name), url, tied });
    await allReady(layout, description, { client, around, mending: around.mending });
  });
}

async function withRecords<T>(layout: Layout, around: Surroundings, act: (client: HttpClient) => Promise<T>): Promise<T> {
  const client = await reached(layout, around);
  try {
    return await act(client);
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

/** This program as it runs now: the sources in development, dist/ when installed. */
const mainFile = (): string => {
  const source = join(PACKAGE_ROOT, 'src', 'cli', 'main.ts');
  return existsSync(source) ? source : join(PACKAGE_ROOT, 'dist', 'cli', 'main.js');
};

async function startAgent(
  layout: Layout,
  description: Description,
  { places, url, tied }: { places: NodePlaces; url: string; tied: boolean },
): Promise<void> {
  const { ground, diskSize: size } = description;
  mkdirSync(places.folder, { recursive: true, mode: 0o700 });
  const pools = poolsOf(places);
  for (const pool of pools) await bePool(pool, ground, BigInt(size));
  writeFileSync(places.configuration, stringify({ pools: pools.map(({ name, type, folder: path }) => ({ name, type, path })) }));
  const words = [
    'agent',
    '--name',
    places.name,
    '--dir',
    places.folder,
    '--pools',
    places.configuration,
    '--server',
    url,
    '--listen',
    '127.0.0.1:0',
    // Its nodes are one machine: each would give way to the others' copying.
    '--ignore-pressure',
    ...csiWords(description, places.name),
  ];
  // In the environment, for everybody can read the arguments of a process.
  const env = existsSync(identityOf(places)) ? {} : { FLOCK_INVITE: await invitationFor(layout, places.name) };
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
    for (const name of nodeNames(description.nodes))
      for (const pool of poolsOf(placesOf(layout, name))) await beUnused(name, pool, useOf(layout, description, name));
    await endThese(layout, description, { names: namesOf(description), keep: new Set(), clock });
    if (description.ground === 'folder') for (const name of nodeNames(description.nodes)) await beUnlinked(layout, placesOf(layout, name));
    if (remove) await removeAll(layout);
  });
  return layout.directory;
}

/** What was handed out as a link would lead to nothing, or to what nobody watches over. */
async function beUnlinked({ directory }: Layout, { folder }: NodePlaces): Promise<void> {
  for (const path of await publishedPaths(join(folder, 'publications.json'))) {
    const leadsTo = await readlink(path).catch(() => '');
    if (leadsTo.startsWith(`${directory}/`)) await rm(path);
  }
}

function useOf({ running }: Layout, { ground }: Description, node: string): { ground: PoolGround; agent?: number } {
  const agent = found(running, node);
  return { ground, ...(agent ? { agent: agent.pid } : {}) };
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
  for (const name of nodes.filter((each) => !keep.has(each)))
    for (const pool of poolsOf(placesOf(layout, name))) await bePoolAbsent(pool, description.ground);
}

async function removeAll(layout: Layout): Promise<void> {
  const left = allFound(layout.running).map(({ name }) => name);
  const below = (await mounts()).filter((mount) => mount.target.startsWith(`${layout.directory}/`)).map((mount) => mount.target);
  if (left.length + below.length > 0)
    throw new FlockError('InUse', `${layout.directory} is not removed: ${[...left, ...below].join(', ')} is still there`);
  await rm(layout.directory, { recursive: true });
}
