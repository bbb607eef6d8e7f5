// A round and a scrub of a directory, in the order of writes of the shipped ones (src/transfer/tree, docs/decisions/0023), without sockets and
// hashes: files are compared by their bytes. What was committed is kept beside the journal, and judged by that.
import type { Transfer } from '../agent/ports.ts';
import { FlockError } from '../model/errors.ts';
import type { CopyName, Pool } from '../pools/pool.ts';
import type { Offer, RoundReport } from '../transfer/transfer.ts';
import type { FolderHandle, Files } from './folders.ts';
import { BLOCK } from './blocks.ts';
import { EXTENT, RATE, SYNC, type Round } from './round.ts';
import type { Link } from './wire.ts';

interface Listed {
  /** Nothing can change while it is read. */
  settled: boolean;
  files: Files;
}

const openFolder = async (pool: Pool, copy: CopyName, mode: 'read' | 'write'): Promise<FolderHandle> =>
  (await pool.openTree?.(copy, mode)) as FolderHandle;

const byNumber = (one: bigint, other: bigint): number => (one < other ? -1 : 1);

const areSame = (one: Files, other: Files): boolean =>
  one.size === other.size && [...one].every(([file, bytes]) => other.get(file)?.equals(bytes));

/** The source's side: it lists once and in order, a part at a time, while its application goes on. */
class TreeSource {
  readonly #link: Link;
  readonly #offer: Offer;

  constructor(link: Link) {
    this.#link = link;
    this.#offer = link.offer as Offer;
  }

  async list(final: boolean): Promise<Listed> {
    const { pool, copy, fenced, flush } = this.#offer;
    const scrubs = this.#link.hello.purpose === 'scrub';
    await pool.verify();
    if ((final || scrubs) && !fenced) throw new FlockError('Conflict', `the copy ${copy} is not fenced here`);
    await flush?.();
    const tree = await openFolder(pool, copy, 'read');
    try {
      const files: Files = new Map();
      for (const file of [...(await tree.look()).keys()].toSorted(byNumber)) {
        const bytes = await tree.read(file);
        if (bytes) files.set(file, bytes);
      }
      this.#crash('tree.source.walked');
      await tree.listed(files);
      this.#crash('tree.source.listed');
      return { settled: fenced && (final || scrubs), files };
    } finally {
      await tree.close();
    }
  }

  async dirty(): Promise<bigint> {
    const { pool, copy, flush } = this.#offer;
    await flush?.();
    const tree = await openFolder(pool, copy, 'read');
    const stray = await tree.stray();
    await tree.close();
    return BigInt(stray * BLOCK);
  }

  #crash(point: string): void {
    this.#link.source?.crash(point);
  }
}

export class TreePull {
  readonly #round: Round;
  readonly #source: TreeSource;
  #sent = 0n;
  #total = 0n;

  constructor(round: Round) {
    this.#round = round;
    this.#source = new TreeSource(round.link);
  }

  async round(): Promise<RoundReport> {
    const { options } = this.#round;
    const tree = await openFolder(options.target.pool, options.target.copy, 'write');
    try {
      options.signal.throwIfAborted();
      await this.#begin();
      const listed = await this.#agreed(tree);
      options.crash('tree.round.agreed');
      return await this.#complete(tree, listed);
    } finally {
      await tree.close();
    }
  }

  async #go<T>(work: Promise<T>): Promise<T> {
    const value = await work;
    this.#round.options.signal.throwIfAborted();
    return value;
  }

  async #begin(): Promise<void> {
    const { journal, order, options, life, link } = this.#round;
    await this.#go(life.pause());
    journal.begun = { ...order, manifest: '', mode: 'full', blocks: [], done: new Set() };
    options.crash('tree.round.begun');
    this.#total = await this.#go(link.call(() => this.#source.dirty()));
  }

  /** Once more when what both have is not the same. */
  async #agreed(tree: FolderHandle): Promise<Listed> {
    const { order, options, link } = this.#round;
    for (let afresh = false; ; afresh = true) {
      const listed = await this.#go(link.call(() => this.#source.list(order.final)));
      if (order.final && !listed.settled) throw new FlockError('Corrupt', 'the source lists a directory that may still change');
      await this.#apply(tree, listed.files);
      const now = await this.#go(tree.look());
      options.crash('tree.round.walked');
      if (!listed.settled || areSame(now, listed.files)) return listed;
      if (afresh) throw new FlockError('Corrupt', 'source and target do not agree on what the directory holds');
    }
  }

  async #apply(tree: FolderHandle, files: Files): Promise<void> {
    const there = await this.#go(tree.look());
    const all = [...new Set([...there.keys(), ...files.keys()])].toSorted(byNumber);
    const different = all.filter((file) => !files.get(file)?.equals(there.get(file) ?? Buffer.alloc(0)));
    for (let at = 0; at < different.length; at += SYNC) {
      for (const file of different.slice(at, at + SYNC)) await this.#applyFile(tree, file, files.get(file) ?? null);
      await this.#checkpoint(tree);
    }
    await this.#checkpoint(tree);
    this.#round.options.crash('tree.round.applied');
  }

  async #applyFile(tree: FolderHandle, file: bigint, bytes: Buffer | null): Promise<void> {
    const { options, life, link } = this.#round;
    if (bytes) {
      // The content of a few files comes at once.
      if (file % BigInt(EXTENT) === 0n) await this.#go(link.call(async () => undefined));
      if (life.chance.happens(0.3)) await this.#go(tree.put(file, torn(bytes)));
      await this.#go(tree.put(file, bytes));
      options.crash('tree.content.written');
      this.#sent += BigInt(BLOCK);
      this.#tell();
    } else await this.#go(tree.put(file, null));
    options.crash('tree.entry.made');
  }

  #tell(): void {
    const { options, order, journal } = this.#round;
    journal.bytesSent += BigInt(BLOCK);
    options.onProgress({
      round: order.round,
      bytesTotal: this.#total,
      bytesDone: this.#sent,
      bytesSent: this.#sent,
      bytesResumed: 0n,
      rate: RATE,
      activity: 'copying',
    });
  }

  async #checkpoint(tree: FolderHandle): Promise<void> {
    await this.#go(tree.sync());
    this.#round.options.crash('tree.checkpoint.synced');
    await this.#go(this.#round.life.pause());
    this.#round.options.crash('tree.checkpoint.saved');
  }

  async #complete(tree: FolderHandle, { files, settled }: Listed): Promise<RoundReport> {
    const { options, order, journal, link, life } = this.#round;
    const bytes = BigInt(files.size * BLOCK);
    const report: RoundReport = {
      round: order.round,
      bytesTotal: this.#sent,
      bytesSent: this.#sent,
      bytesResumed: 0n,
      frames: files.size,
      allocated: bytes,
      dirty: order.final ? null : await this.#go(link.call(() => this.#source.dirty())),
      root: null,
      rate: RATE,
      verified:
        order.final && settled ? { round: order.round, epoch: options.hello.epoch, bytes: String(bytes), frames: files.size } : null,
    };
    if (report.verified) journal.committed = await this.#go(tree.look());
    await this.#go(life.pause());
    journal.completed = { report, final: order.final };
    journal.begun = null;
    journal.verified = report.verified;
    journal.rounds.push(report.bytesTotal);
    options.crash('tree.round.completed');
    return report;
  }
}

/** What the source kept against what was committed. Whoever changed a file at the target since has his own. */
export async function scrubTree(link: Link, committed: Files): Promise<{ same: boolean; report: Awaited<ReturnType<Transfer['scrub']>> }> {
  const { files } = await link.call(() => new TreeSource(link).list(false));
  const same = areSame(files, committed);
  return { same, report: { leaves: files.size, repaired: 0, rotten: same ? 0 : 1, unproven: 0, overwritten: 0, root: '' } };
}

function torn(bytes: Buffer): Buffer {
  const half = Buffer.from(bytes);
  half.fill(0xff, BLOCK / 2);
  return half;
}
