// Rounds and scrubs of the simulation, in the order of writes of the shipped transfer (docs/moves.md, "A round"), without sockets and hashes:
// blocks are compared by their bytes. Trusts what the shipped one trusts, so that a lost or a stale byte gets through here as there.
import type { Transfer } from '../agent/ports.ts';
import { roundPoint } from '../model/points.ts';
import { FlockError, isReason } from '../model/errors.ts';
import type { BlockHandle, CopyName, Pool } from '../pools/pool.ts';
import type { Offer, PullOptions, RoundOrder, RoundReport } from '../transfer/transfer.ts';
import { newJournal, stateOf, type Begun, type Journal } from './journal.ts';
import { BLOCK } from './blocks.ts';
import { scrubTree, TreePull } from './pull-tree.ts';
import { EXTENT, RATE, SYNC, type PullParts, type Round } from './round.ts';
import type { Link } from './wire.ts';

export function transferOf(parts: PullParts): Transfer {
  const { machine, life } = parts;
  const { journals } = machine;
  return {
    pullRound: (options, order) => pullRound(parts, options, order),
    checkCarried: async () => {},
    scrub: (options, point) => scrub(parts, options, point),
    readJournal: async (_pool, copy) => {
      await life.pause();
      const journal = journals.get(copy);
      return journal ? stateOf(journal) : null;
    },
    dropJournal: async (_pool, copy) => {
      await life.pause();
      journals.delete(copy);
    },
  };
}

async function pullRound(parts: PullParts, options: PullOptions, order: RoundOrder): Promise<RoundReport> {
  const { signal, target, crash } = options;
  signal.throwIfAborted();
  await target.pool.verify();
  const journal = await openJournal(parts, options);
  crash('transfer.journal.made');
  const before = reportedBefore(journal, order);
  if (before) return before;
  const link = await dial(parts, options);
  try {
    const round = { ...parts, options, order, journal, link };
    return await (target.pool.openTree ? new TreePull(round) : new Pull(round)).round();
  } finally {
    link.end(null);
  }
}

const dial = ({ wires, machine, life }: PullParts, { source, hello, signal }: PullOptions): Promise<Link> =>
  wires.dial({ node: machine.name, life, signal }, source, hello);

async function openJournal({ machine, life }: PullParts, { hello, target }: PullOptions): Promise<Journal> {
  await life.pause();
  const there = machine.journals.get(target.copy);
  if (there?.moveUid === hello.moveUid && there.epoch === hello.epoch) return there;
  const made = newJournal(hello.moveUid, hello.epoch, !there && target.fresh && (await isEmpty(target)));
  machine.journals.set(target.copy, made);
  return made;
}

async function isEmpty({ pool, copy }: { pool: Pool; copy: CopyName }): Promise<boolean> {
  // Of a directory nothing is skipped: it is looked at.
  if (pool.openTree) return false;
  for await (const { kind } of pool.changed(copy, null, 'live')) if (kind === 'DATA') return false;
  return true;
}

function reportedBefore({ completed }: Journal, order: RoundOrder): RoundReport | null {
  if (!completed || order.round > completed.report.round) return null;
  const same = order.round === completed.report.round;
  if (same && order.final === completed.final) return completed.report;
  if (same && order.final) return null;
  throw new FlockError('Conflict', `round ${order.round} was asked for, but round ${completed.report.round} is complete already`);
}

// ---- at the source -------------------------------------------------------------------------------------------------------------

interface Manifest {
  point: string;
  mode: Begun['mode'];
  settled: boolean;
  /** Blocks to ask for; of a comparison all that hold something. */
  blocks: bigint[];
  size: bigint;
  allocated: bigint;
}

interface Question extends RoundOrder {
  compare: boolean;
  base: number | null;
}

class Source {
  readonly #offer: Offer;
  readonly #moveUid: string;
  readonly #crash: (point: string) => void;

  constructor(link: Link) {
    this.#offer = link.offer as Offer;
    this.#moveUid = link.hello.moveUid;
    this.#crash = (point) => link.source?.crash(point);
  }

  async prepare(question: Question): Promise<Manifest> {
    const { pool, copy, fenced } = this.#offer;
    const point = await this.#freeze(question);
    const settled = point !== 'live' || fenced;
    const allocation = await blocksOf(pool, copy, null, point);
    const handle = await pool.open(copy, point, 'read');
    const common = { point, settled, size: handle.size, allocated: BigInt(allocation.length * BLOCK) };
    await handle.close();
    const delta = question.base === null || question.compare ? null : await this.#delta(question.base, point);
    if (delta) return { ...common, mode: 'delta', blocks: delta };
    const mode = question.base === null && !question.compare ? 'full' : 'hash';
    return { ...common, mode, blocks: allocation };
  }

  async #freeze({ round, final }: Question): Promise<string> {
    const { pool, copy, fenced, flush } = this.#offer;
    await pool.verify();
    if (final && !fenced) throw new FlockError('Conflict', `the copy ${copy} is not fenced here`);
    if (final) return 'live';
    await flush?.();
    if (!pool.points) return 'live';
    this.#crash('transfer.source.freeze');
    await pool.freeze(copy, roundPoint(this.#moveUid, round));
    this.#crash('transfer.source.frozen');
    return roundPoint(this.#moveUid, round);
  }

  async #delta(base: number, point: string): Promise<bigint[] | null> {
    const { pool, copy } = this.#offer;
    if (!pool.points) return null;
    try {
      return await blocksOf(pool, copy, roundPoint(this.#moveUid, base), point);
    } catch (error) {
      if (isReason(error, 'NotFound')) return null;
      throw error;
    }
  }

  async read(point: string, blocks: readonly bigint[]): Promise<Buffer[]> {
    const { pool, copy } = this.#offer;
    const handle = await pool.open(copy, point, 'read');
    try {
      return await readAll(handle, blocks);
    } finally {
      await handle.close();
    }
  }

  async dirty(point: string): Promise<bigint | null> {
    const { pool, copy, flush } = this.#offer;
    if (point === 'live') return null;
    await flush?.();
    return BigInt((await blocksOf(pool, copy, point, 'live')).length * BLOCK);
  }

  async releaseBefore(round: number): Promise<void> {
    const { pool, copy } = this.#offer;
    const { copies } = await pool.scan();
    const mine = new Set(Array.from({ length: round }, (_, earlier) => roundPoint(this.#moveUid, earlier)));
    for (const point of copies.find(({ name }) => name === copy)?.points ?? []) {
      if (!mine.has(point)) continue;
      this.#crash('transfer.source.release');
      await pool.release(copy, point);
      this.#crash('transfer.source.released');
    }
  }
}

async function blocksOf(pool: Pool, copy: CopyName, from: string | null, to: string): Promise<bigint[]> {
  const blocks: bigint[] = [];
  for await (const { offset, length } of pool.changed(copy, from, to))
    for (let at = offset; at < offset + length; at += BigInt(BLOCK)) blocks.push(at);
  return blocks;
}

async function readAll(handle: BlockHandle, blocks: readonly bigint[]): Promise<Buffer[]> {
  const read: Buffer[] = [];
  for (const block of blocks) {
    const buffer = Buffer.alloc(BLOCK);
    // A target that is longer than its source has blocks that the source does not have.
    if (block < handle.size) await handle.read(buffer, block);
    read.push(buffer);
  }
  return read;
}

// ---- at the target -------------------------------------------------------------------------------------------------------------

class Pull {
  readonly #round: Round;
  readonly #source: Source;
  #sent = 0n;
  #resumed = 0n;

  constructor(round: Round) {
    this.#round = round;
    this.#source = new Source(round.link);
  }

  async round(): Promise<RoundReport> {
    const { options } = this.#round;
    const manifest = await this.#plan();
    await this.#copy(manifest);
    options.crash('transfer.round.copied');
    await this.#prove(manifest);
    options.crash('transfer.round.compared');
    const report = await this.#complete(manifest);
    await this.#releaseEarlier();
    return report;
  }

  /** Whatever a call or the disk answers, somebody may have ended this meanwhile. */
  async #go<T>(work: Promise<T>): Promise<T> {
    const value = await work;
    this.#round.options.signal.throwIfAborted();
    return value;
  }

  async #ask(compare: boolean): Promise<Manifest> {
    const { link, order, journal, options } = this.#round;
    const { completed } = journal;
    const base = completed && !completed.final ? completed.report.round : null;
    const manifest = await this.#go(link.call(() => this.#source.prepare({ ...order, compare, base })));
    if (order.final && !manifest.settled) throw new FlockError('Corrupt', 'the source offers bytes that may still change');
    const { pool, copy } = options.target;
    const handle = await this.#go(pool.open(copy, 'live', 'read'));
    await handle.close();
    if (handle.size < manifest.size) throw new FlockError('NoSpace', `copy ${copy} is smaller than the volume: grow it first`);
    return manifest;
  }

  async #plan(): Promise<Manifest> {
    const { journal, order } = this.#round;
    const { begun, completed } = journal;
    const manifest = await this.#ask(mustCompare(journal));
    const text = JSON.stringify([manifest.mode, manifest.point, manifest.blocks.map(String)]);
    if (begun && isSameRound(begun, order) && manifest.settled && begun.manifest === text) {
      this.#resumed = BigInt(begun.done.size * BLOCK);
      return { ...manifest, blocks: begun.blocks };
    }
    if (manifest.mode === 'hash') return this.#compared(manifest);
    if (begun && isDoubtful(begun, completed)) return this.#compared(await this.#ask(true));
    const kept = new Set([...(begun?.blocks ?? []), ...manifest.blocks]);
    return this.#begin(
      manifest,
      [...kept].toSorted((a, b) => (a < b ? -1 : 1)),
      text,
    );
  }

  /** What an earlier attempt left there is found by comparing everything. */
  async #compared(manifest: Manifest): Promise<Manifest> {
    const { link, options } = this.#round;
    const { pool, copy } = options.target;
    const mine = await this.#go(blocksOf(pool, copy, null, 'live'));
    const all = [...new Set([...mine, ...manifest.blocks])].toSorted((a, b) => (a < b ? -1 : 1));
    const theirs = await this.#go(link.call(() => this.#source.read(manifest.point, all)));
    const handle = await this.#go(pool.open(copy, 'live', 'read'));
    const here = await readAll(handle, all);
    await this.#go(handle.close());
    const different = all.filter((_, index) => !here[index]?.equals(theirs[index] ?? Buffer.alloc(0)));
    return this.#begin({ ...manifest, mode: 'hash' }, different, '');
  }

  async #begin(manifest: Manifest, blocks: bigint[], text: string): Promise<Manifest> {
    const { journal, order, options, life } = this.#round;
    await this.#go(life.pause());
    options.crash('transfer.plan.saved');
    journal.begun = { ...order, manifest: text, mode: manifest.mode, blocks, done: new Set() };
    options.crash('transfer.round.begun');
    return { ...manifest, blocks };
  }

  async #copy(manifest: Manifest): Promise<void> {
    const { journal, options } = this.#round;
    const { pool, copy } = options.target;
    const done = journal.begun?.done ?? new Set();
    const left = manifest.blocks.filter((block) => !done.has(block));
    const handle = await pool.open(copy, 'live', 'write');
    try {
      options.signal.throwIfAborted();
      for (let at = 0; at < left.length; at += SYNC) await this.#copyAndSync(handle, manifest.point, left.slice(at, at + SYNC));
    } finally {
      await handle.close();
    }
  }

  async #copyAndSync(handle: BlockHandle, point: string, blocks: bigint[]): Promise<void> {
    const { options, link, journal, machine } = this.#round;
    for (let at = 0; at < blocks.length; at += EXTENT) {
      const extent = blocks.slice(at, at + EXTENT);
      const bytes = await this.#go(link.call(() => this.#source.read(point, extent)));
      for (const [index, block] of extent.entries()) await this.#write(handle, block, bytes[index] as Buffer);
      options.crash('transfer.block.written');
    }
    await this.#go(handle.sync());
    const live = machine.copy(options.target.copy)?.live;
    if (live) machine.unsynced.delete(live);
    options.crash('transfer.device.synced');
    for (const block of blocks) journal.begun?.done.add(block);
    this.#count(BigInt(blocks.length * BLOCK));
    options.crash('transfer.progress.recorded');
  }

  #count(bytes: bigint): void {
    const { journal, options, order } = this.#round;
    this.#sent += bytes;
    journal.bytesSent += bytes;
    const total = BigInt((journal.begun?.blocks.length ?? 0) * BLOCK);
    const done = BigInt((journal.begun?.done.size ?? 0) * BLOCK);
    options.onProgress({
      round: order.round,
      bytesTotal: total,
      bytesDone: done,
      bytesSent: this.#sent,
      bytesResumed: this.#resumed,
      rate: RATE,
      activity: 'copying',
    });
  }

  /** First the half of it: whoever dies between leaves a torn block. */
  async #write(handle: BlockHandle, block: bigint, bytes: Buffer): Promise<void> {
    const { machine, options, life } = this.#round;
    const live = machine.copy(options.target.copy)?.live;
    if (live) machine.unsafe(live, block / BigInt(BLOCK));
    if (life.chance.happens(0.3)) {
      const torn = Buffer.from(bytes);
      torn.fill(0xff, BLOCK / 2);
      await this.#go(handle.write(torn, block));
    }
    await this.#go(bytes.equals(ZEROS) ? handle.zero(block, BigInt(BLOCK)) : handle.write(bytes, block));
  }

  /** Read back: everything where the source cannot change, what was sent where only that is new. */
  async #prove(manifest: Manifest): Promise<void> {
    const { options, order, link } = this.#round;
    const { pool, copy } = options.target;
    if (!manifest.settled) return;
    const delta = order.final && manifest.mode === 'delta';
    const mine = delta ? [] : await this.#go(blocksOf(pool, copy, null, 'live'));
    const blocks = [...new Set([...mine, ...manifest.blocks])];
    const theirs = await this.#go(link.call(() => this.#source.read(manifest.point, blocks)));
    const handle = await this.#go(pool.open(copy, 'live', 'read'));
    const here = await readAll(handle, blocks);
    await this.#go(handle.close());
    if (blocks.some((_, index) => !here[index]?.equals(theirs[index] ?? Buffer.alloc(0))))
      throw new FlockError('Corrupt', `what was read back of ${copy} is not what was sent`);
  }

  async #complete({ point, allocated, blocks }: Manifest): Promise<RoundReport> {
    const { options, order, journal, link, life } = this.#round;
    options.crash('transfer.leaves.saved');
    const dirty = await this.#go(link.call(() => this.#source.dirty(point)));
    await this.#go(life.pause());
    const bytesTotal = BigInt(blocks.length * BLOCK);
    const report: RoundReport = {
      round: order.round,
      bytesTotal,
      bytesSent: this.#sent,
      bytesResumed: this.#resumed,
      frames: blocks.length,
      allocated,
      dirty,
      root: null,
      rate: RATE,
      verified: order.final ? { round: order.round, epoch: options.hello.epoch, bytes: String(bytesTotal), frames: blocks.length } : null,
    };
    journal.completed = { report, final: order.final };
    journal.begun = null;
    journal.verified = report.verified;
    journal.rounds.push(bytesTotal);
    journal.bytesResumed += this.#resumed;
    options.crash('transfer.round.completed');
    return report;
  }

  async #releaseEarlier(): Promise<void> {
    const { order, link } = this.#round;
    if (order.final) return;
    try {
      await this.#go(link.call(() => this.#source.releaseBefore(order.round)));
    } catch (error) {
      if (!(error instanceof FlockError)) throw error;
    }
  }
}

const ZEROS = Buffer.alloc(BLOCK);

async function scrub(parts: PullParts, options: PullOptions, point: string): ReturnType<Transfer['scrub']> {
  const { target, signal } = options;
  signal.throwIfAborted();
  await target.pool.verify();
  const link = await dial(parts, options);
  try {
    if (target.pool.openTree) return await scrubbedTree(parts, options, link);
    const { fenced } = link.offer as Offer;
    if (!fenced) throw new FlockError('Conflict', 'the source does not hold its copy still');
    return await scrubbedBlocks(parts, { ...options, point }, link);
  } finally {
    link.end(null);
  }
}

async function scrubbedBlocks(parts: PullParts, options: PullOptions & { point: string }, link: Link): ReturnType<Transfer['scrub']> {
  const { target, signal, hello, point } = options;
  const source = new Source(link);
  const { pool, copy } = link.offer as Offer;
  const [here, there] = [await blocksOf(target.pool, target.copy, null, point), await link.call(() => blocksOf(pool, copy, null, 'live'))];
  const blocks = [...new Set([...here, ...there])];
  const theirs = await link.call(() => source.read('live', blocks));
  const handle = await target.pool.open(target.copy, point, 'read');
  const mine = await readAll(handle, blocks);
  await handle.close();
  signal.throwIfAborted();
  const same = blocks.every((_, index) => mine[index]?.equals(theirs[index] ?? Buffer.alloc(0)));
  parts.scrubbed(hello.moveUid, same);
  if (!same) throw new FlockError('Corrupt', `the committed bytes of ${target.copy} are not those of its source`);
  return { leaves: blocks.length, repaired: 0, rotten: 0, unproven: 0, overwritten: 0, root: '' };
}

async function scrubbedTree(parts: PullParts, { target, hello }: PullOptions, link: Link): ReturnType<Transfer['scrub']> {
  const committed = parts.machine.journals.get(target.copy)?.committed;
  if (!committed) throw new FlockError('NotFound', `what was committed of ${target.copy} is not known any more`);
  const { same, report } = await scrubTree(link, committed);
  parts.scrubbed(hello.moveUid, same);
  if (!same) throw new FlockError('Corrupt', `the committed files of ${target.copy} are not those of its source`);
  return report;
}

const isSameRound = (begun: Begun, order: RoundOrder): boolean =>
  begun.round === order.round && begun.final === order.final && begun.mode !== 'hash';

/** What it left on the copy is not all known. */
const isDoubtful = (begun: Begun, completed: { final: boolean } | null): boolean =>
  completed === null || completed.final || begun.mode === 'hash';

/** There is no point that the copy is known to equal. */
function mustCompare({ begun, completed, pristine }: Journal): boolean {
  if (completed) return completed.final;
  return !(pristine && !begun) && begun?.mode !== 'full';
}
