// Carrying out one step of decide/copies.ts. Each is safe to repeat; where two things are written, docs/moves.md says in which order.
import type { CopyStep } from '../decide/copies.ts';
import { saysSame, servedCopy, withSince } from '../decide/observed.ts';
import { checkFilesystemSize } from '../decide/filesystem-size.ts';
import { timestamp } from '../model/clock.ts';
import { FlockError, isReason } from '../model/errors.ts';
import { copyName, type CopyLabel } from '../model/label.ts';
import type { Obstacle, Stored } from '../model/meta.ts';
import { Moves, type Move } from '../model/move.ts';
import { commitPoint, snapshotPoint } from '../model/points.ts';
import { USUAL_FILESYSTEM, Volumes, type CopyStatus, type Volume } from '../model/volume.ts';
import type { Copies, LocalCopy } from './copies.ts';
import { nameOf, type FoundCopy, type FoundUnlabelled, type Inventory } from './inventory.ts';
import type { AgentPorts } from './ports.ts';
import type { Pool } from '../pools/pool.ts';
import type { Publishing } from './publishing.ts';
import { patchEntry, patchMove, type World } from './records.ts';
import { SnapshotActs } from './snapshots.ts';
import type { Transfers } from './transfers.ts';

type Step = Exclude<CopyStep, { step: 'blocked' }>;
type Of<S extends Step['step']> = Extract<Step, { step: S }>;

/** What every image is made for: docs/decisions/0008. */
const SECTOR = 4096;

export interface ActParts {
  copies: Copies;
  inventory: Inventory;
  transfers: Transfers;
  publishing: Publishing;
  /** Reports the room of this node's pools. Never throws. */
  roomChanged: () => Promise<void>;
}

export class CopyActs {
  readonly #ports: AgentPorts;
  readonly #copies: Copies;
  readonly #inventory: Inventory;
  readonly #transfers: Transfers;
  readonly #publishing: Publishing;
  readonly #roomChanged: () => Promise<void>;
  readonly #acts: { [S in Step['step']]: (uid: string, step: Of<S>, world: World) => Promise<void> };

  constructor(ports: AgentPorts, parts: ActParts) {
    this.#ports = ports;
    this.#copies = parts.copies;
    this.#inventory = parts.inventory;
    this.#transfers = parts.transfers;
    this.#publishing = parts.publishing;
    this.#roomChanged = parts.roomChanged;
    const snapshots = new SnapshotActs(ports, parts);
    this.#acts = {
      create: (uid, step, world) => this.#create(uid, step, world),
      relabel: (uid, step, world) => this.#relabel(uid, step, world),
      reserved: (_uid, step, world) => patchMove(ports.client, move(world, step.move), { incoming: { reserved: true, obstacle: null } }),
      fence: (uid, step, world) => this.#fence(uid, step, world),
      pull: (uid, step, world) => this.#pull(uid, step, world),
      activate: (uid, step, world) => this.#activate(uid, step, world),
      scrub: async (uid, step, world) => this.#transfers.scrub(move(world, step.move), (await this.#copies.one(uid, step.copy)).found),
      grow: (uid, step) => this.#grow(uid, step),
      remove: (uid, step, world) => this.#remove(uid, step, world),
      releasePoint: (uid, step) => this.#releasePoint(uid, step),
      takeSnapshot: (uid, step) => snapshots.take(uid, step),
      dropSnapshot: (uid, step) => snapshots.drop(uid, step),
      dropEntry: (_uid, step, world) => patchEntry(ports.client, volume(world), step.copy, null),
    };
  }

  async carryOut<S extends Step['step']>(uid: string, step: Of<S>, world: World): Promise<void> {
    // The table has one act for each step; the compiler cannot see that key and argument belong together.
    const act = this.#acts[step.step] as (uid: string, step: Of<S>, world: World) => Promise<void>;
    await act(uid, step, world);
  }

  async #create(uid: string, step: Of<'create'>, world: World): Promise<void> {
    const pool = this.#ports.pools.get(step.pool);
    if (!pool) throw new FlockError('NotFound', `node ${this.#ports.node} has no pool "${step.pool}"`);
    const label = labelOf(uid, step, volume(world));
    if (label.volumeMode === 'Filesystem' && step.role === 'active' && !pool.openTree) checkFilesystemSize(label.filesystem, step.size);
    try {
      await pool.verify();
      await beBegun(pool, label, step);
    } catch (error) {
      if (step.moveUid !== undefined) await this.#refuseReservation(world, step.moveUid, error);
      throw error;
    } finally {
      await this.#changed(step.pool);
    }
    this.#ports.tell(
      volume(world),
      'Normal',
      'CopyCreated',
      `copy ${step.copy} (${step.role}) of ${step.size} bytes in pool ${step.pool} of node ${this.#ports.node}`,
    );
    if (step.moveUid === undefined) return;
    this.#ports.crash('reserve:created');
    await patchMove(this.#ports.client, moveByUid(world, step.moveUid), { incoming: { reserved: true, obstacle: null } });
  }

  async #refuseReservation(world: World, uid: string, error: unknown): Promise<void> {
    if (!(error instanceof FlockError)) return;
    const of = moveByUid(world, uid);
    if (saysSame(error, of.status?.incoming?.obstacle)) return;
    await patchMove(this.#ports.client, of, {
      incoming: { obstacle: this.#obstacle(error, of.status?.incoming?.obstacle) },
    });
  }

  #obstacle({ reason, message }: FlockError, before: Obstacle | undefined): Obstacle | null {
    return withSince({ reason, message }, before, timestamp(this.#ports.clock));
  }

  async #relabel(uid: string, step: Of<'relabel'>, world: World): Promise<void> {
    const { found } = await this.#copies.one(uid, step.copy);
    const before = found.label.role;
    await this.#copies.relabel(found, step.label);
    this.#ports.crash('relabel:written');
    if (step.label.role !== 'incoming') await this.#copies.letGo(found.name);
    if (step.label.role && step.label.role !== before)
      this.#ports.tell(
        volume(world),
        'Normal',
        'CopyRelabelled',
        `copy ${step.copy} on node ${this.#ports.node}: ${before} is ${step.label.role} now, epoch ${step.label.epoch ?? found.label.epoch}`,
      );
    if (step.report)
      await patchMove(this.#ports.client, move(world, step.report.move), {
        outgoing: { ...step.report.outgoing, fencedAt: null, fencedEpoch: null, obstacle: null },
      });
  }

  /** Hold, label, report: after a crash the label stands, and the device is held again before anything else. */
  async #fence(uid: string, step: Of<'fence'>, world: World): Promise<void> {
    const ordered = move(world, step.move);
    const { client, crash, clock, tell } = this.#ports;
    const local = await this.#copies.one(uid, step.copy);
    const { label } = local.found;
    await this.#holdFor(ordered, local);
    crash('fence:held');
    if (label.role !== 'retired') await this.#copies.relabel(local.found, { role: 'retired', moveUid: ordered.metadata.uid });
    crash('fence:labelled');
    const { formatted } = label;
    await patchMove(client, ordered, { outgoing: { fencedAt: timestamp(clock), fencedEpoch: step.epoch, formatted, obstacle: null } });
    tell(
      ordered,
      'Normal',
      'SourceFenced',
      `copy ${step.copy} on node ${this.#ports.node} is retired at epoch ${step.epoch}; nobody can write it`,
    );
  }

  /** Why it cannot be held is the move's obstacle, told once. */
  async #holdFor(ordered: Stored<Move>, local: LocalCopy): Promise<void> {
    const before = ordered.status?.outgoing?.obstacle;
    try {
      refuseWhilePublished(local);
      if (local.found.label.role === 'active') await this.#beforeHold(ordered, local.found);
      await this.#copies.hold(local.found);
    } catch (error) {
      if (error instanceof FlockError && !saysSame(error, before))
        await patchMove(this.#ports.client, ordered, { outgoing: { obstacle: this.#obstacle(error, before) } });
      throw error;
    }
  }

  async #beforeHold(ordered: Stored<Move>, { label, pool, name }: FoundCopy): Promise<void> {
    // A scrub of the move that brought it may have it open for repairs.
    if (label.moveUid) await this.#transfers.stop(label.moveUid);
    // What rounds have listed can be carried.
    if (ordered.status?.round === undefined) await this.#ports.transfer.checkCarried(pool, name);
  }

  async #pull(uid: string, step: Of<'pull'>, world: World): Promise<void> {
    const { found } = await this.#copies.one(uid, step.copy);
    await this.#transfers.pull(move(world, step.move), found, { round: step.round, final: step.final }, step.fresh);
  }

  /** The commit point first: once the copy is active its bytes may change, and the scrub compares what was committed. */
  async #activate(uid: string, step: Of<'activate'>, world: World): Promise<void> {
    const { found } = await this.#copies.one(uid, step.copy);
    const moveUid = found.label.moveUid ?? '';
    await this.#transfers.stop(moveUid);
    if (found.pool.points) await found.pool.freeze(found.name, commitPoint(moveUid));
    this.#ports.crash('activate:frozen');
    const formatted = found.label.formatted || (move(world, step.move).status?.outgoing?.formatted ?? false);
    await this.#copies.relabel(found, { role: 'active', epoch: step.epoch, formatted, arrivedBy: moveUid });
    this.#ports.crash('activate:labelled');
    this.#ports.tell(
      volume(world),
      'Normal',
      'CopyActivated',
      `copy ${step.copy} on node ${this.#ports.node} is active at epoch ${step.epoch}`,
    );
  }

  async #grow(uid: string, step: Of<'grow'>): Promise<void> {
    const { found } = await this.#copies.one(uid, step.copy);
    await found.pool.verify();
    const size = await this.#growing(found, step.size);
    if (found.label.size !== String(size)) await this.#copies.relabel(found, { size: String(size) });
    await this.#publishing.growMounted(await this.#copies.one(uid, step.copy));
  }

  async #growing({ pool, name, label }: FoundCopy, size: bigint): Promise<bigint> {
    try {
      return await pool.grow(name, size);
    } catch (error) {
      if (!isReason(error, 'NoSpace')) throw error;
      const wayBack = `or take the growth back: flockctl volume grow ${label.volume} ${label.size}`;
      throw new FlockError('NoSpace', `${error.message}; ${wayBack}`, { cause: error });
    } finally {
      await this.#changed(pool.name);
    }
  }

  /** Before any record says what was done: whoever decides next counts on the room that was reported. A refusal shows that it was not so. */
  async #changed(pool: string): Promise<void> {
    this.#inventory.touched(pool);
    await this.#roomChanged();
  }

  async #remove(uid: string, step: Of<'remove'>, world: World): Promise<void> {
    const broken = (await this.#copies.unlabelled(uid)).find(({ seen }) => seen.id === step.copy);
    if (broken) return this.#removeUnlabelled(uid, broken.found, world);
    const local = await this.#copies.one(uid, step.copy);
    const { found } = local;
    refuseWhilePublished(local);
    await found.pool.verify();
    if (found.label.moveUid) await this.#transfers.stop(found.label.moveUid);
    await this.#copies.letGo(found.name);
    await this.#ports.transfer.dropJournal(found.pool, found.name);
    await found.pool.detach(found.name);
    await found.pool.remove(found.name, volume(world).spec.wipe ?? 'none');
    await this.#changed(found.pool.name);
    this.#ports.crash('remove:removed');
    await this.#proveAbsent(uid, found);
    await this.#forget(step.copy, world);
    this.#ports.tell(
      volume(world),
      'Normal',
      'CopyRemoved',
      `copy ${step.copy} (${found.label.role}, epoch ${found.label.epoch}) on node ${this.#ports.node} was removed`,
    );
  }

  /** Files of its name alone: nobody can have it in use, but for who attached it before. */
  async #removeUnlabelled(uid: string, found: FoundUnlabelled, world: World): Promise<void> {
    const { pool, name } = found;
    await pool.verify();
    await this.#copies.letGo(name);
    await this.#ports.transfer.dropJournal(pool, name);
    await pool.detach(name);
    await pool.remove(name, volume(world).spec.wipe ?? 'none');
    await this.#changed(pool.name);
    await this.#proveAbsent(uid, found);
    await this.#forget(name.slice(nameOf(uid, '').length), world);
    this.#ports.tell(volume(world), 'Normal', 'CopyRemoved', `what was left of copy ${name} on node ${this.#ports.node} was removed`);
  }

  async #forget(copy: string, world: World): Promise<void> {
    const recorded = await this.#ports.client.get(...recordOf(volume(world)));
    await patchEntry(this.#ports.client, recorded, copy, null);
  }

  async #proveAbsent(uid: string, found: FoundCopy | FoundUnlabelled): Promise<void> {
    const left = [...(await this.#copies.ofVolume(uid)), ...(await this.#copies.unlabelled(uid))];
    if (left.some(({ found: other }) => other.name === found.name))
      throw new FlockError('Internal', `copy ${found.name} is still there after it was removed`);
    if (!(await this.#inventory.readable()).has(found.pool.name))
      throw new FlockError('Unavailable', `pool ${found.pool.name} cannot be read: whether copy ${found.name} is gone is not known`);
  }

  async #releasePoint(uid: string, step: Of<'releasePoint'>): Promise<void> {
    const { found } = await this.#copies.one(uid, step.copy);
    await found.pool.release(found.name, step.point);
    this.#inventory.touched(found.pool.name);
  }
}

function refuseWhilePublished({ seen, found }: LocalCopy): void {
  if (seen.published.length > 0)
    throw new FlockError(
      'InUse',
      `volume ${found.label.volume} is in use at ${seen.published.join(', ')}; unmount it: flockctl volume unmount ${found.label.volume}`,
    );
}

function volume(world: World): Stored<Volume> {
  if (!world.volume) throw new FlockError('NotFound', 'the volume has no record');
  return world.volume;
}

const recordOf = (of: Stored<Volume>): [typeof Volumes, string] => [Volumes, of.metadata.name];

function move(world: World, name: string): Stored<Move> {
  const found = world.moves.find(({ metadata }) => metadata.name === name);
  if (!found) throw new FlockError('NotFound', `there is no ${Moves.singular} "${name}"`);
  return found;
}

function moveByUid(world: World, uid: string): Stored<Move> {
  const found = world.moves.find(({ metadata }) => metadata.uid === uid);
  if (!found) throw new FlockError('NotFound', `there is no ${Moves.singular} with uid ${uid}`);
  return found;
}

/** Empty, or with the bytes of the snapshot that its volume begins with. */
async function beBegun(pool: Pool, label: CopyLabel, { size, from }: Of<'create'>): Promise<void> {
  const name = copyName(label);
  if (!from) return void (await pool.create(name, size, label));
  const { volumeUid = '', copy = '' } = from.status ?? {};
  await pool.clone(name, size, label, { copy: nameOf(volumeUid, copy), point: snapshotPoint(from.metadata.uid) });
}

/** What arrives, or begins with a snapshot, brings its filesystem along. */
function broughtAlong({ moveUid, from }: Of<'create'>, source: CopyStatus | undefined): Pick<CopyLabel, 'formatted' | 'cloned'> {
  const formatted = (moveUid === undefined ? from?.status?.formatted : source?.formatted) ?? false;
  return from || source?.cloned ? { formatted, cloned: true } : { formatted };
}

function labelOf(uid: string, step: Of<'create'>, of: Stored<Volume>): CopyLabel {
  const source = servedCopy(of);
  return {
    version: 1,
    volumeUid: uid,
    copy: step.copy,
    epoch: step.epoch,
    role: step.role,
    ...(step.moveUid === undefined ? {} : { moveUid: step.moveUid }),
    volume: of.metadata.name,
    size: String(step.size),
    volumeMode: of.spec.volumeMode ?? 'Filesystem',
    filesystem: of.spec.filesystem ?? USUAL_FILESYSTEM,
    ...broughtAlong(step, source),
    sectorSize: SECTOR,
  };
}
