// After the commit: the target's bytes as they were then against the source's kept copy, leaf by leaf. What differs is judged by the hash
// that both had agreed on: only what is proven wrong at the target, and was not overwritten since, is written anew from the source. Runs
// beside the application.
import { alignedBuffer, giveBack } from '../host/aligned.ts';
import { FlockError, messageOf } from '../model/errors.ts';
import type { BlockHandle, PointName } from '../pools/pool.ts';
import { inBackground } from './background.ts';
import { differences, everyLeaf, spansOfLeaves, type Difference } from './comparing.ts';
import { using } from './disk.ts';
import type { Header } from './frame.ts';
import { hashing } from './hashing.ts';
import { LEAF, LeafTable } from './leaves.ts';
import { Meter } from './meter.ts';
import { SourceLink } from './source-link.ts';
import { BLOCK, DataMap, spansOf, type Span } from './spans.ts';
import { dataOf, hashInto, withHandle } from './target-copy.ts';
import { rawBytes } from './payload.ts';
import type { PullOptions, ScrubReport } from './transfer.ts';
import { scrubTree } from './tree/scrub.ts';
import { witnessOf } from './witness.ts';

/** `point`: the target's, frozen at the commit. Throws InUse when something is to be repaired that the pool does not let anybody write now; the rest as pullRound. */
export function scrub(options: PullOptions, point: PointName): Promise<ScrubReport> {
  return inBackground(options, (held) => scrubHeld(held, point));
}

async function scrubHeld(options: PullOptions, point: PointName): Promise<ScrubReport> {
  options.signal.throwIfAborted();
  await options.target.pool.verify();
  if (options.target.pool.openTree) return scrubTree(options);
  const link = await SourceLink.dial(options);
  try {
    return await scrubbed(options, point, link);
  } finally {
    await link.close();
  }
}

async function scrubbed(options: PullOptions, point: PointName, link: SourceLink): Promise<ScrubReport> {
  const { target, clock, onProgress } = options;
  const { manifest } = await link.prepare({ round: 0, final: false, compare: true, base: null });
  const { deviceBytes, settled } = manifest.head;
  if (!settled) throw new FlockError('Conflict', 'the source does not hold its copy still: there is nothing to scrub against');
  const table = new LeafTable(deviceBytes);
  const meter = new Meter(0, clock, onProgress);
  meter.total = deviceBytes;
  meter.turnTo('verifying');
  const data = await dataOf(target, deviceBytes, point);
  return using(await target.pool.open(target.copy, point, 'read'), async (committed) => {
    if (Number(committed.size) < deviceBytes)
      throw new FlockError('Conflict', `point ${point} of copy ${target.copy} has ${committed.size} bytes, the source ${deviceBytes}`);
    const different = await differences(everyLeaf(table), {
      link,
      table,
      hash: (leaves) => hashInto(table, leaves, { handle: target.paced?.(committed) ?? committed, data, stop: link.ended }),
      onLeaves: (count) => {
        meter.done += count * LEAF;
        meter.tell();
      },
    });
    const { wrong, rotten, unproven } = await judged(options, table, different);
    const mended =
      wrong.length === 0 ? { repaired: 0, overwritten: 0 } : await mend(options, { point, link, committed, deviceBytes, different: wrong });
    return { leaves: table.count, ...mended, rotten, unproven, root: await link.root(table.root()) };
  });
}

interface Judged {
  /** Wrong at the target. */
  wrong: Difference[];
  /** Wrong at the source. */
  rotten: number;
  unproven: number;
}

/** Two copies that differ do not say which of them is right; what both agreed on when it was copied does. */
async function judged({ target, hello, log }: PullOptions, table: LeafTable, different: readonly Difference[]): Promise<Judged> {
  const verdict: Judged = { wrong: [], rotten: 0, unproven: 0 };
  if (different.length === 0) return verdict;
  const { pool, copy } = target;
  const expected = await witnessOf({ pool, copy, moveUid: hello.moveUid, deviceBytes: table.deviceBytes });
  for (const one of different) {
    const hash = expected(one.leaf);
    if (hash?.equals(one.theirs)) verdict.wrong.push(one);
    else if (hash?.equals(table.get(one.leaf))) verdict.rotten += 1;
    else verdict.unproven += 1;
  }
  log.warn(
    { copy, wrong: verdict.wrong.length, rotten: verdict.rotten, unproven: verdict.unproven },
    'the moved volume and what the source kept differ',
  );
  return verdict;
}

interface Mending {
  point: PointName;
  link: SourceLink;
  /** The target's bytes at the point. */
  committed: BlockHandle;
  deviceBytes: number;
  different: readonly Difference[];
}

async function mend(options: PullOptions, mending: Mending): Promise<{ repaired: number; overwritten: number }> {
  const { target, crash } = options;
  const counts = { repaired: 0, overwritten: 0 };
  const fetched = new Fetched(mending.link);
  try {
    await withHandle(target, 'write', async (live) => {
      for (const span of spansOfLeaves(mending.different, mending.deviceBytes)) {
        const repaired = await mendLeaf(options, mending, { live, span, right: await fetched.leaf(span) });
        counts[repaired ? 'repaired' : 'overwritten'] += 1;
        crash('transfer.scrub.repaired');
      }
      await live.sync();
    });
  } catch (error) {
    if (!(error instanceof FlockError) || error.reason !== 'InUse') throw error;
    throw new FlockError(
      'InUse',
      `${mending.different.length} leaves differ from what the source kept and can only be repaired while the volume is not in use: ${messageOf(error)}`,
      { cause: error },
    );
  } finally {
    fetched.close();
  }
  return counts;
}

/** Writes what was wrong at the point already, and only that: what was overwritten since is the application's. False when all of it was. */
async function mendLeaf(
  { target }: PullOptions,
  { point, committed }: Mending,
  at: { live: BlockHandle; span: Span; right: Buffer },
): Promise<boolean> {
  const { live, span, right } = at;
  const wrong = alignedBuffer(LEAF);
  const block = alignedBuffer(BLOCK);
  let repaired = false;
  try {
    await committed.read(wrong.subarray(0, span.length), BigInt(span.offset));
    // Asked for as late as can be: the application may be writing.
    const since = await spansOf(target.pool.changed(target.copy, point, 'live'), Number.MAX_SAFE_INTEGER);
    const overwritten = new DataMap(since.map((one) => ({ ...one, zero: false })));
    for (let offset = 0; offset < span.length; offset += BLOCK) {
      const length = Math.min(BLOCK, span.length - offset);
      const bytes = right.subarray(offset, offset + length);
      if (bytes.equals(wrong.subarray(offset, offset + length)) || overwritten.meets(span.offset + offset, length)) continue;
      bytes.copy(block);
      await live.write(block.subarray(0, length), BigInt(span.offset + offset));
      repaired = true;
    }
  } finally {
    giveBack(wrong);
    giveBack(block);
  }
  return repaired;
}

/** Single leaves of the source, one after the other. */
class Fetched {
  readonly #link: SourceLink;
  readonly #buffer = alignedBuffer(LEAF);

  constructor(link: SourceLink) {
    this.#link = link;
  }

  /** Its bytes, valid until the next is fetched. Throws Corrupt when they do not match their hash. */
  async leaf({ offset, length }: Span): Promise<Buffer> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const link = this.#link;
    const bytes = this.#buffer.subarray(0, length);
    link.blocks = {
      place: (of: Header) => {
        if (of.offset !== offset || of.rawLen !== length) throw new FlockError('Corrupt', 'a block came that nobody asked for');
        return bytes.subarray(0, of.wireLen);
      },
      frame: (of: Header) => {
        if (rawBytes(of, bytes).length === 0) bytes.fill(0);
        if (hashing.digest(bytes).equals(of.hash)) resolve();
        else reject(new FlockError('Corrupt', `${length} bytes at ${offset} came with bytes that do not match their hash`));
      },
    };
    const stop = (): void => reject(link.ended.reason);
    link.ended.addEventListener('abort', stop, { once: true });
    if (link.ended.aborted) stop();
    try {
      link.request([{ req: 0, length, pieces: [{ offset, length, zero: false }] }]);
      await promise;
    } finally {
      link.ended.removeEventListener('abort', stop);
      link.blocks = null;
    }
    return bytes;
  }

  close(): void {
    // A frame may still be on its way into the buffer when the connection broke: it is not given back.
    if (!this.#link.ended.aborted) giveBack(this.#buffer);
  }
}
