// What this node is capable of, measured on request: the disks of its pools, its hash, the wire from another node. Takes seconds, touches no
// copy, leaves nothing. Knows no records but that of the other node.
import { measureDisk, type DiskSpeed } from '../host/measure-disk.ts';
import type { Clock } from '../model/clock.ts';
import { FlockError, messageOf } from '../model/errors.ts';
import type { Pool } from '../pools/pool.ts';
import { measureHash, measureWire } from '../transfer/measuring.ts';
import type { Known } from './ports.ts';
import { dialled } from './transfer-network.ts';
import type { TransferSettings } from './transfers.ts';

export interface BenchParts {
  pools: ReadonlyMap<string, Pool>;
  clock: Clock;
  transfers: TransferSettings;
  known: Pick<Known, 'node'>;
}

/** Bytes a second. `why`: it was not measured, and the reason. */
export interface Benched {
  pools: { [pool: string]: DiskSpeed | { why: string } };
  hash: number;
  wire?: number | { why: string };
}

/** At most this many pools: the whole is to take about ten seconds. */
const MOST_POOLS = 4;
const HASHING = 300;

export class Bench {
  readonly #parts: BenchParts;
  #running = false;

  constructor(parts: BenchParts) {
    this.#parts = parts;
  }

  /** Throws Conflict while another one runs: both would measure half of what there is. */
  async run({ seconds, to }: { seconds: number; to?: string }, signal: AbortSignal): Promise<Benched> {
    if (this.#running) throw new FlockError('Conflict', 'this node is being measured already; try again in some seconds');
    this.#running = true;
    try {
      const hash = await measureHash(this.#parts.clock, HASHING);
      const wire = to === undefined ? {} : { wire: await orWhy(this.#wire(to, seconds * 1000, signal)) };
      return { hash, ...wire, pools: await this.#disks(seconds * 1000, signal) };
    } finally {
      this.#running = false;
    }
  }

  async #disks(ms: number, signal: AbortSignal): Promise<Benched['pools']> {
    const measured: Benched['pools'] = {};
    const all = [...this.#parts.pools.values()];
    const part = ms / Math.max(1, Math.min(all.length, MOST_POOLS));
    for (const pool of all.slice(0, MOST_POOLS)) {
      signal.throwIfAborted();
      measured[pool.name] = await orWhy(this.#disk(pool, part, signal));
    }
    return measured;
  }

  async #disk(pool: Pool, ms: number, signal: AbortSignal): Promise<DiskSpeed> {
    if (pool.type !== 'image' && pool.type !== 'directory')
      throw new FlockError('Unsupported', `a pool of type ${pool.type} has no folder: measure its disks with fio while nothing uses them`);
    await pool.verify();
    return measureDisk(pool.journals, { clock: this.#parts.clock, ms, signal });
  }

  async #wire(to: string, ms: number, signal: AbortSignal): Promise<number> {
    const { known, transfers, clock } = this.#parts;
    const { identity, localAddress } = transfers;
    const source = dialled(to, known.node(to), localAddress);
    return measureWire({ source, identity, clock, signal, ...(localAddress === undefined ? {} : { localAddress }) }, ms);
  }
}

const orWhy = <T>(measured: Promise<T>): Promise<T | { why: string }> => measured.catch((error: unknown) => ({ why: messageOf(error) }));
