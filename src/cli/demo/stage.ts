// The demo's own cluster in a folder of its own, and the application beside it: how they begin, are killed, and go without a trace. Knows
// nothing of the story that is played on it.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { httpClient, type HttpClient } from '../../api/http-client.ts';
import { readKubeconfig } from '../../api/kubeconfig.ts';
import { loopDevices } from '../../host/loop.ts';
import { mounts } from '../../host/mounts.ts';
import { FlockError } from '../../model/errors.ts';
import { humanBytes } from '../../model/quantity.ts';
import { localAgent, type Fetching, type LocalAgent } from '../agent-socket.ts';
import type { Context } from '../context.ts';
import { begin, end, found } from '../local/child.ts';
import { bringUp, type Surroundings } from '../local/cluster.ts';
import { freePort, writeDescription, type Description } from '../local/description.ts';
import { layoutOf, placesOf, type Layout } from '../local/layout.ts';
import { chooseGround, type PoolGround, type Say } from '../local/pool-disk.ts';
import { nodeNamed } from '../records.ts';
import { parseLog, type Acknowledged } from './acknowledged.ts';
import { warningsIn } from './logs.ts';
import { demoPlaces, type DemoPlaces } from './places.ts';

const NODES = 3;
const GIB = 2n ** 30n;
/** Of each pool's disk, which is a sparse file; of what is written in the end, and a little more. */
const DISK = 4n * GIB;
const NEEDED = 2n * GIB;
const APPLICATION = 'application';
const WARNINGS = 10;

/** The program beside this file: a source in development, built when installed. */
const program = (name: string): string => join(import.meta.dirname, `${name}${extname(import.meta.filename)}`);

/** An empty folder of the demo's own, and whoever removes it with all that is in it once this process is gone. */
export function openStage(context: Context, say: Say): Stage {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'flock-demo-')));
  const sweeper = spawn(process.execPath, [program('sweeper'), folder], {
    detached: true,
    stdio: ['pipe', 'inherit', 'inherit'],
    cwd: '/',
  });
  sweeper.stdin.on('error', () => {});
  return new Stage(context, say, { folder, sweeper });
}

export class Stage {
  readonly places: DemoPlaces;
  readonly layout: Layout;
  readonly #context: Context;
  readonly #around: Surroundings;
  readonly #sweeper: ChildProcess;
  #client: HttpClient | null = null;
  #applicationRuns = false;

  constructor(context: Context, say: Say, { folder, sweeper }: { folder: string; sweeper: ChildProcess }) {
    this.places = demoPlaces(folder);
    this.layout = layoutOf(folder);
    this.#context = context;
    this.#around = { clock: context.clock, signal: context.interrupted, say, tied: true };
    this.#sweeper = sweeper;
  }

  get client(): HttpClient {
    if (!this.#client) throw new FlockError('Internal', 'the demo asked its server before it ran');
    return this.#client;
  }

  /** Server, controller and agents run. What the pools lie on. */
  async bringUp(): Promise<PoolGround> {
    const { directory, kubeconfig } = this.layout;
    await checkRoom(directory);
    const ground = await chooseGround(this.#around.say);
    const description: Description = { nodes: NODES, port: await freePort(), ground, diskSize: ground === 'folder' ? '0' : String(DISK) };
    await writeDescription(this.layout, description);
    await bringUp(directory, { nodes: NODES }, this.#around);
    this.#client = httpClient(readKubeconfig(kubeconfig).connection);
    mkdirSync(this.places.running, { recursive: true });
    return ground;
  }

  async agent(node: string): Promise<LocalAgent> {
    return localAgent(node, (await nodeNamed(this.client, node)).status?.socket);
  }

  /** What a node's agent fetches for this move right now; null when it does not, or is not there. */
  async fetching(node: string, moveUid: string): Promise<Fetching | null> {
    const path = join(placesOf(this.layout, node).folder, 'agent.sock');
    const asked = localAgent(node, path).then((agent) => agent.fetching());
    return asked.then(
      (all) => all.find(({ move }) => move === moveUid) ?? null,
      () => null,
    );
  }

  /** SIGKILL: no end in order. Its process id, once it is gone. */
  async killAgent(node: string): Promise<number> {
    const { running } = this.layout;
    const agent = found(running, node);
    if (!agent) throw new FlockError('Internal', `the agent of ${node} does not run`);
    process.kill(agent.pid, 'SIGKILL');
    while (found(running, node)) await this.#context.clock.sleep(5, this.#context.interrupted);
    return agent.pid;
  }

  /** Whoever of the cluster does not run is started again. */
  async startMissing(): Promise<void> {
    await bringUp(this.layout.directory, { nodes: NODES }, this.#around);
  }

  startApplication(words: readonly string[]): number {
    const { running, output } = this.places;
    this.#applicationRuns = true;
    return begin({ running, name: APPLICATION, log: output, words: [program('application'), ...words], tied: true }).pid;
  }

  stopApplication(): Promise<void> {
    this.#applicationRuns = false;
    return end(this.places.running, APPLICATION, this.#context.clock);
  }

  /** Throws Internal when the application was started and has ended by itself. */
  checkApplication(): void {
    if (!this.#applicationRuns || found(this.places.running, APPLICATION)) return;
    const words = readFileSync(this.places.output, 'utf8').trimEnd().slice(-1000);
    throw new FlockError('Internal', `the application has ended by itself: ${words || 'it said nothing'}`);
  }

  acknowledged(): Acknowledged[] {
    return existsSync(this.places.acknowledged) ? parseLog(readFileSync(this.places.acknowledged, 'utf8')) : [];
  }

  /** The last warnings in the logs, which go with everything else. */
  warnings(): string[] {
    const { logs } = this.layout;
    const lines = (existsSync(logs) ? readdirSync(logs) : []).flatMap((file) => readFileSync(join(logs, file), 'utf8').split('\n'));
    return warningsIn(lines).slice(-WARNINGS);
  }

  /** Everything ends and goes. What is left behind all the same: nothing, if all is well. */
  async clear(): Promise<string[]> {
    const { directory } = this.layout;
    this.#client?.close();
    const swept = this.#sweeper.exitCode === null ? once(this.#sweeper, 'exit') : Promise.resolve([this.#sweeper.exitCode]);
    this.#sweeper.stdin?.end();
    const [code] = (await swept) as [number | null];
    const within = (path: string): boolean => path === directory || path.startsWith(`${directory}/`);
    return [
      ...(code === 0 ? [] : ['what the sweeper could not end']),
      ...(existsSync(directory) ? [directory] : []),
      ...(await mounts()).filter(({ target }) => within(target)).map(({ target }) => `mount ${target}`),
      ...(await loops()).filter(({ file }) => within(file)).map(({ device }) => `loop device ${device}`),
    ];
  }
}

/** Without root there are none of ours. */
const loops = async (): ReturnType<typeof loopDevices> => (process.getuid?.() === 0 ? loopDevices() : []);

async function checkRoom(folder: string): Promise<void> {
  const { bavail, bsize } = await statfs(folder, { bigint: true });
  if (bavail * bsize >= NEEDED) return;
  throw new FlockError(
    'NoSpace',
    `${tmpdir()} has ${humanBytes(bavail * bsize)} free, the demo needs ${humanBytes(NEEDED)} there for a moment: free some, or set TMPDIR to another folder`,
  );
}
