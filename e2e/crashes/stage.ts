// A cluster of two nodes on this machine, whose processes are killed (party.ts) while stories go on in it; and how things stand there: records,
// agents, and what is left on disks, devices and among the processes. Knows no story.
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { CONTROLLER_LEASE } from '../../src/api/election.ts';
import { httpClient, type HttpClient } from '../../src/api/http-client.ts';
import { readKubeconfig } from '../../src/api/kubeconfig.ts';
import { localAgent, type LocalAgent } from '../../src/cli/agent-socket.ts';
import { end } from '../../src/cli/local/child.ts';
import { bringDown, bringUp } from '../../src/cli/local/cluster.ts';
import { freePort, writeDescription } from '../../src/cli/local/description.ts';
import { CONTROLLER, layoutOf, placesOf, poolsOf, SERVER, type Layout } from '../../src/cli/local/layout.ts';
import { loopDevices } from '../../src/host/loop.ts';
import { mounts } from '../../src/host/mounts.ts';
import { systemClock } from '../../src/model/clock.ts';
import type { Kind } from '../../src/model/kind.ts';
import { SYSTEM_NAMESPACE, type ApiObject } from '../../src/model/meta.ts';
import { Moves } from '../../src/model/move.ts';
import { Snapshots } from '../../src/model/snapshot.ts';
import { Leases } from '../../src/model/system.ts';
import { Volumes } from '../../src/model/volume.ts';
import { Party } from './party.ts';
import type { Role } from './points.ts';
import type { Threats } from './threats.ts';

export const NODES = ['node-1', 'node-2'] as const;
export type Node = (typeof NODES)[number];
const ROLE_OF: { [N in Node]: Role } = { 'node-1': 'source', 'node-2': 'target' };
/** Of each pool's disk, a sparse file, bytes. */
const DISK = 640n << 20n;
const NOTES = 60;
/** Folders that are the pool's own, and empty in the end. */
const OWN = ['journals', 'retired'];

export class Stage {
  readonly layout: Layout;
  client!: HttpClient;
  /** Processes that were killed so far. */
  deaths = 0;
  /** What went wrong with a process, if anything. */
  fault: string | null = null;
  readonly #parties = new Map<Role | 'server', Party>();
  readonly #notes: string[] = [];

  constructor(folder: string) {
    this.layout = layoutOf(folder);
  }

  /** Everything runs, as `flockctl up` has it; from then on each process is one that may be killed. */
  async open(threats: Threats, killServer: boolean): Promise<void> {
    const { layout } = this;
    mkdirSync(layout.directory, { recursive: true, mode: 0o700 });
    await writeDescription(layout, { nodes: NODES.length, port: await freePort(), ground: 'xfs', diskSize: String(DISK) });
    const around = { clock: systemClock, signal: new AbortController().signal, say: () => undefined, tied: true };
    await bringUp(layout.directory, { nodes: NODES.length }, around);
    this.client = httpClient(readKubeconfig(layout.kubeconfig).connection);
    const controller = [join(import.meta.dirname, 'controller.ts'), layout.controllerKubeconfig];
    for (const node of NODES) await this.#takeOver(node, ROLE_OF[node], threats);
    await this.#takeOver(CONTROLLER, 'controller', threats, controller);
    if (killServer) await this.#takeOver(SERVER, 'server', threats);
  }

  /** The same command, as a child of this process. */
  async #takeOver(name: string, role: Role | 'server', threats: Threats, words?: readonly string[]): Promise<void> {
    const { layout } = this;
    const { pid } = JSON.parse(readFileSync(join(layout.running, `${name}.json`), 'utf8')) as { pid: number };
    const [, ...same] = commandOf(String(pid));
    await end(layout.running, name, systemClock);
    const order = {
      role,
      words: words ?? same,
      log: join(layout.logs, `${name}.log`),
      env: { FLOCK_SERVER: '', FLOCK_KUBECONFIG: '', NODE_COMPILE_CACHE: join(layout.directory, 'compiled') },
      note: (line: string) => this.#died(line),
      died: () => (role === 'controller' ? this.#letNextLead() : Promise.resolve()),
      fault: (why: string) => void (this.fault ??= `${why}; the end of its log:\n${this.#endOfLog(name)}`),
    };
    this.#parties.set(role, new Party(order, threats));
  }

  #died(line: string): void {
    this.deaths += 1;
    this.note(line);
  }

  /** As a person who saw it die may: nobody has to wait until the Lease of the dead runs out. */
  async #letNextLead(): Promise<void> {
    await this.client.delete(Leases, CONTROLLER_LEASE, { namespace: SYSTEM_NAMESPACE }).catch(() => undefined);
  }

  /** Every record of theirs, as a version, and how many died: as long as this is the same, nothing happens. */
  async state(): Promise<string> {
    const versions = await Promise.all(
      [Volumes, Moves, Snapshots].map(async (kind) => {
        const { items } = await this.client.list(kind as Kind<ApiObject>).catch(() => ({ items: [] }));
        return items.map(({ metadata }) => metadata.resourceVersion).join(' ');
      }),
    );
    return [this.deaths, ...versions].join(' ');
  }

  threaten(threats: Threats): void {
    for (const party of this.#parties.values()) party.threaten(threats);
  }

  pause(node: Node): void {
    this.#parties.get(ROLE_OF[node])?.pause();
  }

  goOn(node: Node): void {
    this.#parties.get(ROLE_OF[node])?.goOn();
  }

  agent(node: Node): Promise<LocalAgent> {
    return localAgent(node, join(placesOf(this.layout, node).folder, 'agent.sock'));
  }

  /** Where a volume is published. */
  at(volume: string): string {
    return join(this.layout.directory, `at-${volume}`);
  }

  note(line: string): void {
    this.#notes.push(`${new Date().toISOString().slice(11, 23)} ${line}`);
    if (this.#notes.length > NOTES) this.#notes.shift();
  }

  /** For a person who looks for what went wrong. */
  tell(): string {
    const logs = [...NODES, CONTROLLER].map((name) => `${name}:\n${this.#endOfLog(name)}`);
    return [...this.#notes, ...logs].join('\n');
  }

  #endOfLog(name: string): string {
    return readFileSync(join(this.layout.logs, `${name}.log`), 'utf8')
      .trimEnd()
      .split('\n')
      .slice(-8)
      .join('\n');
  }

  // ---- what is left ------------------------------------------------------------------------------------------------------------

  /** What should not be there when no volume is. */
  async leftovers(): Promise<string[]> {
    const loops = await loopDevices();
    const pools = NODES.flatMap((node) => poolsOf(placesOf(this.layout, node)));
    const perPool = await Promise.all(
      pools.map(async ({ folder }) => {
        const files = (await readdir(folder)).filter((file) => !file.startsWith('.flock-') && !OWN.includes(file));
        const within = await Promise.all(OWN.map((own) => readdir(join(folder, own)).catch(() => [])));
        const devices = loops.filter(({ file }) => file.startsWith(`${folder}/`)).map(({ device }) => device);
        return [...files, ...within.flat(), ...devices].map((what) => `${relative(this.layout.directory, folder)}: ${what}`);
      }),
    );
    const mounted = (await mounts()).map(({ target }) => target).filter((target) => target.startsWith(join(this.layout.directory, 'at-')));
    return [...perPool.flat(), ...mounted, ...this.#strangers()];
  }

  /** Processes that work in the folder and are none of those that should. */
  #strangers(): string[] {
    const { directory } = this.layout;
    const known = new Set([...this.#parties.values()].map(({ pid }) => String(pid)));
    return readdirSync('/proc')
      .filter((pid) => /^[0-9]+$/u.test(pid) && !known.has(pid))
      .map((pid) => ({ pid, command: commandOf(pid) }))
      .filter(({ command }) => command.some((word) => word.startsWith(`${directory}/`)) && !command.includes('server'))
      .map(({ pid, command }) => `process ${pid}: ${command.join(' ')}`);
  }

  /** Nobody works on it any more; what is on the disks stays. */
  async halt(): Promise<void> {
    for (const party of this.#parties.values()) await party.stop();
    this.client.close();
  }

  /** Nothing runs or is mounted, and nothing of the folder is left. */
  async close(): Promise<void> {
    for (const role of ['source', 'target', 'controller', 'server'] as const) await this.#parties.get(role)?.stop();
    this.client.close();
    await bringDown(this.layout.directory, true, systemClock);
  }
}

function commandOf(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
  } catch {
    return [];
  }
}
