// What lies in this node's pools, as last looked at. The agent alone changes its pools, so a look is only repeated after its own acts and
// now and then for what others did. Knows no records.
import { copyName } from '../model/label.ts';
import { messageOf } from '../model/errors.ts';
import type { Copy, CopyName, Pool } from '../pools/pool.ts';

export interface FoundCopy extends Copy {
  pool: Pool;
}

export interface Inventory {
  /** Copies of all readable pools. */
  copies(): Promise<FoundCopy[]>;
  /** Names of pools that could be read: what they do not show is not there. */
  readable(): Promise<ReadonlySet<string>>;
  problems(): Promise<ReadonlyMap<string, string>>;
  foreign(pool: string): Promise<string[]>;
  /** Something was changed on the disk: look again next time. */
  touched(pool: string): void;
}

interface Seen {
  copies: FoundCopy[];
  foreign: string[];
  problem: string | null;
}

/** `unopened`: pools that could not even be opened, with the reason. */
export function inventory(pools: ReadonlyMap<string, Pool>, unopened: ReadonlyMap<string, { message: string }> = new Map()): Inventory {
  const seen = new Map<string, Promise<Seen>>();
  const look = (pool: Pool): Promise<Seen> => {
    const known = seen.get(pool.name) ?? scan(pool);
    seen.set(pool.name, known);
    return known;
  };
  const all = async (): Promise<[string, Seen][]> =>
    Promise.all([...pools.values()].map(async (pool) => [pool.name, await look(pool)] as [string, Seen]));
  return {
    copies: async () => (await all()).flatMap(([, { copies }]) => copies),
    readable: async () => new Set((await all()).filter(([, { problem }]) => problem === null).map(([name]) => name)),
    problems: async () => {
      const seen = (await all()).flatMap(([name, { problem }]) => (problem === null ? [] : [[name, problem] as const]));
      return new Map([...[...unopened].map(([name, { message }]) => [name, message] as const), ...seen]);
    },
    foreign: async (name) => (await all()).find(([pool]) => pool === name)?.[1].foreign ?? [],
    touched: (pool) => {
      seen.delete(pool);
    },
  };
}

/** A pool that is not the one it was shows nothing: neither copies nor their absence. */
async function scan(pool: Pool): Promise<Seen> {
  try {
    await pool.verify();
    const { copies, foreign } = await pool.scan();
    return { copies: copies.map((copy) => ({ ...copy, pool })), foreign, problem: null };
  } catch (error) {
    return { copies: [], foreign: [], problem: messageOf(error) };
  }
}

export const nameOf = (volumeUid: string, copy: string): CopyName => copyName({ volumeUid, copy });
