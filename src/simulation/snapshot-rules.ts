// The rules of snapshots and of what begins with them, judged by the bytes on the disks: a snapshot has all that was acknowledged before it was
// ordered and does not change, it stays until somebody deletes it and while a volume is being made of it, and a clone begins with exactly its
// bytes. Uses none of the shipped judgements.
import { copyName } from '../model/label.ts';
import type { Stored } from '../model/meta.ts';
import { isSnapshotPoint, snapshotPoint } from '../model/points.ts';
import { shortUid } from '../model/names.ts';
import type { Snapshot } from '../model/snapshot.ts';
import type { Volume } from '../model/volume.ts';
import { textAt, writtenAt, type MemoryCopy } from './blocks.ts';
import type { Machine } from './machine.ts';
import type { Seen } from './server.ts';
import type { VolumeTruth } from './truth.ts';

type Blocks = MemoryCopy['live'];

interface SnapshotTruth {
  uid: string;
  name: string;
  /** What its volume's application was told is written, when it was ordered. */
  acknowledged: ReadonlyMap<bigint, string>;
  /** Node and copy, once the record says that it is there. */
  ready: { node: string; copy: string } | null;
  /** UIDs of volumes that were to be made of it when its deletion was asked for; null: it was not. */
  wanted: ReadonlySet<string> | null;
}

export interface SnapshotRulesParts {
  machines: ReadonlyMap<string, Machine>;
  truths: ReadonlyMap<string, VolumeTruth>;
  volumes: () => readonly Stored<Volume>[];
  break: (rule: string, what: string) => void;
}

export class SnapshotRules {
  readonly #parts: SnapshotRulesParts;
  /** By UID, of those that are recorded. */
  readonly #snapshots = new Map<string, SnapshotTruth>();
  /** What each name stood for last. */
  readonly #named = new Map<string, string>();
  /** Points on the disks, by node, copy and name, as they were first seen. */
  #points = new Map<string, Blocks>();
  /** What a point had, by the Snapshot's part of its name, on whatever copy. */
  readonly #held = new Map<string, Blocks[]>();

  constructor(parts: SnapshotRulesParts) {
    this.#parts = parts;
  }

  // ---- records -----------------------------------------------------------------------------------------------------------------

  wrote(type: Seen['type'], snapshot: Stored<Snapshot>): void {
    const { uid, name, deletionTimestamp } = snapshot.metadata;
    const truth = this.#snapshots.get(uid) ?? this.#ordered(snapshot);
    this.#snapshots.set(uid, truth);
    this.#named.set(name, uid);
    if (deletionTimestamp !== undefined) this.#leaving(truth, snapshot);
    if (snapshot.status?.phase === 'Ready' && truth.ready === null) this.#taken(truth, placeOf(snapshot));
    if (type === 'DELETED') this.#snapshots.delete(uid);
  }

  #leaving(truth: SnapshotTruth, snapshot: Stored<Snapshot>): void {
    truth.wanted ??= this.#makes(snapshot);
    if (snapshot.status?.phase === 'Deleting' || !snapshot.metadata.finalizers?.length) this.#checkUnwanted(truth);
  }

  #ordered({ metadata: { uid, name }, spec }: Stored<Snapshot>): SnapshotTruth {
    const volume = this.#parts.volumes().find(({ metadata }) => metadata.name === spec.volume);
    const acknowledged = new Map(this.#parts.truths.get(volume?.metadata.uid ?? '')?.acknowledged);
    return { uid, name, acknowledged, ready: null, wanted: null };
  }

  /** Volumes that begin with it, and have not. */
  #makes({ metadata: { name } }: Stored<Snapshot>): Set<string> {
    const makes = this.#parts.volumes().filter((volume) => sourceOf(volume) === name && isUnmade(volume));
    return new Set(makes.map(({ metadata }) => metadata.uid));
  }

  #checkUnwanted({ name, wanted }: SnapshotTruth): void {
    const still = this.#parts.volumes().find((volume) => wanted?.has(volume.metadata.uid) && isUnmade(volume));
    if (still) this.#parts.break('snapshots', `${name} is let go, and ${still.metadata.name} was to be made of it before it was deleted`);
  }

  #taken(truth: SnapshotTruth, ready: { node: string; copy: string }): void {
    truth.ready = ready;
    const { name, acknowledged } = truth;
    const point = this.#pointOf(truth);
    if (!point) return this.#checkThere(truth);
    for (const [block, text] of acknowledged)
      if (writtenAt(textAt(point, block)) < writtenAt(text))
        this.#parts.break(
          'snapshots',
          `${name} has ${JSON.stringify(textAt(point, block))} in block ${block}, and ${JSON.stringify(text)} was acknowledged before it was ordered`,
        );
  }

  #copyOf({ ready }: SnapshotTruth): MemoryCopy | undefined {
    return this.#parts.machines.get(ready?.node ?? '')?.copy(ready?.copy ?? '');
  }

  #pointOf(truth: SnapshotTruth): Blocks | undefined {
    return this.#copyOf(truth)?.points.get(snapshotPoint(truth.uid))?.blocks;
  }

  // ---- disks -------------------------------------------------------------------------------------------------------------------

  /** After every event that touched a disk. */
  check(): void {
    const now = new Map<string, Blocks>();
    const copies = [...this.#parts.machines.values()].flatMap(({ name: node, disk }) =>
      [...disk.copies].map(([name, copy]) => ({ at: `${node} ${name}`, points: copy.points })),
    );
    for (const { at, points } of copies)
      for (const [point, { blocks }] of points) if (isSnapshotPoint(point)) this.#seen(now, { at: `${at} ${point}`, point, blocks });
    this.#points = now;
    for (const truth of this.#snapshots.values()) this.#checkThere(truth);
  }

  #seen(now: Map<string, Blocks>, { at, point, blocks }: { at: string; point: string; blocks: Blocks }): void {
    const before = this.#points.get(at);
    // Nobody writes to a point, so what it had first is what it has; a copy of it is kept for when it is gone.
    const held = before ?? new Map(blocks);
    if (!before) this.#held.set(point, [...(this.#held.get(point) ?? []), held]);
    else if (!areSame(before, blocks)) this.#parts.break('snapshots', `the point ${at} has changed`);
    now.set(at, held);
  }

  #checkThere(truth: SnapshotTruth): void {
    if (!truth.ready || truth.wanted || this.#isLost(truth) || this.#pointOf(truth)) return;
    this.#parts.break('snapshots', `${truth.name} is not on ${truth.ready.node} any more, and nobody deleted it`);
  }

  /** Its disk was exchanged, or whoever looks after it by hand removed it. */
  #isLost({ ready }: SnapshotTruth): boolean {
    const [truth] = [...this.#parts.truths.values()].filter(({ uid }) => ready?.copy.startsWith(uid));
    return truth === undefined || truth.lost || truth.rewritten || truth.lostCopies.has(ready?.copy ?? '');
  }

  /** The first copy of a volume that begins with a snapshot: it has these bytes and no others, and they are as good as acknowledged. */
  begun(truth: VolumeTruth, { live }: MemoryCopy): void {
    const record = this.#parts.volumes().find(({ metadata }) => metadata.uid === truth.uid);
    const name = record && sourceOf(record);
    if (!name) return;
    const held = this.#held.get(snapshotPoint(this.#named.get(name) ?? '')) ?? [];
    if (!held.some((blocks) => areSame(blocks, live)))
      return this.#parts.break('snapshots', `${truth.name} begins with other bytes than snapshot ${name} has`);
    truth.formatted = textAt(live, 0n) !== '' && record.spec.volumeMode !== 'Block';
    for (const block of live.keys()) if (writtenAt(textAt(live, block)) >= 0) truth.acknowledged.set(block, textAt(live, block));
  }
}

function placeOf({ status = {} }: Stored<Snapshot>): { node: string; copy: string } {
  const { node = '', copy = '', volumeUid = '' } = status;
  return { node, copy: copyName({ volumeUid, copy }) };
}

const areSame = (one: Blocks, other: Blocks): boolean =>
  one.size === other.size && [...one].every(([block, bytes]) => other.get(block) === bytes);

const isUnmade = ({ metadata, spec, status }: Stored<Volume>): boolean =>
  metadata.deletionTimestamp === undefined && status?.copies?.[spec.copy ?? '']?.created !== true;

/** As users are told (docs): the one that is named, or the one that is taken for it. */
function sourceOf({ metadata, spec }: Stored<Volume>): string | null {
  if (!spec.source) return null;
  return spec.source.snapshot ?? `clone-${shortUid(metadata.uid)}`;
}
