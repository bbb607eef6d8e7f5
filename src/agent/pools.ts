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
  #uuids: Uuids;

  private constructor(parts: { configurations: readonly PoolConfiguration[]; file: string; uuids: Uuids; crash: CrashPoint }) {
    this.#configurations = parts.configurations;
    this.#file = parts.file;
    this.#uuids = parts.uuids;
    this.#crash = parts.crash;
  }

  /** What cannot be opened now is in `broken`, with the reason; `open` tries again. */
  static async open(parts: {
    configurations: readonly PoolConfiguration[];
    file: string;
    recorded: { [pool: string]: PoolStatus };
    crash: CrashPoint;
  }): Promise<NodePools> {
    const known = { ...recordedUuids(parts.recorded), ...(await read(parts.file)) };
    const opened = new NodePools({ ...parts, uuids: known });
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
      const pool = await openPool(configuration, { uuid: this.#uuids[name] ?? null, journals, crash: this.#crash });
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
