// One round at the target, from the order to the record that it is complete: manifest, plan, bytes, proof, record (docs/moves.md, "A
// round"). A crash between any two steps leaves what the next attempt goes on from.
import { FlockError, messageOf } from '../model/errors.ts';
import type { BlockHandle } from '../pools/pool.ts';
import { BlockPlan } from './block-plan.ts';
import { differences, everyLeaf, spansOfLeaves } from './comparing.ts';
import { copyBlocks } from './copying.ts';
import type { TransferCrashPoint } from './crash-points.ts';
import { HASH, hashing } from './hashing.ts';
import type { Journal } from './journal.ts';
import type { Begun, Completed } from './journal-records.ts';
import { LeafTable } from './leaves.ts';
import { decodeManifest, encodeManifest, type Manifest } from './manifest.ts';
import { Meter } from './meter.ts';
import { proveByFrames, proveByRoot, type ProvingParts } from './proving.ts';
import type { SourceLink } from './source-link.ts';
import { BLOCK, unite, type Span } from './spans.ts';
import { dataOf, hashInto, withHandle } from './target-copy.ts';
import type { PullOptions, RoundOrder, RoundReport } from './transfer.ts';

interface Plan {
  manifest: Manifest;
  spans: Span[];
  blocks: BlockPlan;
  /** The target's leaves as they were when they were compared; null when they were not. */
  table: LeafTable | null;
  explicitZeros: boolean;
}

interface Answer {
  manifest: Manifest;
  hash: string;
}

export class Round {
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
    this.#meter.turnTo('preparing');
    const plan = await this.#plan();
    await this.#copy(plan, plan.blocks, this.#journal);
    await this.#agreeOnCounts();
    this.#crash('transfer.round.copied');
    this.#meter.turnTo('verifying');
    const proof = await this.#prove(plan);
    this.#crash('transfer.round.compared');
    const completed = await this.#complete(plan, proof);
    await this.#releaseEarlier();
    return completed.report;
  }

  #crash(point: TransferCrashPoint): void {
    this.#options.crash(point);
  }

  // What to copy

  async #plan(): Promise<Plan> {
    const answer = await this.#prepared();
    const kept = await this.#keptPlan();
    const { begun } = this.#journal.ledger;
    if (kept && begun && this.#goesOn(begun, answer, kept)) return this.#resumed(answer, kept, begun);
    // Something was begun on the copy of which not all is known, or not from this manifest: what it left there is found by comparing.
    const doubtful = begun !== null && (answer.manifest.head.base === null || kept === null || begun.cbt === 'hash');
    if (answer.manifest.head.cbt === 'hash') return this.#comparedPlan(answer);
    if (doubtful) return this.#comparedPlan(await this.#ask(true));
    return this.#newPlan(answer, kept);
  }

  async #prepared(): Promise<Answer> {
    const { begun, completed, made } = this.#journal.ledger;
    const pristine = made.pristine && begun === null;
    // After a final round there is no point that the copy is known to equal.
    if (completed) return this.#ask(completed.final);
    return this.#ask(!pristine && begun?.cbt !== 'full');
  }

  async #ask(compare: boolean): Promise<Answer> {
    const { completed } = this.#journal.ledger;
    const { round = 0, root = null } = completed?.report ?? {};
    const base = completed && !completed.final ? { round, root, deviceBytes: completed.deviceBytes } : null;
    const answer = await this.#link.prepare({ ...this.#order, compare, base });
    this.#check(answer.manifest);
    if (compare && answer.manifest.head.cbt !== 'hash') throw new FlockError('Corrupt', 'the source was asked to compare and does not');
    await withHandle(this.#options.target, 'read', async (handle) => this.#checkSize(answer.manifest, handle));
    return answer;
  }

  /** A manifest that is not the answer to the question would put wrong bytes on the disk. */
  #check({ head }: Manifest): void {
    const { hello } = this.#options;
    const { completed } = this.#journal.ledger;
    const base = head.base && completed?.report.round === head.base.round && completed.report.root === head.base.root;
    const checks: [boolean, string][] = [
      [head.moveUid === hello.moveUid && head.volumeUid === hello.volumeUid, 'another move or volume'],
      [head.epoch === hello.epoch, `epoch ${head.epoch}`],
      [head.round === this.#order.round && head.final === this.#order.final, `round ${head.round}`],
      [head.settled || !head.final, 'bytes that may still change'],
      [base !== false && (head.base !== null) === (head.cbt === 'fiemap'), `base ${JSON.stringify(head.base)}`],
    ];
    const wrong = checks.find(([holds]) => !holds);
    if (wrong) throw new FlockError('Corrupt', `the source's manifest speaks of ${wrong[1]}, which was not asked for`);
  }

  #checkSize({ head }: Manifest, handle: BlockHandle): void {
    const { copy, pool } = this.#options.target;
    const size = Number(handle.size);
    if (size < head.deviceBytes)
      throw new FlockError(
        'NoSpace',
        `copy ${copy} in pool ${pool.name} has ${size} bytes, the volume ${head.deviceBytes}: grow the copy first`,
      );
    if (size !== head.deviceBytes && head.deviceBytes % BLOCK !== 0)
      throw new FlockError('Unsupported', `a volume of ${head.deviceBytes} bytes can only be copied onto one of the same size`);
  }

  /** The extents that the round under way was begun with. */
  async #keptPlan(): Promise<Span[] | null> {
    const { begun } = this.#journal.ledger;
    const encoded = begun && (await this.#journal.plan(begun.plan));
    return encoded && decodeManifest(encoded).spans;
  }

  /** The same point is still there: what was proven stays so. Live bytes of a first pass may be of different times, a later round compares them all. */
  #goesOn(begun: Begun, { manifest, hash }: Answer, kept: Span[]): boolean {
    if (begun.round !== this.#order.round || begun.final !== this.#order.final || begun.cbt === 'hash') return false;
    if (begun.manifest === hash) return true;
    const last = kept.at(-1);
    const inside = last === undefined || last.offset + last.length <= manifest.head.deviceBytes;
    return begun.cbt === 'full' && manifest.head.cbt === 'full' && !manifest.head.settled && inside;
  }

  async #resumed({ manifest, hash }: Answer, spans: Span[], begun: Begun): Promise<Plan> {
    const blocks = new BlockPlan(spans);
    for (const { first, count, hashes } of this.#journal.ledger.proven)
      for (let index = 0; index < count && first + index < blocks.count; index += 1)
        blocks.setDone(first + index, hashes.subarray(index * HASH, (index + 1) * HASH));
    this.#meter.resumed = blocks.doneBytes();
    this.#meter.done = this.#meter.resumed;
    await this.#journal.begin({ ...begun, manifest: hash, resumed: this.#meter.resumed });
    this.#crash('transfer.round.begun');
    return { manifest, spans, blocks, table: null, explicitZeros: true };
  }

  /** What an earlier attempt may have changed since the base is asked for again with what the manifest lists. */
  async #newPlan({ manifest, hash }: Answer, kept: Span[] | null): Promise<Plan> {
    const { made, completed, begun } = this.#journal.ledger;
    const pristine = made.pristine && completed === null && begun === null;
    const listed = pristine ? manifest.spans.filter(({ zero }) => !zero) : manifest.spans;
    const spans = kept ? unite(listed, kept) : listed;
    return { manifest, ...(await this.#begin({ head: manifest.head, spans }, hash)), table: null, explicitZeros: !pristine };
  }

  async #comparedPlan({ manifest, hash }: Answer): Promise<Plan> {
    const { head } = manifest;
    const { target } = this.#options;
    const meter = this.#meter;
    meter.turnTo('comparing');
    meter.total = head.deviceBytes;
    const table = new LeafTable(head.deviceBytes);
    const data = await dataOf(target, head.deviceBytes);
    const different = await withHandle(target, 'read', (handle) =>
      differences(everyLeaf(table), {
        link: this.#link,
        table,
        hash: (leaves) => hashInto(table, leaves, { handle, data, stop: this.#link.ended }),
        onLeaves: (count) => {
          meter.done = Math.min(meter.total, meter.done + count * head.leafBytes);
          meter.tell();
        },
      }),
    );
    meter.done = 0;
    // What an earlier attempt sent is there, or it would differ now.
    meter.resumed = Number(this.#journal.ledger.sentOfRound);
    const spans = spansOfLeaves(different, head.deviceBytes);
    return { manifest, ...(await this.#begin({ head, spans }, hash)), table, explicitZeros: true };
  }

  async #begin(plan: Manifest, manifest: string): Promise<{ spans: Span[]; blocks: BlockPlan }> {
    const encoded = encodeManifest(plan);
    await this.#journal.savePlan(encoded);
    this.#crash('transfer.plan.saved');
    const { round, final, cbt } = plan.head;
    const hash = hashing.digest(encoded).toString('hex');
    await this.#journal.begin({ round, final, cbt, manifest, plan: hash, resumed: this.#meter.resumed });
    this.#crash('transfer.round.begun');
    // As it was written, so that a resumed round numbers the blocks alike.
    const { spans } = decodeManifest(encoded);
    return { spans, blocks: new BlockPlan(spans) };
  }

  // Copying

  async #copy(plan: Plan, blocks: BlockPlan, journal: Journal | null): Promise<void> {
    const { target, clock, crash } = this.#options;
    const meter = this.#meter;
    if (journal) meter.total = blocks.bytes;
    meter.turnTo('copying');
    const explicitZeros = journal ? plan.explicitZeros : true;
    const fillGaps = !explicitZeros && !target.pool.thin;
    await withHandle(target, 'write', (handle) =>
      copyBlocks({ link: this.#link, handle, plan: blocks, journal, meter, explicitZeros, fillGaps, clock, crash }),
    );
  }

  /** Zero bytes sent is an answer only if the source says the same. */
  async #agreeOnCounts(): Promise<void> {
    const own = { frames: this.#meter.frames, bytes: this.#meter.sent };
    const theirs = await this.#link.counts(own);
    if (theirs.frames !== own.frames || theirs.bytes !== own.bytes)
      throw new FlockError(
        'Corrupt',
        `${own.frames} frames with ${own.bytes} bytes arrived, the source counted ${theirs.frames} with ${theirs.bytes}`,
      );
  }

  // Proving

  /** The root that both sides agree on; null where only what was sent could be proven. */
  async #prove(plan: Plan): Promise<{ root: string; table: LeafTable } | null> {
    const { head } = plan.manifest;
    const parts: ProvingParts = {
      link: this.#link,
      target: this.#options.target,
      deviceBytes: head.deviceBytes,
      log: this.#options.log,
      pullAgain: (blocks) => this.#copyAgain(plan, blocks),
    };
    if (!head.settled || (head.final && head.cbt === 'fiemap')) {
      await proveByFrames(parts, plan.blocks);
      return null;
    }
    const table = plan.table ?? (await this.#tableBefore(head)) ?? new LeafTable(head.deviceBytes);
    return { root: await proveByRoot(parts, table, plan), table };
  }

  async #copyAgain(plan: Plan, blocks: BlockPlan): Promise<void> {
    await this.#copy(plan, blocks, null);
    this.#meter.turnTo('verifying');
  }

  async #tableBefore(head: Manifest['head']): Promise<LeafTable | null> {
    return head.base?.root ? this.#journal.leaves(head.deviceBytes, head.base.root) : null;
  }

  // Recording

  async #complete(plan: Plan, proof: { root: string; table: LeafTable } | null): Promise<Completed> {
    const { head } = plan.manifest;
    if (proof) await this.#journal.saveLeaves(proof.table);
    this.#crash('transfer.leaves.saved');
    const dirty = await this.#link.dirty();
    const { round, total, sent, resumed, frames, rate } = this.#meter;
    const report: RoundReport = {
      round,
      bytesTotal: BigInt(total),
      bytesSent: BigInt(sent),
      bytesResumed: BigInt(resumed),
      frames,
      allocated: BigInt(head.allocated),
      dirty: dirty === null ? null : BigInt(dirty),
      root: proof?.root ?? null,
      rate,
      verified: head.final ? this.#verified(plan, proof?.root ?? null) : null,
    };
    const completed = { report, final: head.final, deviceBytes: head.deviceBytes };
    await this.#journal.complete(completed, this.#meter.takeUnrecorded());
    this.#crash('transfer.round.completed');
    return completed;
  }

  #verified({ blocks }: Plan, root: string | null): RoundReport['verified'] {
    const { round } = this.#order;
    const agreed = root ?? this.#journal.ledger.state.root;
    const proven = { round, epoch: this.#options.hello.epoch, bytes: String(blocks.bytes), frames: blocks.count };
    return agreed === null ? proven : { ...proven, root: agreed };
  }

  /** The round is complete whatever becomes of this: what is left over is let go after the next one. */
  async #releaseEarlier(): Promise<void> {
    if (this.#order.final) return;
    try {
      await this.#link.releaseBefore(this.#order.round);
    } catch (error) {
      if (!(error instanceof FlockError)) throw error;
      this.#options.log.warn({ error: messageOf(error) }, 'points of earlier rounds are released later');
    }
  }
}
