// Where a volume may lie: one judgement for new volumes and for the targets of moves. Pure.
import type { Stored } from '../model/meta.ts';
import type { Move } from '../model/move.ts';
import { humanBytes, parseSize } from '../model/quantity.ts';
import type { PoolStatus, StorageNode } from '../model/storage-node.ts';
import { filesystemOf, type Filesystem, type Volume } from '../model/volume.ts';
import { keptIn, type KeptCopy } from './kept.ts';
import { copiesOf, isDeleting, isReady, phaseOf, servedCopy, type Why } from './observed.ts';

export interface Need {
  pool: string;
  /** Bytes; 0n when the node holds a copy that will be used again. */
  size: bigint;
  /** null: raw block. */
  filesystem: Filesystem | null;
  /** Old copies that moves keep: what may be let go where room is short. */
  kept?: readonly KeptCopy[];
}

/** Why a node cannot take it. Said of one node or of several that are refused for the same cause. */
interface Refusal {
  reason: string;
  says: (who: string) => string;
  /** What of the cause differs from node to node, bytes: the largest is told. */
  room?: bigint;
  /** What else helps at this very node. */
  hint?: string | null;
}

const refusal = (reason: string, says: (who: string) => string): Refusal => ({ reason, says });

/** Why this node cannot take it, or null when it can. */
export function whyNot(name: string, node: StorageNode | null, need: Need): Why | null {
  const found = node
    ? refusalOf(node, need)
    : refusal('UnknownNode', () => `there is no node "${name}"; flockctl node list shows the nodes`);
  return found && { reason: found.reason, message: withHints(found.says(`node ${name}`), [found]) };
}

const withHints = (says: string, refusals: readonly Refusal[]): string => [says, ...refusals.flatMap(({ hint }) => hint ?? [])].join('; ');

function refusalOf(node: StorageNode, need: Need): Refusal | null {
  if (isDeleting(node)) return refusal('NodeRemoved', (who) => `${who} is being removed; choose another node`);
  if (!isReady(node)) return refusal('NodeNotReady', (who) => `the agent of ${who} does not answer; start it, or choose another node`);
  if (node.spec?.drain) return refusal('NodeDrained', (who) => `${who} is being drained; choose another node`);
  if (node.spec?.unschedulable) return refusal('NodeUnschedulable', (who) => `${who} takes no new volumes (spec.unschedulable)`);
  return refusalOfPool(node, need) ?? refusalOfFilesystem(node, ownFilesystem(node, need));
}

function refusalOfPool(node: StorageNode, need: Need): Refusal | null {
  const pools = node.status?.pools ?? {};
  const pool = pools[need.pool];
  const others = Object.keys(pools).toSorted().join(', ');
  if (!pool) return refusal('NoPool', (who) => `${who} has no pool "${need.pool}"; it has ${others || 'none'}`);
  const unusable = pool.obstacle?.message ?? 'not usable now';
  if (!pool.healthy) return refusal('PoolUnhealthy', (who) => `pool ${need.pool} of ${who}: ${unusable}`);
  const blocks = refusalOfBlocks(pool, need);
  if (blocks) return blocks;
  return fits(pool, need.size) ? null : withoutRoom(node.metadata.name, BigInt(pool.free ?? 0), need);
}

function refusalOfBlocks({ type }: PoolStatus, { pool, filesystem }: Need): Refusal | null {
  if (type !== 'directory' || filesystem !== null) return null;
  return refusal(
    'NoBlocks',
    (who) => `pool ${pool} of ${who} holds directories, and this is a raw block volume; use a pool of another type`,
  );
}

/** A directory is part of its pool's filesystem. */
const ownFilesystem = (node: StorageNode, { pool, filesystem }: Need): Filesystem | null =>
  node.status?.pools?.[pool]?.type === 'directory' ? null : filesystem;

const fits = ({ free }: PoolStatus, size: bigint): boolean => free === undefined || BigInt(free) >= size;

const withoutRoom = (name: string, room: bigint, { pool, size, kept = [] }: Need): Refusal => ({
  reason: 'NoSpace',
  room,
  hint: keptIn(kept, name, pool),
  says: (who) =>
    `pool ${pool} of ${who} has room for ${humanBytes(room)}, ${humanBytes(size)} are needed; free some, or choose another node`,
});

function refusalOfFilesystem(node: StorageNode, filesystem: Filesystem | null): Refusal | null {
  if (filesystem === null || node.status?.canMount === false || (node.status?.filesystems ?? []).includes(filesystem)) return null;
  return refusal('NoFilesystem', (who) => `${who} cannot mount ${filesystem}: its kernel or its tools lack it`);
}

/** A superseded copy of this volume on the node: a move there sends only what differs. One that holds snapshots is not written. */
export function reusableCopy(volume: Volume, target: string): string | null {
  const found = Object.entries(copiesOf(volume)).find(
    ([, copy]) => copy.node === target && copy.role === 'stale' && copy.pool === volume.spec.pool && !copy.snapshots?.length,
  );
  return found ? found[0] : null;
}

/** What a move of the volume to that node needs there. */
export function needToMove(volume: Volume, target: string, kept: readonly KeptCopy[] = []): Need {
  const size = BigInt(servedCopy(volume)?.size ?? parseSize(volume.status?.capacity ?? volume.spec.size));
  return {
    pool: volume.spec.pool ?? '',
    size: reusableCopy(volume, target) === null ? size : 0n,
    filesystem: filesystemOf(volume.spec),
    kept,
  };
}

/**
 * The node with the most room among those that can take it; when none can, why each cannot. `refusedBy`: nodes that were asked before and
 * said no.
 */
export function place(
  nodes: readonly Stored<StorageNode>[],
  need: Need | ((node: string) => Need),
  refusedBy: readonly string[] = [],
): { node: string } | Why {
  const judged = nodes.map((node) => {
    const { name } = node.metadata;
    const here = typeof need === 'function' ? need(name) : need;
    return {
      name,
      free: freeOf(node, here.pool),
      refusal: refusalOf(node, here) ?? (refusedBy.includes(name) ? REFUSED : null),
    };
  });
  const [best] = judged
    .filter((each) => each.refusal === null)
    .toSorted((one, other) => (one.free < other.free ? 1 : one.free > other.free ? -1 : byName(one.name, other.name)));
  if (best) return { node: best.name };
  if (judged.length === 0) return { reason: 'NoNode', message: 'no node has registered yet; start an agent' };
  const refusals = judged.flatMap(({ name, refusal: why }) => (why === null ? [] : [{ name, refusal: why }]));
  return { reason: 'NoNode', message: `no node can take it: ${allOf(refusals)}` };
}

const REFUSED = refusal('Refused', (who) => `${who} was asked and had no room`);

const freeOf = (node: StorageNode, pool: string): bigint => BigInt(node.status?.pools?.[pool]?.free ?? 0);

/** node-10 comes after node-9. */
const byName = (one: string, other: string): number => one.localeCompare(other, 'en', { numeric: true });

/** More than a person reads; and a record's message has a limit. */
const MOST_CAUSES = 5;
const MOST_NODES = 8;

/** Each cause once, with the nodes it is true of, in the nodes' order. */
function allOf(refusals: readonly { name: string; refusal: Refusal }[]): string {
  const sorted = refusals.toSorted((one, other) => byName(one.name, other.name));
  const causes = [...Map.groupBy(sorted, ({ refusal: { reason, room, says } }) => (room === undefined ? says('') : reason)).values()];
  const told = causes.slice(0, MOST_CAUSES).map(toldOf);
  const untold = causes.slice(MOST_CAUSES).flat().length;
  return [...told, ...(untold > 0 ? [`and ${untold} more, for other causes`] : [])].join('; ');
}

const toldOf = (group: readonly { name: string; refusal: Refusal }[]): string =>
  withHints(
    widest(group).says(namesOf(group.map(({ name }) => name))),
    group.slice(0, MOST_CAUSES).map((each) => each.refusal),
  );

const widest = (group: readonly { refusal: Refusal }[]): Refusal =>
  group.map((each) => each.refusal).reduce((best, each) => ((each.room ?? 0n) > (best.room ?? 0n) ? each : best));

function namesOf(names: readonly string[]): string {
  if (names.length === 1) return `node ${names[0]}`;
  const more = names.length - MOST_NODES;
  return `each of ${names.slice(0, MOST_NODES).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

const poolsNamed = (nodes: readonly StorageNode[], pool: string): PoolStatus[] => nodes.flatMap((node) => node.status?.pools?.[pool] ?? []);

/** Volumes of that pool are directories: parts of its own filesystem, wherever it is. */
export function holdsDirectories(nodes: readonly StorageNode[], pool: string): boolean {
  const pools = poolsNamed(nodes, pool);
  return pools.length > 0 && pools.every(({ type }) => type === 'directory');
}

/**
 * The pool of a volume that names none: the only one of the cluster, or the only one that holds block devices. Directories have no points in
 * time, and not every filesystem keeps them within their size: among others, such a pool is used by those who name it.
 */
export function usualPool(nodes: readonly StorageNode[]): string | Why {
  const names = [...new Set(nodes.flatMap((node) => Object.keys(node.status?.pools ?? {})))].toSorted();
  if (names.length === 0) return { reason: 'NoPool', message: 'no node has a pool yet' };
  const devices = names.filter((name) => !holdsDirectories(nodes, name));
  const [first, second] = devices.length > 0 ? devices : names;
  return first !== undefined && second === undefined
    ? first
    : { reason: 'PoolNeeded', message: `the cluster has several pools (${names.join(', ')}): name one in spec.pool` };
}

/** Room that was given away and is in no node's report yet: the agent reports its pools before it reports a copy as created. */
interface Promised {
  node: string;
  pool: string;
  size: bigint;
}

/**
 * The nodes with what their pools have promised taken off their room. A copy that its node refused for lack of room promises nothing: it
 * would keep others out for which there is room.
 */
export function lessPromised(
  nodes: readonly Stored<StorageNode>[],
  volumes: readonly Stored<Volume>[],
  moves: readonly Stored<Move>[] = [],
): Stored<StorageNode>[] {
  const all = [...volumes.flatMap(promisedOf), ...moves.flatMap((move) => promisedByMove(move, volumes))];
  const promised = Map.groupBy(all, ({ node, pool }) => `${node}/${pool}`);
  return nodes.map((node) => {
    const pools = Object.entries(node.status?.pools ?? {}).map(([name, pool]) => {
      const taken = (promised.get(`${node.metadata.name}/${name}`) ?? []).reduce((sum, { size }) => sum + size, 0n);
      return [name, taken === 0n ? pool : lessened(pool, taken)] as const;
    });
    return { ...node, status: { ...node.status, pools: Object.fromEntries(pools) } };
  });
}

function lessened(pool: PoolStatus, taken: bigint): PoolStatus {
  if (pool.free === undefined) return pool;
  const left = BigInt(pool.free) - taken;
  return { ...pool, free: String(left > 0n ? left : 0n) };
}

function promisedOf(volume: Volume): Promised[] {
  const { node, pool, copy, size } = volume.spec;
  const served = servedCopy(volume);
  const own = copy && node && pool && !served ? [{ node, pool, size: parseSize(size) }] : [];
  const ordered = Object.entries(copiesOf(volume)).filter(
    ([, entry]) => entry.role === 'ordered' && !entry.created && entry.obstacle?.reason !== 'NoSpace',
  );
  return [
    ...own,
    ...ordered.map(([id, entry]) => ({
      node: entry.node,
      pool: entry.pool,
      size: id === copy ? parseSize(size) : BigInt(served?.size ?? 0),
    })),
  ];
}

/** One that is not accepted yet has nothing on its target that would be counted. */
function promisedByMove(move: Stored<Move>, volumes: readonly Stored<Volume>[]): Promised[] {
  const volume = volumes.find(({ metadata }) => metadata.name === move.spec.volume);
  if (!volume || phaseOf(move) !== 'Pending') return [];
  const { pool, size } = needToMove(volume, move.spec.target);
  return [{ node: move.spec.target, pool, size }];
}
