// Snapshots by CSI: a call writes a Snapshot, or reads some, and waits until it says what was asked. Those that the controller takes for a clone
// are its own affair and are not told of.
import { status } from '@grpc/grpc-js';
import type { Client } from '../api/client.ts';
import { listAll } from '../api/list-all.ts';
import { isDeleting } from '../decide/observed.ts';
import { TAKEN_FOR } from '../decide/snapshots.ts';
import { isReason } from '../model/errors.ts';
import { GROUP_VERSION, type Stored } from '../model/meta.ts';
import { printable } from '../model/names.ts';
import { Snapshots, type Snapshot } from '../model/snapshot.ts';
import { invalid, Refused } from './errors.ts';
import type {
  CreateSnapshotRequest,
  CreateSnapshotResponse,
  GetSnapshotRequest,
  GetSnapshotResponse,
  ListSnapshotsRequest,
  ListSnapshotsResponse,
  Snapshot as Answer,
} from './generated/csi.ts';
import { snapshotIdOf, snapshotNameFor, volumeIdOf } from './ids.ts';
import { pageOf } from './pages.ts';
import { existing } from './records.ts';
import type { AllWaits, SnapshotWaits, VolumeWaits } from './waiting.ts';

/** The snapshotter tells by these for whom a snapshot is. */
const METADATA: readonly string[] = [
  'csi.storage.k8s.io/volumesnapshot/name',
  'csi.storage.k8s.io/volumesnapshot/namespace',
  'csi.storage.k8s.io/volumesnapshotcontent/name',
];

export class SnapshotMaker {
  readonly #client: Client;
  readonly #volumes: VolumeWaits;
  readonly #snapshots: SnapshotWaits;

  constructor(client: Client, waits: AllWaits) {
    this.#client = client;
    this.#volumes = waits.volumes;
    this.#snapshots = waits.snapshots;
  }

  async create(asked: CreateSnapshotRequest, signal: AbortSignal): Promise<CreateSnapshotResponse> {
    const name = snapshotNameFor(asked.name);
    const volume = volumeIdOf({ volumeId: asked.sourceVolumeId });
    const unknown = Object.keys(asked.parameters).filter((parameter) => !METADATA.includes(parameter));
    if (unknown.length > 0) throw invalid(`unknown parameter ${unknown.map(printable).join(', ')}: a class of snapshots has none`);
    const { metadata } = (await this.#found(name, volume)) ?? (await this.#recorded(name, volume));
    const taken = await this.#snapshots.until(name, (seen) => takenOf(metadata, seen), signal);
    if (taken instanceof Refused) return this.#giveUp(metadata, taken, signal);
    return { snapshot: answerOf(taken) };
  }

  async #found(name: string, volume: string): Promise<Stored<Snapshot> | null> {
    const there = await this.#snapshots.read(name);
    if (!there) return null;
    if (isDeleting(there)) throw new Refused(status.ABORTED, `snapshot ${name} is being deleted; try again in a moment`);
    if (there.spec.volume !== volume)
      throw new Refused(status.ALREADY_EXISTS, `there is a snapshot ${name} already, of volume ${there.spec.volume}`);
    return there;
  }

  async #recorded(name: string, volume: string): Promise<Stored<Snapshot>> {
    await existing(this.#volumes, volume);
    const record = { apiVersion: GROUP_VERSION, kind: Snapshots.kind, metadata: { name }, spec: { volume } };
    try {
      return await this.#client.create(Snapshots, record);
    } catch (error) {
      // Another replica was asked too.
      if (isReason(error, 'AlreadyExists'))
        throw new Refused(status.ABORTED, `snapshot ${name} is being taken; try again`, { cause: error });
      throw error;
    }
  }

  /** Nothing is left of one that was refused. */
  async #giveUp(metadata: Stored<Snapshot>['metadata'], why: Refused, signal: AbortSignal): Promise<never> {
    await this.#snapshots.beGone(metadata, signal);
    throw why;
  }

  /** One that is not there is deleted already. */
  async delete(name: string, signal: AbortSignal): Promise<object> {
    const snapshot = await this.#snapshots.read(name);
    if (snapshot) await this.#snapshots.beGone(snapshot.metadata, signal);
    return {};
  }

  /** Throws NOT_FOUND, also for one that is not taken yet. */
  async get(asked: GetSnapshotRequest): Promise<GetSnapshotResponse> {
    const name = snapshotIdOf(asked);
    const snapshot = await this.#snapshots.read(name);
    if (!snapshot || !isTold(snapshot)) throw new Refused(status.NOT_FOUND, `there is no snapshot ${name}`);
    return { snapshot: answerOf(snapshot) };
  }

  /** By name; one that is asked for and not there is no error. */
  async list(asked: ListSnapshotsRequest): Promise<ListSnapshotsResponse> {
    const { items } = await listAll(this.#client, Snapshots);
    const { snapshotId, sourceVolumeId } = asked;
    const wanted = items.filter(
      (snapshot) =>
        isTold(snapshot) &&
        (snapshotId === '' || snapshot.metadata.name === snapshotId) &&
        (sourceVolumeId === '' || snapshot.spec.volume === sourceVolumeId),
    );
    const { page, nextToken } = pageOf(wanted, asked);
    return { entries: page.map((snapshot) => ({ snapshot: answerOf(snapshot) })), nextToken };
  }

  /** Names of those that keep a volume from being deleted. */
  async of({ metadata }: { metadata: { name: string; uid: string } }): Promise<string[]> {
    const { items } = await listAll(this.#client, Snapshots);
    const held = items.filter(
      ({ spec, status: known }) => spec.volume === metadata.name && (known?.volumeUid ?? metadata.uid) === metadata.uid,
    );
    return held.filter((snapshot) => !isForClone(snapshot) && !isDeleting(snapshot)).map((snapshot) => snapshot.metadata.name);
  }
}

const isForClone = ({ metadata }: Stored<Snapshot>): boolean => metadata.labels?.[TAKEN_FOR] !== undefined;

const isTold = (snapshot: Stored<Snapshot>): boolean =>
  snapshot.status?.takenAt !== undefined && !isForClone(snapshot) && !isDeleting(snapshot);

/** Null: it is waited for. A refusal: it never will be, as things are. */
function takenOf({ name, uid }: { name: string; uid: string }, seen: Stored<Snapshot> | null): Stored<Snapshot> | Refused | null {
  if (seen?.metadata.uid !== uid || isDeleting(seen)) throw new Refused(status.ABORTED, `snapshot ${name} was deleted while it was taken`);
  return seen.status?.phase === 'Ready' ? seen : whyNever(seen);
}

function whyNever({ metadata: { name }, status: known = {} }: Stored<Snapshot>): Refused | null {
  const { phase, obstacle } = known;
  if (phase === 'Failed') throw new Refused(status.DATA_LOSS, `snapshot ${name} was lost: ${obstacle?.message ?? 'its copy is gone'}`);
  const code = REFUSALS[obstacle?.reason ?? ''];
  return code === undefined || !obstacle ? null : new Refused(code, obstacle.message);
}

const REFUSALS: { [reason: string]: status } = {
  NoSpace: status.RESOURCE_EXHAUSTED,
  Unsupported: status.FAILED_PRECONDITION,
  VolumeNotFound: status.NOT_FOUND,
  VolumeDeleted: status.ABORTED,
};

function answerOf({ metadata, spec, status: known = {} }: Stored<Snapshot>): Answer {
  return {
    snapshotId: metadata.name,
    sourceVolumeId: spec.volume,
    sizeBytes: BigInt(known.size ?? 0),
    creationTime: known.takenAt === undefined ? undefined : new Date(known.takenAt),
    readyToUse: known.phase === 'Ready',
    groupSnapshotId: '',
  };
}
