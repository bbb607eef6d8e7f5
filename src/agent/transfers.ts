// The long work of this node: rounds it pulls and scrubs it runs, one for each move, beside the reconciling. A failed round is tried
// again from its journal after a pause; what it reports goes to the Move's `incoming`.
import { bandwidthOf } from '../decide/moves.ts';
import { phaseOf } from '../decide/observed.ts';
import { FlockError, isReason, messageOf, reasonOf } from '../model/errors.ts';
import { timestamp } from '../model/clock.ts';
import type { Stored } from '../model/meta.ts';
import type { Incoming, Move } from '../model/move.ts';
import { commitPoint } from '../model/points.ts';
import type { NodeIdentity } from '../api/certificates.ts';
import type { Restraint } from '../transfer/restraint.ts';
import type { Hello, JournalState, Progress, PullOptions, RoundOrder, RoundReport, ScrubReport } from '../transfer/transfer.ts';
import type { FoundCopy } from './inventory.ts';
import type { AgentPorts } from './ports.ts';
import { patchMove } from './records.ts';
import { dialled } from './transfer-network.ts';

export interface TransferSettings {
  identity: () => NodeIdentity;
  /** Address to dial from: the transfer network's. None: as the kernel finds best. */
  localAddress?: string;
  /** What this node bears of copying in the background; without it everything. */
  restraint?: Restraint;
  /** How often progress is written to the record, ms. */
  progressMs: number;
  /** Pauses between tries, ms. */
  retry: { first: number; longest: number };
}

/** How long a source may take to open its listener before that is a failure, ms. */
const LISTENED = 5_000;

type Work = { kind: 'round'; order: RoundOrder; fresh: boolean } | { kind: 'scrub' };

interface Running {
  what: string;
  stop: AbortController;
  ended: Promise<void>;
  progress: Progress | null;
  /** It wrote something that was not there when it began. */
  brought: boolean;
}

export class Transfers {
  readonly #ports: AgentPorts;
  readonly #settings: TransferSettings;
  readonly #again: (volume: string) => void;
  readonly #running = new Map<string, Running>();
  /** Tries that failed in a row, by move; and those of them that brought nothing, for which the pauses get longer. */
  readonly #failures = new Map<string, number>();
  readonly #vain = new Map<string, number>();

  constructor(ports: AgentPorts, settings: TransferSettings, again: (volume: string) => void) {
    this.#ports = ports;
    this.#settings = settings;
    this.#again = again;
  }

  /** Work under way, for metrics and the local socket. */
  progress(): { move: string; progress: Progress }[] {
    return [...this.#running].flatMap(([move, { progress }]) => (progress ? [{ move, progress }] : []));
  }

  /** The round runs, or is started: what ran for this move before is ended first. */
  async pull(move: Stored<Move>, copy: FoundCopy, order: RoundOrder, fresh: boolean): Promise<void> {
    await this.#want(move, copy, { kind: 'round', order, fresh });
  }

  async scrub(move: Stored<Move>, copy: FoundCopy): Promise<void> {
    await this.#want(move, copy, { kind: 'scrub' });
  }

  /** Nothing of this move touches the copy any more when it returns. */
  async stop(moveUid: string): Promise<void> {
    await this.#halt(moveUid);
    this.#failures.delete(moveUid);
    this.#vain.delete(moveUid);
  }

  async #halt(moveUid: string): Promise<void> {
    const running = this.#running.get(moveUid);
    running?.stop.abort(new FlockError('Unavailable', 'the transfer was ended'));
    await running?.ended;
  }

  async stopAll(): Promise<void> {
    await Promise.all([...this.#running.keys()].map((uid) => this.stop(uid)));
  }

  async #want(move: Stored<Move>, copy: FoundCopy, work: Work): Promise<void> {
    const { uid } = move.metadata;
    const what =
      work.kind === 'scrub' ? 'scrub' : `round ${work.order.round}${work.order.final ? ' final' : ''} at epoch ${move.status?.epoch}`;
    if (this.#running.get(uid)?.what === what) return;
    await this.#halt(uid);
    const running: Running = { what, stop: new AbortController(), ended: Promise.resolve(), progress: null, brought: false };
    this.#running.set(uid, running);
    running.ended = this.#run(move, copy, work, running).finally(() => {
      if (this.#running.get(uid) === running) this.#running.delete(uid);
      this.#again(move.spec.volume);
    });
  }

  async #run(move: Stored<Move>, copy: FoundCopy, work: Work, running: Running): Promise<void> {
    const { log, clock } = this.#ports;
    const fields = { volume: move.spec.volume, move: move.metadata.name, epoch: move.status?.epoch, work: running.what };
    try {
      await this.#listened(move, running.stop.signal);
      await (work.kind === 'scrub' ? this.#scrubbed(move, copy, running) : this.#pulled(move, copy, work, running));
      this.#failures.delete(move.metadata.uid);
      this.#vain.delete(move.metadata.uid);
    } catch (error) {
      if (running.stop.signal.aborted) return;
      log.warn({ ...fields, error: messageOf(error) }, 'transfer failed');
      await this.#failed(move, copy, error).catch((second: unknown) =>
        log.warn({ ...fields, error: messageOf(second) }, 'the failure could not be recorded'),
      );
      await clock.sleep(this.#pause(move, running), running.stop.signal).catch(() => undefined);
    }
  }

  /** A wire that is cut now and then is used at once again; one that brings nothing is tried less and less often. */
  #pause({ metadata: { uid } }: Stored<Move>, { brought }: Running): number {
    const { first, longest } = this.#settings.retry;
    const vain = brought ? 0 : (this.#vain.get(uid) ?? 0) + 1;
    this.#vain.set(uid, vain);
    return Math.min(longest, first * 2 ** Math.max(0, vain - 1));
  }

  async #failed(move: Stored<Move>, copy: FoundCopy, error: unknown): Promise<void> {
    const failures = (this.#failures.get(move.metadata.uid) ?? 0) + 1;
    this.#failures.set(move.metadata.uid, failures);
    const obstacle = {
      reason: reasonOf(error),
      message: isLasting(error, copy) ? messageOf(error) : `${messageOf(error)} (try ${failures}; it goes on by itself)`,
      since: timestamp(this.#ports.clock),
    };
    this.#ports.tell(move, 'Warning', 'TransferFailed', obstacle.message);
    await patchMove(this.#ports.client, move, { incoming: { obstacle, retries: failures } });
  }

  async #pulled(move: Stored<Move>, copy: FoundCopy, work: Extract<Work, { kind: 'round' }>, running: Running): Promise<void> {
    const { transfer, client, tell } = this.#ports;
    const before = await transfer.readJournal(copy.pool, copy.name);
    const writer = this.#progressWriter(move, before);
    const options = this.#options(move, copy, { purpose: 'round', fresh: work.fresh, running, writer });
    let report: RoundReport;
    try {
      report = await transfer.pullRound(options, work.order);
    } finally {
      await writer.ended();
    }
    this.#ports.crash('round:pulled');
    const journal = await transfer.readJournal(copy.pool, copy.name);
    await patchMove(client, move, { incoming: incomingOf(report, journal) });
    if (!isWorthTelling(move, work.order)) return;
    tell(
      move,
      'Normal',
      work.order.final ? 'FinalDeltaCopied' : 'RoundCopied',
      `round ${report.round}: ${report.bytesSent} bytes sent, ${report.bytesResumed} resumed, at ${report.rate} bytes a second`,
    );
  }

  /** The journal is kept until here: it is the witness of what was committed. */
  async #scrubbed(move: Stored<Move>, copy: FoundCopy, running: Running): Promise<void> {
    const { client, transfer, tell } = this.#ports;
    const scrub = copy.pool.points || copy.pool.openTree ? await this.#compared(move, copy, running) : IMPOSSIBLE;
    await patchMove(client, move, { incoming: { scrub, obstacle: null } });
    if (scrub.state === 'Failed') return tell(move, 'Warning', 'ScrubFailed', scrub.message);
    await transfer.dropJournal(copy.pool, copy.name);
    tell(move, scrub.state === 'Repaired' ? 'Warning' : 'Normal', `Scrub${scrub.state}`, scrub.message);
  }

  async #compared(move: Stored<Move>, copy: FoundCopy, running: Running): Promise<Scrubbed> {
    const options = this.#options(move, copy, { purpose: 'scrub', fresh: false, running, writer: null });
    return scrubbedOf(move, await this.#ports.transfer.scrub(options, commitPoint(move.metadata.uid)));
  }

  #options(move: Stored<Move>, copy: FoundCopy, how: How): PullOptions {
    const { known, clock, log, crash } = this.#ports;
    const current = (): Stored<Move> => known.movesOf(move.spec.volume).find(({ metadata }) => metadata.uid === move.metadata.uid) ?? move;
    return {
      source: this.#sourceOf(move),
      ...(this.#settings.localAddress === undefined ? {} : { localAddress: this.#settings.localAddress }),
      identity: this.#settings.identity,
      hello: helloOf(move, how.purpose),
      target: { pool: copy.pool, copy: copy.name, fresh: how.fresh },
      ...(this.#settings.restraint ? { restraint: this.#settings.restraint } : {}),
      limit: () => bandwidthOf(current(), known.volume(move.spec.volume)),
      onProgress: (progress) => {
        how.running.brought ||= isMore(progress, how.running.progress);
        how.running.progress = progress;
        how.writer?.saw(progress);
      },
      signal: how.running.stop.signal,
      clock,
      log,
      crash,
    };
  }

  /** The source's agent opens its listener when it learns of the move: that may be a moment after this one did. */
  async #listened(move: Move, signal: AbortSignal): Promise<void> {
    const { known, clock } = this.#ports;
    const until = clock.monotonic() + LISTENED;
    while (!known.node(move.status?.source?.node ?? '')?.status?.transfer && clock.monotonic() < until) await clock.sleep(100, signal);
  }

  #sourceOf(move: Move): PullOptions['source'] {
    const node = move.status?.source?.node ?? '';
    return dialled(node, this.#ports.known.node(node), this.#settings.localAddress);
  }

  /** Writes progress now and then, never two writes at once; the last word is the round's report. */
  #progressWriter(move: Stored<Move>, before: JournalState | null): ProgressWriter {
    const { clock, client, log } = this.#ports;
    let last = Number.NEGATIVE_INFINITY;
    let writing = Promise.resolve();
    let busy = false;
    return {
      saw: (progress) => {
        if (busy || clock.monotonic() - last < this.#settings.progressMs) return;
        busy = true;
        last = clock.monotonic();
        writing = patchMove(client, move, { incoming: progressOf(progress, before) })
          .catch((error: unknown) => log.debug({ move: move.metadata.name, error: messageOf(error) }, 'progress could not be written'))
          .finally(() => {
            busy = false;
          });
      },
      ended: () => writing,
    };
  }
}

/** A tree that cannot be carried becomes no other by trying again: the controller ends the move. */
const isLasting = (error: unknown, { pool }: FoundCopy): boolean => pool.openTree !== undefined && isReason(error, 'Unsupported');

/** Bytes were written that were not there before: what was only compared is compared again by the next try. */
const isMore = (now: Progress, before: Progress | null): boolean =>
  now.activity === 'copying' && before?.activity === 'copying' && now.bytesDone > before.bytesDone;

type Scrubbed = NonNullable<Incoming['scrub']> & { message: string };

const IMPOSSIBLE: Scrubbed = {
  state: 'Impossible',
  message: 'this pool has no points in time; the read-back before the commit is the proof',
};

/** What was proven wrong at the target was mended; what was proven wrong at the source does not matter any more; the rest is for a person. */
function scrubbedOf(move: Stored<Move>, { leaves, repaired, overwritten, rotten, unproven, root }: ScrubReport): Scrubbed {
  const { source, target } = move.status ?? {};
  const counts = `${leaves} leaves compared, ${repaired} repaired, ${overwritten} overwritten since`;
  if (unproven > 0) {
    const message = `${counts}; in ${unproven} the copy on node ${target?.node} differs from what node ${source?.node} kept, and nothing proves which is right. Both are kept: check the application's data; to accept what node ${target?.node} has, delete move ${move.metadata.name}`;
    return { state: 'Failed', message, root };
  }
  const aside = rotten > 0 ? `; ${rotten} of what node ${source?.node} kept have changed since: check its disk` : '';
  return { state: repaired > 0 ? 'Repaired' : 'Passed', message: `${counts}${aside}`, root };
}

interface How {
  purpose: Hello['purpose'];
  fresh: boolean;
  running: Running;
  writer: ProgressWriter | null;
}

function helloOf(move: Stored<Move>, purpose: Hello['purpose']): Hello {
  const { source, epoch = 0, volumeUid = '' } = move.status ?? {};
  return { protocol: 1, purpose, move: move.metadata.name, moveUid: move.metadata.uid, volumeUid, copy: source?.copy ?? '', epoch };
}

interface ProgressWriter {
  saw(progress: Progress): void;
  ended(): Promise<void>;
}

function progressOf(progress: Progress, before: JournalState | null): Partial<{ [F in keyof Incoming]: Incoming[F] | null }> {
  const left = progress.bytesTotal - progress.bytesDone;
  return {
    round: progress.round,
    bytesTotal: String(progress.bytesTotal),
    bytesDone: String(progress.bytesDone),
    bytesLeft: String(left),
    bytesSent: String((before?.bytesSent ?? 0n) + progress.bytesSent),
    bytesResumed: String((before?.bytesResumed ?? 0n) + progress.bytesResumed),
    rate: Math.round(progress.rate),
    etaSeconds: progress.rate > 0 ? Math.ceil(Number(left) / progress.rate) : null,
    obstacle: null,
  };
}

function incomingOf(report: RoundReport, journal: JournalState | null): Partial<{ [F in keyof Incoming]: Incoming[F] | null }> {
  const rounds = journal?.rounds ?? [report.bytesTotal];
  return {
    round: report.round,
    completeRound: report.round,
    bytesTotal: String(report.bytesTotal),
    bytesDone: String(report.bytesTotal),
    bytesLeft: '0',
    bytesSent: String(journal?.bytesSent ?? report.bytesSent),
    bytesResumed: String(journal?.bytesResumed ?? report.bytesResumed),
    rate: Math.round(report.rate),
    etaSeconds: 0,
    dirty: report.dirty === null ? null : String(report.dirty),
    allocated: String(report.allocated),
    rounds: firstAndLast(rounds).map(String),
    roundCount: rounds.length,
    ...(report.verified ? { verified: report.verified } : {}),
    obstacle: null,
  };
}

/** Rounds whose sizes are in the record, and that are told of by an event: after these only idle ones come. */
const MOST_ROUNDS = 16;

const firstAndLast = <T>(all: readonly T[]): readonly T[] =>
  all.length <= MOST_ROUNDS ? all : [...all.slice(0, 1), ...all.slice(1 - MOST_ROUNDS)];

/** Of rounds that only keep the rest small there may be thousands. */
const isWorthTelling = (move: Move, { round, final }: RoundOrder): boolean =>
  final || (phaseOf(move) !== 'ReadyToCutOver' && round < MOST_ROUNDS);
