// Makes this node's copies of one volume agree with the records: look (fresh), decide (decide/copies.ts), carry out step by step, report.
// No branch that belongs to the decision is taken here. A failed step becomes the obstacle of its copy and is tried again.
import { nextCopySteps, type CopyStep } from '../decide/copies.ts';
import { servedCopy, withSince, type Why } from '../decide/observed.ts';
import { sourceSnapshot } from '../decide/snapshots.ts';
import { timestamp } from '../model/clock.ts';
import { FlockError, isReason, messageOf, reasonOf } from '../model/errors.ts';
import type { Stored } from '../model/meta.ts';
import { isSnapshotPoint } from '../model/points.ts';
import type { Snapshot } from '../model/snapshot.ts';
import type { CopyStatus, Volume } from '../model/volume.ts';
import type { CopyActs } from './acts.ts';
import type { Copies, LocalCopy } from './copies.ts';
import { nameOf, type Inventory } from './inventory.ts';
import type { Turns } from '../host/turns.ts';
import type { AgentPorts } from './ports.ts';
import { allMovesOf, allSnapshotsOf, freshSnapshot, freshVolume, movesOf, patchEntry, type World } from './records.ts';

/** Steps that could rest on a move or a snapshot not being there. */
const RESTING_ON_ABSENCE: ReadonlySet<CopyStep['step']> = new Set(['remove', 'dropEntry', 'releasePoint', 'relabel', 'blocked']);

interface Failure {
  copy: string;
  why: Why;
}

export class VolumeReconciler {
  readonly #ports: AgentPorts;
  readonly #copies: Copies;
  readonly #inventory: Inventory;
  readonly #acts: CopyActs;
  readonly #lock: Turns;

  constructor(ports: AgentPorts, parts: { copies: Copies; inventory: Inventory; acts: CopyActs; lock: Turns }) {
    this.#ports = ports;
    this.#copies = parts.copies;
    this.#inventory = parts.inventory;
    this.#acts = parts.acts;
    this.#lock = parts.lock;
  }

  /** One look and its steps. Throws when something is to be tried again. */
  reconcile(name: string): Promise<void> {
    return this.#lock(name, async () => {
      const volume = await freshVolume(this.#ports.client, name);
      const moves = await movesOf(this.#ports.client, this.#ports.known, name);
      const snapshots = this.#ports.known.snapshotsOf(name);
      const all = await this.#copies.all();
      const uids = new Set(all.filter(({ seen }) => seen.label.volume === name).map(({ seen }) => seen.label.volumeUid));
      if (volume) uids.add(volume.metadata.uid);
      const failures: Failure[] = [];
      for (const uid of uids)
        failures.push(...(await this.#oneUid(uid, { volume: volume?.metadata.uid === uid ? volume : null, moves, snapshots })));
      if (failures.length > 0) throw new FlockError('Unavailable', failures.map(({ why }) => why.message).join('; '));
    });
  }

  async #oneUid(uid: string, world: World): Promise<Failure[]> {
    const steps = await this.#decideSurely(uid, world);
    const failures: Failure[] = [];
    const obstacles = new Map<string, Why>();
    for (const step of steps) {
      if (step.step === 'blocked') {
        obstacles.set(step.copy, step.why);
        continue;
      }
      const why = await this.#act(uid, step, world);
      if (!why) continue;
      failures.push({ copy: step.copy, why });
      // Somebody wrote first: that is no obstacle, only another look.
      if (why.reason !== 'Conflict') obstacles.set(step.copy, why);
    }
    if (world.volume) await this.#report(world.volume, obstacles, steps);
    return failures;
  }

  /** What cannot be taken back is not done because a watch has not told of something yet: it is listed afresh, and decided again. */
  async #decideSurely(uid: string, world: World): Promise<CopyStep[]> {
    const steps = await this.#decide(uid, world);
    const name = world.volume?.metadata.name;
    if (name === undefined || !steps.some(({ step }) => RESTING_ON_ABSENCE.has(step))) return steps;
    world.moves = await allMovesOf(this.#ports.client, name);
    if (await this.#holdsSnapshots(uid)) world.snapshots = await allSnapshotsOf(this.#ports.client, name);
    return this.#decide(uid, world);
  }

  async #holdsSnapshots(uid: string): Promise<boolean> {
    return (await this.#copies.ofVolume(uid)).some(({ seen }) => seen.points.some((point) => isSnapshotPoint(point)));
  }

  async #decide(uid: string, { volume, moves, snapshots }: World): Promise<CopyStep[]> {
    const copies = await this.#copies.ofVolume(uid);
    return nextCopySteps({
      node: this.#ports.node,
      uid,
      volume,
      moves,
      copies: copies.map(({ seen }) => seen),
      unlabelled: (await this.#copies.unlabelled(uid)).map(({ seen }) => seen),
      pools: await this.#inventory.readable(),
      snapshots,
      source: await this.#source(volume),
    });
  }

  /** What the volume begins with, as long as it has not begun. */
  async #source(volume: Stored<Volume> | null): Promise<Stored<Snapshot> | null> {
    const name = volume && servedCopy(volume)?.created !== true ? sourceSnapshot(volume) : null;
    return name === null ? null : freshSnapshot(this.#ports.client, name);
  }

  async #act(uid: string, step: Exclude<CopyStep, { step: 'blocked' }>, world: World): Promise<Why | null> {
    const { log, crash, tell } = this.#ports;
    const fields = { volume: world.volume?.metadata.name, uid, epoch: world.volume?.spec.epoch, ...step, size: undefined };
    try {
      crash(`before:${step.step}`);
      await this.#acts.carryOut(uid, step, world);
      crash(`after:${step.step}`);
      // What is under way already is asked for again at every look.
      log[ONGOING.has(step.step) ? 'debug' : 'info'](fields, 'step taken');
      return null;
    } catch (error) {
      const reason = reasonOf(error);
      const level = reason === 'Conflict' ? 'info' : 'warn';
      log[level]({ ...fields, error: messageOf(error) }, 'step failed');
      if (world.volume && !isReason(error, 'Unavailable', 'Conflict'))
        tell(world.volume, 'Warning', `${capital(step.step)}Failed`, messageOf(error));
      return { reason, message: messageOf(error) };
    }
  }

  /** Writes this node's entries of the volume as the disk now is. */
  async #report(volume: Stored<Volume>, obstacles: ReadonlyMap<string, Why>, steps: readonly CopyStep[]): Promise<void> {
    const { client, clock } = this.#ports;
    const problems = await this.#inventory.problems();
    for (const [id, { obstacle: _before, ...entry }] of await this.#entries(volume, steps)) {
      const unreadable = problems.get(entry.pool);
      const why = obstacles.get(id) ?? (unreadable === undefined ? null : { reason: 'PoolNotUsable', message: unreadable });
      const obstacle = withSince(why, volume.status?.copies?.[id]?.obstacle, timestamp(clock));
      await patchEntry(client, volume, id, { ...entry, ...(obstacle ? { obstacle } : {}) });
    }
  }

  /** Copies on the disk as they are; recorded ones that are not there as they were, but for those just proven gone. */
  async #entries(volume: Stored<Volume>, steps: readonly CopyStep[]): Promise<Map<string, CopyStatus>> {
    const { node } = this.#ports;
    const gone = new Set(steps.filter(({ step }) => step === 'dropEntry' || step === 'remove').map(({ copy }) => copy));
    const { uid } = volume.metadata;
    const recorded = Object.entries(volume.status?.copies ?? {})
      .filter(([id, entry]) => entry.node === node && !gone.has(id))
      // What is mounted is known without the pool.
      .map(([id, entry]) => [id, entry.created ? { ...entry, published: this.#copies.published(nameOf(uid, id)) } : entry] as const);
    // What the record has on another node is that node's to report, wherever it lies.
    const own = (await this.#copies.ofVolume(uid)).filter(({ seen }) => (volume.status?.copies?.[seen.id]?.node ?? node) === node);
    const present = own.map((local) => {
      const entry = entryOf(node, local);
      // A disk that was put back to before its first format says that it never was: the record remembers.
      const formatted = entry.formatted || (volume.status?.copies?.[local.seen.id]?.formatted ?? false);
      return [local.seen.id, { ...entry, formatted }] as const;
    });
    return new Map([...recorded, ...present]);
  }
}

function entryOf(node: string, { found, seen }: LocalCopy): CopyStatus {
  const { label } = seen;
  return {
    node,
    pool: seen.pool,
    role: label.role,
    epoch: label.epoch,
    size: String(seen.size),
    ...(found.allocated === null ? {} : { allocated: String(found.allocated) }),
    formatted: label.formatted,
    created: true,
    published: [...seen.published],
    ...(label.cloned ? { cloned: true } : {}),
    ...snapshotsOn(seen),
    ...(found.device ? { device: found.device } : {}),
  };
}

function snapshotsOn({ points }: LocalCopy['seen']): Pick<CopyStatus, 'snapshots'> {
  const snapshots = points.filter((point) => isSnapshotPoint(point));
  return snapshots.length > 0 ? { snapshots } : {};
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const ONGOING: ReadonlySet<CopyStep['step']> = new Set(['pull', 'scrub']);
