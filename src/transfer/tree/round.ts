// One round of a tree at the target: look (after a crash), list, take over what differs, sync, look again; and in the last round, compare the
// digests (docs/decisions/0023). A crash between any two steps leaves what the next attempt goes on from.
import { FlockError } from '../../model/errors.ts';
import { syncWhole } from '../../host/syscalls.ts';
import type { Time } from '../../host/tree-calls.ts';
import type { TreeHandle } from '../../pools/pool.ts';
import { FRAME } from '../frame.ts';
import type { Journal } from '../journal.ts';
import type { Completed } from '../journal-records.ts';
import { parse } from '../messages.ts';
import { Meter } from '../meter.ts';
import type { SourceLink } from '../source-link.ts';
import type { PullOptions, RoundOrder, RoundReport } from '../transfer.ts';
import { Applying } from './applying.ts';
import type { TreeCrashPoint } from './crash-points.ts';
import { diskTime, forgetManifests, manifestOf, openTree } from './disk.ts';
import { look, type Looked } from './look.ts';
import { ManifestReader, ManifestWriter } from './manifest-file.ts';
import { hexOf, OpenedMessage, TreeDirtyMessage, type OpenMessage } from './messages.ts';
import { parentOf } from './paths.ts';
import { keepCommitted } from './scrub.ts';
import { StreamReader, type TreeRecord } from './stream.ts';

/** Parts of the list that are asked for before they are needed. */
const AHEAD = 4;
/** How often what was written is synced and written down: what a power cut costs. */
const CHECKPOINT = { bytes: 64 * 1024 * 1024, entries: 50_000, ms: 5_000 };
/** A path longer than a message may be is told by a directory above it. */
const LONGEST_AFTER = 25_000;
/** Below this the rate of a round says nothing of the wire; then it is at least this. Bytes, and bytes a second. */
const TELLING = 8 * 1024 * 1024;
const ASSUMED_RATE = 50_000_000;

type End = Extract<TreeRecord, { record: 'end' }>;

export class TreeRound {
  readonly #options: PullOptions;
  readonly #order: RoundOrder;
  readonly #link: SourceLink;
  readonly #journal: Journal;
  readonly #meter: Meter;

  constructor(options: PullOptions, order: RoundOrder, parts: { link: SourceLink; journal: Journal }) {
    this.#options = options;
    this.#order = order;
    this.#link = parts.link;
    this.#journal = parts.journal;
    this.#meter = new Meter(order.round, options.clock, options.onProgress);
  }

  async pull(): Promise<RoundReport> {
    const { pool, copy } = this.#options.target;
    const tree = await openTree(pool, copy, 'write');
    try {
      this.#meter.turnTo('preparing');
      // A crash may have left the tree between two states; where nothing did, this is a walk that reads nothing.
      const there = await this.#look(tree);
      const since = await this.#begin(there);
      await this.#expect();
      const { end, looked, settled } = await this.#agreed(tree, there, since);
      this.#crash('tree.round.agreed');
      return await this.#complete(end, settled ? looked.digest : null);
    } finally {
      await tree.close();
    }
  }

  async #begin(there: Looked): Promise<Time> {
    const { pool, copy } = this.#options.target;
    const { begun } = this.#journal.ledger;
    const again = begun?.round === this.#order.round && begun.final === this.#order.final;
    this.#meter.resumed = again ? there.bytes : 0;
    const now = await diskTime(pool, copy);
    const since = again ? timeIn(begun.plan) : now;
    const { round, final } = this.#order;
    await this.#journal.begin({ round, final, cbt: 'full', manifest: '', plan: `${since.s}.${since.ns}`, resumed: this.#meter.resumed });
    this.#crash('tree.round.begun');
    return since;
  }

  /** How much there is to do. In the pause that is known from the round before. */
  async #expect(): Promise<void> {
    const before = this.#journal.ledger.completed?.report.dirty;
    if (this.#order.final && before !== undefined && before !== null) this.#meter.total = Number(before);
    else this.#meter.total = (await this.#dirty()).bytes;
  }

  /** Once more, with nothing believed, when the digests differ. */
  async #agreed(tree: TreeHandle, before: Looked, since: Time): Promise<{ end: End; looked: Looked; settled: boolean }> {
    const { log, target } = this.#options;
    let there = before;
    for (let afresh = false; ; afresh = true) {
      const settled = await this.#open(there, afresh);
      const end = await this.#apply(tree, settled);
      this.#meter.turnTo('verifying');
      // While this side looks at its own; what it says counts last.
      const still = settled ? this.#still() : null;
      const looked = await this.#look(tree, since);
      await still;
      this.#crash('tree.round.walked');
      if (!settled || looked.digest === end.digest) return { end, looked, settled };
      if (afresh)
        throw new FlockError(
          'Corrupt',
          'source and target do not agree on what the directory holds, although both read it twice: check the disks of both nodes',
        );
      log.warn({ copy: target.copy }, 'source and target do not agree on what the directory holds: both read all of it again');
      await forgetManifests(target.pool, target.copy);
      there = await this.#look(tree);
    }
  }

  async #open({ last }: Looked, afresh: boolean): Promise<boolean> {
    const order: OpenMessage = { ...this.#order, after: afterOf(last), afresh };
    const opened = parse(OpenedMessage, await this.#link.ask(FRAME.TREE_OPEN, Buffer.from(JSON.stringify(order))), 'TREE_OPEN');
    if (this.#order.final && !opened.settled)
      throw new FlockError('Corrupt', 'the source lists a directory that may still change, which was not asked for');
    return opened.settled;
  }

  async #apply(tree: TreeHandle, settled: boolean): Promise<End> {
    const { target, crash } = this.#options;
    const path = manifestOf(target.pool, target.copy);
    const there = await ManifestReader.open(path);
    const made = await ManifestWriter.create(path);
    const applying = new Applying({
      root: tree.fd,
      there,
      made,
      link: this.#link,
      settled,
      crash,
      onContent: (bytes, frames, how) => this.#count(bytes, frames, how),
    });
    this.#meter.turnTo('copying');
    try {
      const end = await this.#follow(applying, { tree, made });
      await this.#checkpoint(tree, made);
      await made.finish();
      this.#crash('tree.round.applied');
      return end;
    } catch (error) {
      await made.close();
      throw error;
    } finally {
      applying.close();
      await there.close();
    }
  }

  async #follow(applying: Applying, to: { tree: TreeHandle; made: ManifestWriter }): Promise<End> {
    const stream = new StreamReader();
    const asked: Promise<Buffer>[] = [];
    const due = new Due(this.#options.clock.monotonic());
    for (;;) {
      while (asked.length < AHEAD) asked.push(this.#ask());
      const frame = (await asked.shift()) as Buffer;
      if (frame.length === 0) throw new FlockError('Corrupt', 'the list of the directory ended before its end');
      stream.push(frame);
      for (let record = stream.next(); record; record = stream.next()) {
        await applying.take(record);
        if (record.record === 'end') return record;
        if (record.record === 'leaf' || !due.is(this.#meter.done, applying.entries, this.#options.clock.monotonic())) continue;
        await this.#checkpoint(to.tree, to.made);
      }
      this.#meter.tell();
    }
  }

  #ask(): Promise<Buffer> {
    const asked = this.#link.ask(FRAME.TREE_NEXT, Buffer.alloc(0)).then((frame) => {
      this.#meter.sent += frame.length;
      return frame;
    });
    // Waited for in its turn, or not at all when an earlier one failed.
    asked.catch(() => undefined);
    return asked;
  }

  #count(bytes: number, frames: number, how: 'listed' | 'asked'): void {
    // What came with the list was sent with it.
    if (how === 'asked') this.#meter.sent += bytes;
    this.#meter.done += bytes;
    this.#meter.frames += frames;
    this.#meter.tell();
  }

  /** What was made is on the disk before the manifest says so. */
  async #checkpoint(tree: TreeHandle, made: ManifestWriter): Promise<void> {
    await syncWhole(tree.fd);
    this.#crash('tree.checkpoint.synced');
    await made.sync();
    await this.#journal.progress([], this.#meter.takeUnrecorded());
    this.#crash('tree.checkpoint.saved');
  }

  #look(tree: TreeHandle, readSince?: Time): Promise<Looked> {
    const { target } = this.#options;
    return look({ ...target, tree, signal: this.#link.ended, onRead: () => this.#meter.tell(), ...(readSince ? { readSince } : {}) });
  }

  /** Throws InUse when anything of the fenced source changed since it was fenced. */
  #still(): Promise<Buffer> {
    const asked = this.#link.ask(FRAME.TREE_STILL, Buffer.from('{}'));
    asked.catch(() => undefined);
    return asked;
  }

  async #dirty(): Promise<{ bytes: number; walkMs: number }> {
    return parse(TreeDirtyMessage, await this.#link.ask(FRAME.TREE_DIRTY, Buffer.from('{}')), 'TREE_DIRTY');
  }

  async #complete(end: End, digest: string | null): Promise<RoundReport> {
    const { round, final } = this.#order;
    const { sent, resumed, frames } = this.#meter;
    const rate = this.#rate();
    const report: RoundReport = {
      round,
      bytesTotal: BigInt(this.#meter.done),
      bytesSent: BigInt(sent),
      bytesResumed: BigInt(resumed),
      frames,
      allocated: BigInt(end.bytes),
      dirty: final ? null : await this.#rest(rate),
      root: digest,
      rate,
      verified:
        final && digest !== null
          ? { round, epoch: this.#options.hello.epoch, bytes: String(end.bytes), frames: end.entries, root: digest }
          : null,
    };
    if (report.verified) await keepCommitted(this.#options.target.pool, this.#options.target.copy);
    const completed: Completed = { report, final, deviceBytes: 0 };
    await this.#journal.complete(completed, this.#meter.takeUnrecorded());
    this.#crash('tree.round.completed');
    return report;
  }

  /** What a last round would take now, in bytes at this rate: what it has to read, and the walks of both sides. */
  async #rest(rate: number): Promise<bigint> {
    const { bytes, walkMs } = await this.#dirty();
    return BigInt(bytes + Math.ceil((rate * 2 * walkMs) / 1000));
  }

  #rate(): number {
    const { rate, sent } = this.#meter;
    return sent >= TELLING ? rate : Math.max(rate, this.#journal.ledger.completed?.report.rate ?? 0, ASSUMED_RATE);
  }

  #crash(point: TreeCrashPoint): void {
    this.#options.crash(point);
  }
}

class Due {
  #bytes = 0;
  #entries = 0;
  #at: number;

  constructor(now: number) {
    this.#at = now;
  }

  is(bytes: number, entries: number, now: number): boolean {
    const due = bytes - this.#bytes >= CHECKPOINT.bytes || entries - this.#entries >= CHECKPOINT.entries || now - this.#at >= CHECKPOINT.ms;
    if (due) [this.#bytes, this.#entries, this.#at] = [bytes, entries, now];
    return due;
  }
}

function afterOf(last: string | null): string | null {
  let path = last;
  while (path !== null && path.length > LONGEST_AFTER) path = parentOf(path);
  return path === null ? null : hexOf(path);
}

function timeIn(text: string): Time {
  const [s = 0, ns = 0] = text.split('.').map(Number);
  return { s, ns };
}
