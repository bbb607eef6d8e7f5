// Carries Moves from phase to phase: observe, decide (decide/moves.ts), write. Every write of a phase is a compare-and-swap against what
// was observed, so that a controller which lost its lead takes no step. The commit is the one swap of the Volume that docs/moves.md names.
import { keptCopies } from '../decide/kept.ts';
import { nextMoveStep, type MoveSeen, type MoveStep } from '../decide/moves.ts';
import { hasEnded, isCopying, isNew, isUnfinished, phaseOf, saysSame, withSince, type Why } from '../decide/observed.ts';
import { lessPromised } from '../decide/placement.ts';
import { timestamp } from '../model/clock.ts';
import { ifFound } from '../model/errors.ts';
import type { Condition, Obstacle, Stored } from '../model/meta.ts';
import { MOVE_FINALIZER, Moves, type Move, type MoveStatus } from '../model/move.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import type { Again, ControllerPorts } from './ports.ts';

type Of<S extends MoveStep['step']> = Extract<MoveStep, { step: S }>;
type Changes = { [F in keyof MoveStatus]?: MoveStatus[F] | null };

export class MoveController {
  readonly #ports: ControllerPorts;
  /** The last complete round of each unfinished move, by name, and when that was seen first, by the monotonic clock. */
  readonly #complete = new Map<string, { round: number | undefined; at: number }>();
  readonly #acts: { [S in MoveStep['step']]: (seen: MoveSeen, step: Of<S>) => Promise<Again> };

  constructor(ports: ControllerPorts) {
    this.#ports = ports;
    const to = (seen: MoveSeen, changes: Changes): Promise<Again> => this.#to(seen, changes);
    const now = (): string => timestamp(ports.clock);
    this.#acts = {
      wait: (seen, step) => this.#wait(seen, step),
      accept: (seen, step) => this.#accept(seen, step),
      order: (seen, step) => this.#order(seen, step),
      round: (seen, { phase, round, why }) => to(seen, { phase, round, obstacle: this.#since(seen, why ?? null) }),
      phase: (seen, { phase }) => to(seen, { phase, obstacle: null, ...(phase === 'Committed' ? { committedAt: now() } : {}) }),
      fence: (seen) => to(seen, { phase: 'Fencing', fencingAt: now(), obstacle: null }),
      finalDelta: (seen, { round }) => to(seen, { phase: 'FinalDelta', round, obstacle: null }),
      commit: (seen) => this.#commit(seen),
      published: (seen, { pauseMs }) => to(seen, { phase: 'Published', pauseMs, obstacle: null }),
      release: (seen) => to(seen, { release: true }),
      cancel: (seen, { ending }) => to(seen, { phase: 'Cancelling', ending, obstacle: null }),
      unfence: (seen) => this.#unfence(seen),
      resume: (seen, { epoch, round }) =>
        to(seen, { phase: 'Syncing', epoch, round, attempts: (seen.move.status?.attempts ?? 0) + 1, fencingAt: null, obstacle: null }),
      end: (seen, { phase, why }) =>
        to(seen, { phase, finishedAt: now(), obstacle: this.#since(seen, why), conditions: [ended(phase, why, now())] }),
      forget: (seen) => this.#forget(seen),
    };
  }

  /** One step of the Move of that name. Throws when it is to be tried again. */
  async reconcile(name: string): Promise<Again> {
    const move = await ifFound(this.#ports.client.get(Moves, name));
    if (!move || hasEnded(move)) this.#complete.delete(name);
    if (!move) return undefined;
    const seen = await this.#observe(move);
    const step = nextMoveStep(seen);
    this.#ports.crash(`before:${step.step}`);
    // The table has one act for each step; the compiler cannot see that key and argument belong together.
    const act = this.#acts[step.step] as (seen: MoveSeen, step: MoveStep) => Promise<Again>;
    const again = await act(seen, step);
    this.#ports.crash(`after:${step.step}`);
    return again;
  }

  async #observe(move: Stored<Move>): Promise<MoveSeen> {
    const { known, caps, clock, client } = this.#ports;
    const volume = await ifFound(client.get(Volumes, move.spec.volume));
    // The caps and the order are judged on a fresh list: what a watch shows may be from before the last acceptance.
    const all = phaseOf(move) === 'Pending' ? (await client.list(Moves)).items : known.moves();
    const others = all.filter(({ metadata }) => metadata.uid !== move.metadata.uid);
    const volumes = known.volumes().filter(({ metadata }) => metadata.name !== move.spec.volume);
    const nodes = lessPromised(known.nodes(), volumes);
    const node = (name: string | undefined): MoveSeen['source'] => nodes.find(({ metadata }) => metadata.name === name) ?? null;
    const from = move.status?.source?.node ?? volume?.spec.node;
    const copying = others.filter(isCopying);
    return {
      move,
      volume,
      source: node(from),
      target: node(move.spec.target),
      earlier:
        others.find((other) => other.spec.volume === move.spec.volume && isUnfinished(other) && comesBefore(other, move))?.metadata.name ??
        null,
      copying: {
        from: copying.filter((other) => other.status?.source?.node === from).length,
        to: copying.filter((other) => other.spec.target === move.spec.target).length,
        all: copying.length,
      },
      // Only who waits for room is told of it.
      kept: phaseOf(move) === 'Pending' ? keptCopies(known.volumes(), all) : [],
      caps,
      now: clock.now(),
      restedMs: this.#restedMs(move),
    };
  }

  #restedMs(move: Stored<Move>): number {
    const { name } = move.metadata;
    const now = this.#ports.clock.monotonic();
    const round = move.status?.incoming?.completeRound;
    const before = this.#complete.get(name);
    if (before && before.round === round) return now - before.at;
    if (!hasEnded(move)) this.#complete.set(name, { round, at: now });
    return 0;
  }

  /** Writes the controller's part of the status, if it is still as it was observed. */
  async #to({ move, volume }: MoveSeen, changes: Changes): Promise<Again> {
    const { client, log, tell } = this.#ports;
    const patch = { metadata: { uid: move.metadata.uid, resourceVersion: move.metadata.resourceVersion }, status: changes };
    const written = await client.patch(Moves, move.metadata.name, patch, { subresource: 'status' });
    const phase = phaseOf(written);
    log.info(
      { move: move.metadata.name, volume: move.spec.volume, epoch: written.status?.epoch, phase, round: written.status?.round },
      'move goes on',
    );
    if (phase === phaseOf(move)) return undefined;
    const message = `move ${move.metadata.name} of ${move.spec.volume} to ${move.spec.target}: ${phase}${changes.obstacle ? `: ${changes.obstacle.message}` : ''}`;
    for (const about of volume ? [written, volume] : [written])
      tell(about, phase === 'Failed' ? 'Warning' : 'Normal', `Move${phase}`, message);
    return undefined;
  }

  #since(seen: MoveSeen, why: Why | null): Obstacle | null {
    return withSince(why, seen.move.status?.obstacle, timestamp(this.#ports.clock));
  }

  /** The obstacle is written when it changed, so that waiting costs no write. */
  async #wait(seen: MoveSeen, { why, againMs }: Of<'wait'>): Promise<Again> {
    const before = seen.move.status?.obstacle;
    if (!saysSame(before, why)) {
      await this.#to(seen, { obstacle: this.#since(seen, why), phase: phaseOf(seen.move) });
      if (isNew(why, before)) this.#ports.tell(seen.move, waiting(why) ? 'Normal' : 'Warning', why.reason, why.message);
    }
    return againMs === undefined ? undefined : { again: againMs };
  }

  /** The finalizer first: from now on the move is ended in order, also when it is deleted. */
  async #accept(seen: MoveSeen, { status }: Of<'accept'>): Promise<Again> {
    const { client, clock, crash } = this.#ports;
    const { metadata } = seen.move;
    const finalizers = metadata.finalizers ?? [];
    const move = finalizers.includes(MOVE_FINALIZER)
      ? seen.move
      : await client.patch(Moves, metadata.name, {
          metadata: { resourceVersion: metadata.resourceVersion, finalizers: [...finalizers, MOVE_FINALIZER] },
        });
    crash('accept:finalizer');
    return this.#to({ ...seen, move }, { phase: 'Reserving', startedAt: timestamp(clock), obstacle: null, ...status });
  }

  async #order({ volume }: MoveSeen, { copy, entry }: Of<'order'>): Promise<Again> {
    if (!volume) return undefined;
    await this.#ports.client.patch(
      Volumes,
      volume.metadata.name,
      { metadata: { uid: volume.metadata.uid }, status: { copies: { [copy]: entry } } },
      { subresource: 'status' },
    );
    return { again: 0 };
  }

  /** The one compare-and-swap that moves a volume. When its answer is lost, the next look finds out. */
  async #commit(seen: MoveSeen): Promise<Again> {
    const { volume, move } = seen;
    const { target, epoch = 0 } = move.status ?? {};
    if (!volume || !target) return undefined;
    this.#ports.crash('commit:before');
    const spec: Volume['spec'] = { ...volume.spec, node: target.node, copy: target.copy, epoch: epoch + 1, move: move.metadata.name };
    await this.#ports.client.replace(Volumes, { ...volume, spec });
    this.#ports.crash('commit:swapped');
    return this.#to(seen, { phase: 'Committed', committedAt: timestamp(this.#ports.clock), obstacle: null });
  }

  /** The same node and copy, a higher epoch: whoever tries to commit what was observed before fails. */
  async #unfence({ volume }: MoveSeen): Promise<Again> {
    if (!volume) return undefined;
    await this.#ports.client.replace(Volumes, { ...volume, spec: { ...volume.spec, epoch: (volume.spec.epoch ?? 0) + 1 } });
    this.#ports.crash('unfence:swapped');
    return { again: 0 };
  }

  async #forget({ move }: MoveSeen): Promise<Again> {
    const { name, resourceVersion, finalizers = [] } = move.metadata;
    if (!finalizers.includes(MOVE_FINALIZER)) return undefined;
    await this.#ports.client.patch(Moves, name, {
      metadata: { resourceVersion, finalizers: finalizers.filter((one) => one !== MOVE_FINALIZER) },
    });
    return undefined;
  }
}

/** For whoever waits by condition (`kubectl wait`). */
const ended = (phase: Of<'end'>['phase'], why: Why | null, at: string): Condition => ({
  type: phase === 'Done' ? 'Complete' : 'Failed',
  status: 'True',
  reason: why?.reason ?? phase,
  message: why?.message ?? '',
  lastTransitionTime: at,
});

const waiting = (why: Why): boolean => ['Queued', 'WaitingForUnpublish', 'VolumeNotReady'].includes(why.reason);

/** The oldest goes first; names decide between those of one second. */
function comesBefore(one: Stored<Move>, other: Stored<Move>): boolean {
  const key = (move: Stored<Move>): string =>
    `${phaseOf(move) === 'Pending' ? 1 : 0} ${move.metadata.creationTimestamp} ${move.metadata.name}`;
  return key(one) < key(other);
}
