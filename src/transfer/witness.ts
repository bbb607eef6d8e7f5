// What the target's own disk remembers of the bytes that were committed: the leaf hashes that both sides agreed on, and which leaves the last
// delta touched. It says who is right when the two copies differ afterwards. Knows no wire.
import type { CopyName, Pool } from '../pools/pool.ts';
import { keptLeaves, keptPlan } from './journal.ts';
import { LEAF, type LeafTable } from './leaves.ts';
import { decodeManifest, type Manifest } from './manifest.ts';
import { endOf } from './spans.ts';

/** The hash that a leaf had at the commit; null where nothing proves one. */
export type Witness = (leaf: number) => Buffer | null;

const knowsNothing: Witness = () => null;

export async function witnessOf(of: { pool: Pool; copy: CopyName; moveUid: string; deviceBytes: number }): Promise<Witness> {
  const table = await keptLeaves(of.pool, of.copy, of.deviceBytes);
  const encoded = await keptPlan(of.pool, of.copy);
  if (!table || !encoded) return knowsNothing;
  const plan = decodeManifest(encoded);
  const { head } = plan;
  if (!head.final || head.moveUid !== of.moveUid || head.deviceBytes !== of.deviceBytes) return knowsNothing;
  return recalled(table, head.cbt === 'fiemap' ? touched(plan) : new Set());
}

/** A delta was proven extent by extent: of the leaves it touched no whole hash is known. A comparison's table is the committed one. */
function touched({ spans }: Manifest): Set<number> {
  const leaves = new Set<number>();
  for (const span of spans) for (let leaf = Math.floor(span.offset / LEAF); leaf * LEAF < endOf(span); leaf += 1) leaves.add(leaf);
  return leaves;
}

const recalled =
  (table: LeafTable, unknown: ReadonlySet<number>): Witness =>
  (leaf) =>
    unknown.has(leaf) ? null : table.get(leaf);
