// Opens this node's pools as the configuration names them. Which disk a pool was on is remembered (record and own file), so that another
// disk at the same path is refused, not filled.
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { beFolder, writeAtomically } from '../host/files.ts';
import type { CrashPoint } from '../model/crash.ts';
import { FlockError, messageOf } from '../model/errors.ts';
import type { PoolStatus } from '../model/storage-node.ts';
import type { PoolConfiguration } from '../pools/configuration.ts';
import { openPool } from '../pools/open.ts';
import type { Pool } from '../pools/pool.ts';
import type { BrokenPool } from './node-report.ts';

type Uuids = { [pool: string]: string };

export class NodePools {
  readonly pools = new Map<string, Pool>();
  readonly broken = new Map<string, BrokenPool>();
  readonly #configurations: readonly PoolConfiguration[];
  readonly #file: string;
  readonly #crash: CrashPoint;
  readonly #owners: Owners;
  readonly #recorded: Uuids;
  #uuids: Uuids;

  private constructor(parts: Omit<NodePoolsParts, 'recorded'> & { recorded: Uuids; uuids: Uuids }) {
    this.#configurations = parts.configurations;
    this.#file = parts.file;
    this.#recorded = parts.recorded;
    this.#uuids = parts.uuids;
    this.#crash = parts.crash;
    this.#owners = parts.owners;
  }

  /** What cannot be opened now is in `broken`, with the reason; `open` tries again. */
  static async open(parts: NodePoolsParts): Promise<NodePools> {
    const recorded = recordedUuids(parts.recorded);
    const opened = new NodePools({ ...parts, recorded, uuids: { ...recorded, ...(await read(parts.file)) } });
    await opened.open();
    return opened;
  }

  async open(): Promise<void> {
    for (const configuration of this.#configurations) if (!this.pools.has(configuration.name)) await this.#openOne(configuration);
  }

  async #openOne(configuration: PoolConfiguration): Promise<void> {
    const { name, type } = configuration;
    try {
      const journals = join(dirname(this.#file), 'journals', name);
      const pool = await openPool(configuration, {
        uuid: this.#uuids[name] ?? null,
        journals,
        beside: this.#beside(name),
        crash: this.#crash,
      });
      if (this.#recorded[name] !== pool.uuid) await this.#checkOwner(name, pool.uuid);
      await beFolder(pool.journals);
      if (this.#uuids[name] !== pool.uuid) {
        this.#uuids = { ...this.#uuids, [name]: pool.uuid };
        await writeAtomically(this.#file, JSON.stringify(this.#uuids, null, 1));
      }
      this.pools.set(name, pool);
      this.broken.delete(name);
    } catch (error) {
      this.broken.set(name, { type, message: messageOf(error) });
    }
  }

  #beside(name: string): string[] {
    return this.#configurations.flatMap((each) => (each.name !== name && 'path' in each ? [each.path] : []));
  }

  /** Each of two agents would remove what the other one fills. */
  async #checkOwner(name: string, uuid: string): Promise<void> {
    const owner = (await this.#owners()).get(uuid);
    if (owner === undefined) return;
    throw new FlockError(
      'Conflict',
      `pool ${name} is a pool of node ${owner} already (${uuid}), and no two nodes may have one: give this node a pool of its own. If this machine was node ${owner} before, start its agent by --name ${owner}; if that node is gone for good, delete its record: kubectl delete storagenode ${owner}`,
    );
  }
}

/** Nodes by the UUIDs of the pools that they report. */
type Owners = () => Promise<ReadonlyMap<string, string>>;

export interface NodePoolsParts {
  configurations: readonly PoolConfiguration[];
  file: string;
  /** What this node's record says of its pools. */
  recorded: { [pool: string]: PoolStatus };
  /** Of all other nodes. */
  owners: Owners;
  crash: CrashPoint;
}

const recordedUuids = (pools: { [pool: string]: PoolStatus }): Uuids =>
  Object.fromEntries(Object.entries(pools).flatMap(([name, { uuid }]) => (uuid === undefined ? [] : [[name, uuid]])));

async function read(file: string): Promise<Uuids> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as Uuids;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw new FlockError(
      'Corrupt',
      `${file} cannot be read (${messageOf(error)}); it says which disk each pool is on. Remove it only if no disk was exchanged`,
      { cause: error },
    );
  }
}
