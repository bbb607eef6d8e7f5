// The rules of DESIGN.md as the engine has them, judged after every event against what is true: by the bytes, the mounts and the labels on
// the disks and by every write of a record. Uses none of the shipped judgements, so that a broken one is seen. The first breach ends a
// history.
import { copyName, type CopyLabel } from '../model/label.ts';
import type { ApiObject, Stored } from '../model/meta.ts';
import type { Move, MovePhase } from '../model/move.ts';
import { durationMs } from '../model/names.ts';
import type { Volume } from '../model/volume.ts';
import type { MemoryDisk } from '../pools/memory.ts';
import type { Snapshot } from '../model/snapshot.ts';
import { textAt, type MemoryCopy } from './blocks.ts';
import { identityOf, type Machine } from './machine.ts';
import type { Seen } from './server.ts';
import { SnapshotRules } from './snapshot-rules.ts';
import type { VirtualTime } from './time.ts';
import { newTruth, placedOf, type Placed, type VolumeTruth } from './truth.ts';

export interface RulesParts {
  machines: ReadonlyMap<string, Machine>;
  time: VirtualTime;
  /** Current moves, as recorded. */
  moves: () => readonly Stored<Move>[];
  volumes: () => readonly Stored<Volume>[];
}

/** Clocks differ by less than this, ms. */
export const SKEW = 20_000;
/** Whoever had decided on a removal before the records went back, and stood still, may carry it out so late, ms. */
const LONGEST_STUN = 80_000;
const UNBEGUN = new Set<MovePhase>(['Pending', 'Published', 'Retaining', 'Done', 'Cancelled', 'Failed']);
const ROLLED_BACK = new Set<MovePhase>(['Cancelled', 'Failed']);
const CARRIED_OUT = new Set<MovePhase>(['Retaining', 'Done', 'Published']);
/** What may come after what, besides a cancel before the commit (docs/moves.md). */
const FOLLOWS: { [P in MovePhase]: readonly MovePhase[] } = {
  Pending: ['Reserving', 'Cancelled', 'Failed'],
  Reserving: ['Syncing', 'Fencing', 'Cancelling'],
  Syncing: ['ReadyToCutOver', 'Fencing', 'Cancelling', 'Committed'],
  ReadyToCutOver: ['Fencing', 'Cancelling', 'Committed'],
  Fencing: ['Syncing', 'ReadyToCutOver', 'FinalDelta', 'Cancelling', 'Committed'],
  FinalDelta: ['Syncing', 'Verifying', 'Cancelling', 'Committed'],
  Verifying: ['Syncing', 'Cancelling', 'Committed'],
  Committed: ['Activating'],
  Activating: ['Published', 'Retaining'],
  Published: ['Retaining'],
  Retaining: ['Done'],
  Cancelling: ['Cancelled', 'Failed', 'Committed'],
  Done: [],
  Cancelled: [],
  Failed: [],
};

interface OnDisk {
  node: string;
  label: CopyLabel;
}

export class Rules {
  readonly truths = new Map<string, VolumeTruth>();
  /** The first that was broken. */
  breach: string | null = null;
  /** Writes by kind, for what an unchanged world may cost. */
  readonly writes = new Map<string, number>();
  /** How moves (by UID) ended. */
  readonly ended = new Map<string, string>();
  /** Where moves (by UID) were last seen. */
  #progress = new Map<string, { phase: MovePhase; round: number }>();
  /** A person writes. */
  #ordering = false;
  #disksTouched = true;
  #rolledBackAt = 0;
  #copies = new Map<string, OnDisk>();
  readonly #parts: RulesParts;
  readonly #snapshots: SnapshotRules;

  constructor(parts: RulesParts) {
    this.#parts = parts;
    this.#snapshots = new SnapshotRules({ ...parts, truths: this.truths, break: (rule, what) => this.break(rule, what) });
  }

  break(rule: string, what: string): void {
    this.breach ??= `${rule}: ${what}`;
  }

  readonly touched = (): void => {
    this.#disksTouched = true;
  };

  // ---- records -----------------------------------------------------------------------------------------------------------------

  /** What is written within it is what a person asks for. */
  ordered(act: () => unknown): void {
    this.#ordering = true;
    try {
      act();
    } finally {
      this.#ordering = false;
    }
  }

  wrote(kind: string, { type, object }: Seen): void {
    this.writes.set(kind, (this.writes.get(kind) ?? 0) + 1);
    if (kind === 'Volume') this.#volume(type, object as unknown as Stored<Volume>);
    if (kind === 'Move') this.#move(object as Stored<ApiObject> as unknown as Stored<Move>);
    if (kind === 'Snapshot') this.#snapshots.wrote(type, object as Stored<ApiObject> as unknown as Stored<Snapshot>);
  }

  #volume(type: Seen['type'], volume: Stored<Volume>): void {
    const { uid, deletionTimestamp } = volume.metadata;
    const truth = this.truths.get(uid) ?? newTruth(volume);
    this.truths.set(uid, truth);
    if (deletionTimestamp !== undefined) this.#deleting(truth);
    this.#checkAsked(truth, volume.spec.size);
    for (const [copy, { created }] of Object.entries(volume.status?.copies ?? {})) if (created) truth.reported.add(copy);
    if (type === 'DELETED') return this.#deleted(truth);
    const next = placedOf(volume);
    if (next) this.#placed(truth, next, volume);
  }

  #checkAsked(truth: VolumeTruth, size: string): void {
    if (size !== truth.size && !this.#ordering)
      this.break('rule 3, nothing is written over unseen', `the size of ${truth.name} was ${truth.size}, and nobody asked for ${size}`);
    truth.size = size;
  }

  #deleting(truth: VolumeTruth): void {
    if (!truth.deleting) truth.deletingSince = this.#parts.time.now;
    truth.deleting = true;
  }

  #deleted(truth: VolumeTruth): void {
    truth.gone = true;
    const left = [...this.#onDisks()].filter(([, { label }]) => label.volumeUid === truth.uid);
    if (left.length > 0 && !truth.rewritten && !truth.lost)
      this.break('rule 3, nothing leaks', `${truth.name} is gone from the records, but on ${left.map(([, { node }]) => node).join(', ')}`);
  }

  #placed(truth: VolumeTruth, next: Placed, volume: Stored<Volume>): void {
    const before = truth.placed;
    if (truth.gone) return;
    if (!before || truth.lost) {
      truth.placed = next;
      truth.epochs.set(next.epoch, next.copy);
      return;
    }
    if (truth.behind) return this.#decided(truth, next);
    if (next.epoch < before.epoch)
      return this.break('rule 3, commit and abort', `${truth.name} went back to epoch ${next.epoch} from ${before.epoch}`);
    const of = truth.epochs.get(next.epoch);
    if (of !== undefined && of !== next.copy)
      return this.break('rule 3, commit and abort', `epoch ${next.epoch} of ${truth.name} is ${of}'s and ${next.copy}'s`);
    truth.epochs.set(next.epoch, next.copy);
    truth.placed = next;
    if (next.epoch !== before.epoch) truth.placedAt = this.#parts.time.now;
    if (next.copy !== before.copy) this.#committed(truth, before, volume);
  }

  /** A person named a copy again after the records had gone back. */
  #decided(truth: VolumeTruth, next: Placed): void {
    if (next.epoch <= (truth.placed?.epoch ?? 0) && next.copy !== truth.placed?.copy) return;
    if (next.epoch < (truth.placed?.epoch ?? 0)) return;
    truth.behind = false;
    truth.placed = next;
    truth.placedAt = this.#parts.time.now;
    truth.epochs = new Map([[next.epoch, next.copy]]);
    this.touched();
  }

  /** The records are those of a backup now: whatever they say otherwise than is true waits for a person. */
  rolledBack(volumes: readonly Stored<Volume>[]): void {
    for (const truth of this.truths.values()) {
      const record = volumes.find(({ metadata }) => metadata.uid === truth.uid);
      truth.rewritten = true;
      this.#undeleted(truth, record?.metadata.deletionTimestamp !== undefined);
      truth.size = record?.spec.size ?? truth.size;
      this.#rolledBack(truth, record ? placedOf(record) : null);
    }
    this.#progress.clear();
    this.#rolledBackAt = this.#parts.time.now;
    this.touched();
  }

  /** What was removed at its deletion does not come back with its record. */
  #undeleted(truth: VolumeTruth, deleting: boolean): void {
    if (truth.deleting && truth.placed && !this.#find(truth, truth.placed)) truth.lost = true;
    if (truth.deleting && !deleting) truth.undeletedAt = this.#parts.time.now;
    truth.deleting = deleting;
  }

  /** An epoch that no disk has heard of is forgotten without harm. */
  #rolledBack(truth: VolumeTruth, told: Placed | null): void {
    const { placed } = truth;
    if (truth.gone || !placed) return;
    const label = this.#find(truth, placed)?.label;
    truth.behind = told?.copy !== placed.copy || (label?.epoch ?? 0) > told.epoch;
    if (truth.behind || !told) return;
    truth.placed = told;
    truth.epochs = new Map([[told.epoch, told.copy]]);
  }

  /** A disk was exchanged: what was on it is lost. Where only a spare was on it, nothing is lost. */
  diskLost(node: string, { copies }: MemoryDisk): void {
    for (const [key, { node: on, label }] of this.#onDisks()) {
      if (on !== node || !copies.has(copyName(label))) continue;
      this.#copies.delete(key);
      const truth = this.truths.get(label.volumeUid);
      truth?.lostCopies.add(copyName(label));
      if (truth && (truth.placed?.copy === label.copy || label.role === 'incoming')) truth.lost = true;
    }
  }

  #committed(truth: VolumeTruth, before: Placed, volume: Stored<Volume>): void {
    const { placed, name } = truth;
    if (!placed) return;
    const move = placed.move ?? '';
    if (truth.committed.has(move) && !truth.rewritten) this.break('rule 3, commit and abort', `${move} committed twice`);
    truth.committed.add(move);
    truth.superseded.set(before.copy, {
      at: this.#parts.time.now,
      retained: durationMs(volume.spec.retainSource ?? '24h'),
      move,
    });
    if (truth.deleting) return;
    const source = this.#find(truth, before);
    const target = this.#find(truth, placed);
    if (!target) return this.break('rule 2', `${name} was committed to copy ${placed.copy} on ${placed.node}, which is not there`);
    if (source && source.label.role !== 'retired')
      this.break('rule 1', `${name} was committed while its source on ${before.node} was ${source.label.role}, not fenced`);
    this.#compare(truth, target, `the copy on ${placed.node} that was committed`);
  }

  #find({ uid }: VolumeTruth, { node, copy }: Placed): MemoryCopy | undefined {
    return this.#parts.machines.get(node)?.copy(`${uid}-${copy}`);
  }

  #move({ metadata, status = {} }: Stored<Move>): void {
    const { volumeUid = '', phase = 'Pending', round = -1 } = status;
    const truth = this.truths.get(volumeUid);
    this.#checkProgress(metadata, phase, round);
    if (phase === 'Done' || ROLLED_BACK.has(phase)) this.ended.set(metadata.uid, phase);
    if (!truth || truth.rewritten || truth.lost) return;
    this.#checkOnlyMove(truth, metadata.name, phase);
    this.#checkEnding(truth, metadata.name, phase);
  }

  #checkProgress({ uid, name }: Stored<Move>['metadata'], phase: MovePhase, round: number): void {
    const before = this.#progress.get(uid) ?? { phase, round };
    this.#progress.set(uid, { phase, round });
    if (phase !== before.phase && !FOLLOWS[before.phase].includes(phase))
      this.break('rule 3, nothing is written over unseen', `${name} was ${before.phase}, and is ${phase}`);
    if (round < before.round)
      this.break('rule 3, nothing is written over unseen', `${name} was in round ${before.round}, and is in ${round}`);
  }

  #checkOnlyMove(truth: VolumeTruth, name: string, phase: MovePhase): void {
    const unfinished = this.#parts
      .moves()
      .filter((move) => move.status?.volumeUid === truth.uid && !UNBEGUN.has(move.status.phase ?? 'Pending'))
      .map((move) => move.metadata.name);
    if (!UNBEGUN.has(phase)) unfinished.push(name);
    if (new Set(unfinished).size > 1)
      this.break('at most one unfinished move', `${truth.name} has ${[...new Set(unfinished)].join(' and ')}`);
  }

  #checkEnding(truth: VolumeTruth, name: string, phase: MovePhase): void {
    const committed = truth.committed.has(name);
    if (ROLLED_BACK.has(phase) && committed) this.break('rule 3, commit and abort', `${name} is ${phase}, but was committed`);
    if (CARRIED_OUT.has(phase) && !committed && !truth.deleting)
      this.break('rule 3, commit and abort', `${name} is ${phase}, but was never committed`);
  }

  // ---- disks -------------------------------------------------------------------------------------------------------------------

  #onDisks(): Map<string, OnDisk> {
    const copies = new Map<string, OnDisk>();
    for (const { name: node, copies: there } of this.#parts.machines.values())
      for (const [name, { label }] of there) copies.set(`${name} on ${node}`, { node, label });
    return copies;
  }

  /** After every event. */
  check(): void {
    if (!this.#disksTouched || this.breach !== null) return;
    this.#disksTouched = false;
    const now = this.#onDisks();
    for (const [key, copy] of now) {
      const before = this.#copies.get(key);
      if (!before) this.#made(copy);
      else if (before.label !== copy.label) this.#relabelled(before.label, copy);
    }
    for (const [key, copy] of this.#copies) if (!now.has(key)) this.#removed(copy);
    this.#copies = now;
    this.#snapshots.check();
    this.#checkUse();
    for (const truth of this.truths.values()) this.#checkNamed(truth);
  }

  #made({ node, label }: OnDisk): void {
    const truth = this.truths.get(label.volumeUid);
    if (!truth) return;
    if (label.role === 'active' && truth.reported.has(label.copy) && !truth.rewritten)
      this.break('rule 6, never made again', `copy ${label.copy} of ${truth.name} was made on ${node} as an active one`);
    const copy = this.#parts.machines.get(node)?.copy(copyName(label));
    if (truth.made.size === 0 && copy && label.role === 'active') this.#snapshots.begun(truth, copy);
    truth.made.add(label.copy);
  }

  #relabelled(before: CopyLabel, { node, label }: OnDisk): void {
    const truth = this.truths.get(label.volumeUid);
    if (!truth || before.role === label.role || label.role !== 'active') return;
    const { placed, behind, name } = truth;
    const where = `copy ${label.copy} of ${name} on ${node} (${before.role}, epoch ${before.epoch}) became active at epoch ${label.epoch}`;
    if (behind) return this.break('rule 1, records behind', `${where} before anybody decided`);
    this.#checkIsPlaced(where, label, placed);
    if (before.role === 'retired' && label.epoch <= before.epoch)
      this.break('rule 3, commit and abort', `${where}: a late commit would succeed`);
  }

  #checkIsPlaced(where: string, label: CopyLabel, placed: VolumeTruth['placed']): void {
    if (placed?.copy !== label.copy) this.break('rule 1', `${where}, but ${placed?.copy} on ${placed?.node} is the one`);
    if (label.epoch > (placed?.epoch ?? 0)) this.break('rule 1', `${where}, the record says ${placed?.epoch}`);
  }

  #removed({ node, label }: OnDisk): void {
    const truth = this.truths.get(label.volumeUid);
    if (!truth || mayLose(truth)) return;
    const what = `copy ${label.copy} of ${truth.name} (${label.role}, epoch ${label.epoch}) on ${node} was removed`;
    if (truth.placed?.copy === label.copy) return this.break('rule 2', `${what}, and is the one that the record names`);
    if (label.role !== 'incoming') this.#checkReleased(what, truth, label);
  }

  #checkReleased(what: string, truth: VolumeTruth, label: CopyLabel): void {
    const kept = truth.superseded.get(label.copy);
    if (label.role !== 'stale' || !kept) return this.break('rule 2', `${what}, and nothing superseded it`);
    const { now } = this.#parts.time;
    if (now + SKEW < kept.at + kept.retained)
      this.break('rule 2, retention', `${what} ${Math.round(now - kept.at)} ms after its successor was committed`);
    if (!truth.scrubbed.has(label.moveUid ?? '') && !this.#isUnscrubbable(truth, label))
      this.break('rule 2, scrub', `${what} before its successor was scrubbed`);
  }

  /** What superseded it was superseded too, or its pool has no points in time. */
  #isUnscrubbable(truth: VolumeTruth, label: CopyLabel): boolean {
    const move = this.#parts.moves().find(({ metadata }) => metadata.uid === label.moveUid);
    const { target, incoming } = move?.status ?? {};
    if (!move || !target || incoming?.scrub?.state === 'Impossible') return true;
    return truth.placed?.copy !== target.copy;
  }

  #checkUse(): void {
    const users = new Map<string, Set<string>>();
    for (const machine of this.#parts.machines.values())
      for (const { copy } of machine.inUse()) {
        const truth = this.truths.get(copy.label.volumeUid);
        if (!truth || truth.lost) continue;
        users.set(truth.uid, (users.get(truth.uid) ?? new Set()).add(`${copy.label.copy} on ${machine.name}`));
        this.#checkUsed(truth, copy.label, machine.name);
        this.#checkDistinct(machine, copy);
      }
    for (const [uid, using] of users)
      if (using.size > 1) this.break('rule 1', `${this.truths.get(uid)?.name} is in use at ${[...using].join(' and ')}`);
  }

  /** Two filesystems of one identity are taken for each other. */
  #checkDistinct(machine: Machine, copy: MemoryCopy): void {
    const identity = identityOf(copy);
    const other = machine.inUse().find((used) => used.copy !== copy && identity !== '' && identityOf(used.copy) === identity);
    if (other && hasOwnFilesystem(copy) && hasOwnFilesystem(other.copy))
      this.break(
        'snapshots',
        `${copy.label.volume} and ${other.copy.label.volume} are in use on ${machine.name}, and are one filesystem by their identity`,
      );
  }

  #checkUsed(truth: VolumeTruth, label: CopyLabel, node: string): void {
    const { name, placed, behind, gone } = truth;
    if (!behind && !gone && placed?.copy !== label.copy)
      this.break('rule 1', `${name} is in use at copy ${label.copy} on ${node}, but ${placed?.copy} is the one`);
    if (label.role !== 'active') this.break('rule 1', `a copy of ${name} on ${node} is in use and ${label.role}`);
  }

  #checkNamed(truth: VolumeTruth): void {
    const { placed, deleting, gone, lost, behind } = truth;
    if (!placed || deleting || gone || lost || behind || !truth.made.has(placed.copy)) return;
    if (this.#find(truth, placed)) return;
    if (truth.undeletedAt !== null && this.#parts.time.now < truth.undeletedAt + LONGEST_STUN) truth.lost = true;
    else this.break('rule 2', `copy ${placed.copy} of ${truth.name}, which the record names, is not on ${placed.node}`);
  }

  // ---- bytes -------------------------------------------------------------------------------------------------------------------

  /** Before a filesystem is made. */
  formats({ label, live }: MemoryCopy): void {
    const truth = this.truths.get(label.volumeUid);
    if (!truth) return;
    if (truth.formatted || label.formatted)
      this.break('rule 6, never format on a guess', `${truth.name} was formatted again over ${live.size} blocks`);
  }

  /** A writable mount was made, as was asked at that time. */
  mounted({ label }: MemoryCopy, node: string, asked: number): void {
    const truth = this.truths.get(label.volumeUid);
    if (!truth || truth.lost || truth.gone || asked < this.#rolledBackAt) return;
    if (truth.behind) this.break('rule 1, records behind', `${truth.name} was published on ${node} before anybody decided`);
    this.#checkFresh(truth, label, { node, asked });
  }

  /** What was so before it was asked for is known to whoever reads afresh. */
  #checkFresh(truth: VolumeTruth, label: CopyLabel, { node, asked }: { node: string; asked: number }): void {
    const { placed, placedAt, deleting, deletingSince, name } = truth;
    const where = `${name} was published on ${node} at epoch ${label.epoch}`;
    if (placed && label.epoch < placed.epoch && asked > placedAt)
      this.break('rule 1, a fresh read', `${where}, and the record said ${placed.epoch} before it was asked for`);
    if (deleting && asked > deletingSince) this.break('rule 1, a fresh read', `${where} after it had been deleted`);
  }

  /** Every block that was acknowledged is there. */
  compare({ label, live }: MemoryCopy, where: string): void {
    const truth = this.truths.get(label.volumeUid);
    if (truth && !truth.lost) this.#compare(truth, { live }, where);
  }

  #compare({ name, acknowledged }: VolumeTruth, { live }: Pick<MemoryCopy, 'live'>, where: string): void {
    for (const [block, text] of acknowledged)
      if (textAt(live, block) !== text)
        return this.break(
          'acknowledged writes are there',
          `${name}: ${where} has ${JSON.stringify(textAt(live, block).slice(0, 40))} in block ${block}, not ${JSON.stringify(text)}`,
        );
  }

  scrubbed(moveUid: string, same: boolean): void {
    for (const truth of this.truths.values()) {
      if (
        !same &&
        !truth.rewritten &&
        this.#parts.moves().some(({ metadata, status }) => metadata.uid === moveUid && status?.volumeUid === truth.uid)
      )
        this.break('acknowledged writes are there', `the scrub of ${truth.name} found a difference`);
      if (same) truth.scrubbed.add(moveUid);
    }
  }
}

const hasOwnFilesystem = ({ label }: MemoryCopy): boolean => label.volumeMode === 'Filesystem';

/** Its copies may go: it is deleted, or a person has taken it over. */
const mayLose = (truth: VolumeTruth): boolean => truth.deleting || truth.gone || truth.lost || truth.rewritten;
