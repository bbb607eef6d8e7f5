// Proves that what was copied is on the target's disk, by reading it back: against the hashes of the frames, or leaf by leaf against the
// source's own hashes and then root against root. What differs is pulled again, a few times. Knows no journal.
import { FlockError } from '../model/errors.ts';
import { BlockPlan } from './block-plan.ts';
import { differences, everyLeaf, spansOfLeaves } from './comparing.ts';
import { readEach, type Pieced } from './disk.ts';
import { hashing } from './hashing.ts';
import { LEAF, leafLength, type LeafTable } from './leaves.ts';
import type { SourceLink } from './source-link.ts';
import { endOf, leavesOf, splitAtLeaves, type Span } from './spans.ts';
import { zeroHash } from './leaves.ts';
import { dataOf, hashInto, withHandle } from './target-copy.ts';
import type { Log } from '../api/log.ts';
import type { PullOptions } from './transfer.ts';

/** How often what differs is pulled again before the disk or the source is given up. */
const REPAIRS = 3;

export interface ProvingParts {
  link: SourceLink;
  target: PullOptions['target'];
  deviceBytes: number;
  log: Log;
  /** Copies a plan whose blocks may hold anything at the target, without recording it. */
  pullAgain: (plan: BlockPlan) => Promise<void>;
}

/** Every block of the plan, and what it zeroed, reads as it was sent. Throws Corrupt when it stays different. */
export async function proveByFrames(parts: ProvingParts, plan: BlockPlan): Promise<void> {
  for (let repairs = 0; ; repairs += 1) {
    const different = await differingBlocks(parts, plan);
    if (different.length === 0) break;
    giveUpAfter(repairs, `${different.length} blocks of the target`);
    parts.log.warn({ blocks: different.length }, 'what was read back is not what was sent: it is pulled again');
    for (const block of different) plan.setUndone(block);
    await parts.pullAgain(plan);
  }
  await proveZeros(parts, plan);
}

async function differingBlocks({ target, link }: ProvingParts, plan: BlockPlan): Promise<number[]> {
  const different: number[] = [];
  const blocks = function* (): Generator<Pieced & { block: number }> {
    for (let block = 0; block < plan.count; block += 1)
      if (!plan.isProven(block)) yield { offset: plan.offset(block), length: plan.length(block), pieces: plan.pieces(block), block };
  };
  await withHandle(target, 'read', (handle) =>
    readEach(
      handle,
      blocks(),
      ({ block }, bytes) => {
        if (!hashing.digest(bytes).equals(plan.hash(block))) different.push(block);
      },
      link.ended,
    ),
  );
  return different.sort((a, b) => a - b);
}

/** What was zeroed reads as zeros; where the pool has nothing allocated, it does by the pool's own map. */
async function proveZeros({ target, link, deviceBytes }: ProvingParts, plan: BlockPlan): Promise<void> {
  if (plan.zeros.length === 0) return;
  const data = await dataOf(target, deviceBytes);
  const blocks = [...splitAtLeaves(plan.zeros)].filter(({ offset, length }) => data.meets(offset, length));
  const check = (span: Span, bytes: Buffer): void => {
    if (!hashing.digest(bytes).equals(zeroHash(span.length)))
      throw new FlockError(
        'Corrupt',
        `the target reads other bytes than zeros from ${span.offset} to ${endOf(span)}, which were zeroed; check its disk`,
      );
  };
  await withHandle(target, 'read', (handle) => readEach(handle, blocks, check, link.ended));
}

/**
 * Source and target agree leaf by leaf in what was copied, and in their roots: this root. `table` holds the target's leaves that are known
 * from before; the others are read from the disk, unless they were while it was copied. When the roots differ all the same, everything is compared. Throws Corrupt.
 */
export async function proveByRoot(
  parts: ProvingParts,
  table: LeafTable,
  copied: { spans: readonly Span[]; blocks: BlockPlan },
): Promise<string> {
  const { link, log } = parts;
  let doubtful = leavesOf(copied.spans);
  for (const leaf of doubtful) table.forget(leaf);
  rememberProven(table, copied.blocks);
  for (let repairs = 0; ; repairs += 1) {
    const different = await compared(parts, table, doubtful);
    if (different.length === 0) {
      const root = table.root();
      if ((await link.root(root)) === root) return root;
      giveUpAfter(repairs, 'the roots of source and target');
      log.warn({}, 'the roots differ: every leaf is compared');
      doubtful = everyLeaf(table);
    } else {
      giveUpAfter(repairs, `${different.length} leaves of the target`);
      log.warn({ leaves: different.length }, 'what was read back is not what the source has: it is pulled again');
      await parts.pullAgain(new BlockPlan(spansOfLeaves(different, table.deviceBytes)));
    }
    for (const leaf of different.length === 0 ? doubtful : different.map((one) => one.leaf)) table.forget(leaf);
  }
}

/** Whole leaves that were read back already. */
function rememberProven(table: LeafTable, blocks: BlockPlan): void {
  for (let block = 0; block < blocks.count; block += 1) {
    const leaf = Math.floor(blocks.offset(block) / LEAF);
    const whole = blocks.pieces(block).length === 1 && blocks.length(block) === leafLength(leaf, table.deviceBytes);
    if (whole && blocks.isProven(block)) table.set(leaf, blocks.hash(block));
  }
}

async function compared(parts: ProvingParts, table: LeafTable, doubtful: readonly number[]): ReturnType<typeof differences> {
  const { link, target } = parts;
  const data = await dataOf(target, table.deviceBytes);
  return withHandle(target, 'read', async (handle) => {
    const from = { handle, data, stop: link.ended };
    await hashInto(table, table.unknown(), from);
    return differences(doubtful, { link, table, hash: async () => {}, onLeaves: () => {} });
  });
}

function giveUpAfter(repairs: number, what: string): void {
  if (repairs >= REPAIRS) throw new FlockError('Corrupt', `${what} still differ after ${REPAIRS} repairs: check the disks of both nodes`);
}
