// Whether a volume may become larger where it is: asked before a larger size is written into its record. Pure.
import { humanBytes, roundUp } from '../model/quantity.ts';
import type { StorageNode } from '../model/storage-node.ts';
import type { Volume } from '../model/volume.ts';
import { keptIn, type KeptCopy } from './kept.ts';
import { servedCopy, type Why } from './observed.ts';

/** Why it cannot grow to that many bytes on this node, by what the node reports; null when it can, or when nothing is made yet. */
export function whyNotGrow(
  volume: Volume,
  wanted: bigint,
  node: { name: string; record: StorageNode | null; kept?: readonly KeptCopy[] },
): Why | null {
  const { metadata, spec } = volume;
  const size = servedCopy(volume)?.size;
  const pool = poolOf(node.record, spec.pool);
  if (size === undefined || !pool) return null;
  const more = roundUp(wanted, pool.unit) - BigInt(size);
  if (more <= pool.free) return null;
  const hint = keptIn(node.kept ?? [], node.name, spec.pool ?? '');
  return {
    reason: 'NoSpace',
    message: `volume ${metadata.name} cannot grow to ${humanBytes(wanted)}: pool ${spec.pool} of node ${node.name} has room for ${humanBytes(pool.free)}, ${humanBytes(more)} more are needed; free some, or move it to a node with more room: flockctl move ${metadata.name} --to NODE${hint === null ? '' : `; ${hint}`}`,
  };
}

/** null: its room is not known, or has no limit. */
function poolOf(node: StorageNode | null, name = ''): { free: bigint; unit: bigint } | null {
  const { free, unit = 1 } = node?.status?.pools?.[name] ?? {};
  return free === undefined ? null : { free: BigInt(free), unit: BigInt(unit) };
}
