// Where a volume may lie: one judgement for new volumes and for the targets of moves. Pure.
import type { Stored } from '../model/meta.ts';
import { humanBytes } from '../model/quantity.ts';
import type { StorageNode } from '../model/storage-node.ts';
import { isDeleting, isReady, type Why } from './observed.ts';

export interface Need {
  pool: string;
  /** Bytes; 0n when the node holds a copy that will be used again. */
  size: bigint;
  /** null: raw block. */
  filesystem: string | null;
}

/** Why this node cannot take it, or null when it can. */
export function whyNot(name: string, node: StorageNode | null, need: Need): Why | null {
  if (!node) return { reason: 'UnknownNode', message: `there is no node "${name}"; flockctl node list shows the nodes` };
  if (isDeleting(node)) return { reason: 'NodeRemoved', message: `node ${name} is being removed; choose another node` };
  if (!isReady(node))
    return { reason: 'NodeNotReady', message: `the agent of node ${name} does not answer; start it, or choose another node` };
  if (node.spec?.unschedulable) return { reason: 'NodeUnschedulable', message: `node ${name} takes no new volumes (spec.unschedulable)` };
  return whyNotPool(name, node, need) ?? whyNotFilesystem(name, node, need.filesystem);
}

function whyNotPool(name: string, node: StorageNode, need: Need): Why | null {
  const pools = node.status?.pools ?? {};
  const pool = pools[need.pool];
  if (!pool)
    return { reason: 'NoPool', message: `node ${name} has no pool "${need.pool}"; it has ${Object.keys(pools).join(', ') || 'none'}` };
  if (!pool.healthy)
    return { reason: 'PoolUnhealthy', message: `pool ${need.pool} of node ${name}: ${pool.obstacle?.message ?? 'not usable now'}` };
  if (pool.free !== undefined && BigInt(pool.free) < need.size)
    return {
      reason: 'NoSpace',
      message: `pool ${need.pool} of node ${name} has room for ${humanBytes(BigInt(pool.free))}, ${humanBytes(need.size)} are needed; free some, or choose another node`,
    };
  return null;
}

function whyNotFilesystem(name: string, node: StorageNode, filesystem: string | null): Why | null {
  if (filesystem === null || node.status?.canMount === false || (node.status?.filesystems ?? []).includes(filesystem)) return null;
  return { reason: 'NoFilesystem', message: `node ${name} cannot mount ${filesystem}: its kernel or its tools lack it` };
}

/** The node with the most room among those that can take it; when none can, why each cannot. */
export function place(nodes: readonly Stored<StorageNode>[], need: Need): { node: string } | Why {
  const judged = nodes.map((node) => ({
    name: node.metadata.name,
    free: freeOf(node, need.pool),
    refusal: whyNot(node.metadata.name, node, need),
  }));
  const [best] = judged
    .filter(({ refusal }) => refusal === null)
    .toSorted((one, other) => (one.free < other.free ? 1 : one.free > other.free ? -1 : 0));
  if (best) return { node: best.name };
  if (judged.length === 0) return { reason: 'NoNode', message: 'no node has registered yet; start an agent' };
  return { reason: 'NoNode', message: `no node can take it: ${judged.map(({ refusal }) => refusal?.message).join('; ')}` };
}

const freeOf = (node: StorageNode, pool: string): bigint => BigInt(node.status?.pools?.[pool]?.free ?? 0);

/** The only pool of the cluster, when there is just one. */
export function onlyPool(nodes: readonly StorageNode[]): string | Why {
  const names = [...new Set(nodes.flatMap((node) => Object.keys(node.status?.pools ?? {})))].toSorted();
  const [first] = names;
  if (first === undefined) return { reason: 'NoPool', message: 'no node has a pool yet' };
  return names.length === 1
    ? first
    : { reason: 'PoolNeeded', message: `the cluster has several pools (${names.join(', ')}): name one in spec.pool` };
}
