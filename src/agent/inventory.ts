// What lies in this node's pools, as last looked at. The agent alone changes its pools, so a look is only repeated after its own acts and
// now and then for what others did. Knows no records.
import { copyName } from '../model/label.ts';
import { messageOf } from '../model/errors.ts';
import type { Copy, CopyName, Pool, Unlabelled } from '../pools/pool.ts';

export interface FoundCopy extends Copy {
  pool: Pool;
}

/** Of its own: a raw block volume has none, a directory is part of its pool's. */
export const hasFilesystem = ({ label, pool }: FoundCopy): boolean => label.volumeMode === 'Filesystem' && !pool.openTree;

/** A copy whose label cannot be read. */
export interface FoundUnlabelled extends Unlabelled {
  pool: Pool;
}

export interface Inventory {
  /** Copies of all readable pools. */
  copies(): Promise<FoundCopy[]>;
  unlabelled(): Promise<FoundUnlabelled[]>;
  /** Names of pools that could be read: what they do not show is not there. */
  readable(): Promise<ReadonlySet<string>>;
  problems(): Promise<ReadonlyMap<string, string>>;
  foreign(pool: string): Promise<string[]>;
  /** Something was changed on the disk: look again next time. */
  touched(pool: string): void;
}

interface Seen {
  copies: FoundCopy[];
  unlabelled: FoundUnlabelled[];
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
    unlabelled: async () => (await all()).flatMap(([, { unlabelled }]) => unlabelled),
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
    const { copies, unlabelled, foreign } = await pool.scan();
    const here = <T>(each: T): T & { pool: Pool } => ({ ...each, pool });
    return { copies: copies.map(here), unlabelled: unlabelled.map(here), foreign, problem: null };
  } catch (error) {
    return { copies: [], unlabelled: [], foreign: [], problem: messageOf(error) };
  }
}

/** What is wrong with single copies, by name. */
export async function damages(of: Inventory): Promise<Map<CopyName, { pool: string; damage: string }>> {
  const all = [...(await of.copies()), ...(await of.unlabelled())];
  return new Map(all.flatMap(({ name, pool, damage }) => (damage === undefined ? [] : [[name, { pool: pool.name, damage }]])));
}

export const nameOf = (volumeUid: string, copy: string): CopyName => copyName({ volumeUid, copy });
