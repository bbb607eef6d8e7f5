// CSI Controller: every call writes a record, or reads some, and waits until they say what was asked. Every replica serves it; what is to be
// done about a record is decided by the controller that leads.
import { status } from '@grpc/grpc-js';
import { copiesOf, isDeleting } from '../decide/observed.ts';
import { isReason } from '../model/errors.ts';
import type { Stored } from '../model/meta.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import { accessOf, commonAccess, whyNotUsed } from './access.ts';
import { Attaching, type AttachPorts } from './attach.ts';
import { capacityOf } from './capacity.ts';
import { VolumeMaker } from './create-volume.ts';
import { Refused } from './errors.ts';
import { expandVolume } from './expand-volume.ts';
import {
  ControllerServiceCapability_RPC_Type as Capability,
  ControllerService,
  type ControllerPublishVolumeRequest,
  type ControllerServer,
  type ValidateVolumeCapabilitiesRequest,
  type ValidateVolumeCapabilitiesResponse,
} from './generated/csi.ts';
import { nodeIdOf, snapshotIdOf, snapshotNameFor, volumeIdOf, volumeNameFor } from './ids.ts';
import { entryOf, listVolumes } from './list-volumes.ts';
import { parametersOf } from './parameters.ts';
import { existing } from './records.ts';
import type { Service } from './socket.ts';
import { implementation, type Methods } from './unary.ts';
import { SnapshotMaker } from './snapshots.ts';
import type { AllWaits, VolumeWaits } from './waiting.ts';

const CAPABILITIES: readonly Capability[] = [
  Capability.CREATE_DELETE_VOLUME,
  Capability.PUBLISH_UNPUBLISH_VOLUME,
  Capability.LIST_VOLUMES,
  Capability.LIST_VOLUMES_PUBLISHED_NODES,
  Capability.GET_CAPACITY,
  Capability.CREATE_DELETE_SNAPSHOT,
  Capability.LIST_SNAPSHOTS,
  Capability.GET_SNAPSHOT,
  Capability.CLONE_VOLUME,
  Capability.EXPAND_VOLUME,
  Capability.GET_VOLUME,
  Capability.VOLUME_CONDITION,
  Capability.SINGLE_NODE_MULTI_WRITER,
];

export function controllerService(ports: AttachPorts, waits: AllWaits): Service {
  const calls = new ControllerCalls(ports, waits);
  return { definition: ControllerService, implementation: implementation<ControllerServer>(calls.methods(), ports) };
}

/** A node tells of a change within this, ms. */
const SAYING_SO = 3_000;

function useOf(name: string, volume: Volume | null): string {
  const used = Object.values(volume ? copiesOf(volume) : {}).find(({ published = [] }) => published.length > 0);
  return used ? `volume ${name} is in use on node ${used.node} at ${used.published?.join(', ')}` : '';
}

const onVolume = ({ volumeId }: { volumeId: string }): string => volumeId;

class ControllerCalls {
  readonly #ports: AttachPorts;
  readonly #waits: VolumeWaits;
  readonly #maker: VolumeMaker;
  readonly #snapshots: SnapshotMaker;
  readonly #attaching: Attaching;

  constructor(ports: AttachPorts, waits: AllWaits) {
    this.#ports = ports;
    this.#waits = waits.volumes;
    this.#maker = new VolumeMaker(ports.client, waits);
    this.#snapshots = new SnapshotMaker(ports.client, waits);
    this.#attaching = new Attaching(ports, waits.volumes);
  }

  methods(): Methods<ControllerServer> {
    const { client } = this.#ports;
    return {
      controllerGetCapabilities: {
        answer: async () => ({ capabilities: CAPABILITIES.map((type) => ({ type: { $case: 'rpc', value: { type } } })) }),
      },
      createVolume: {
        on: ({ name }) => (name === '' ? '' : volumeNameFor(name)),
        answer: (asked, signal) => this.#maker.create(asked, signal),
      },
      deleteVolume: { on: onVolume, answer: (asked, signal) => this.#delete(volumeIdOf(asked), signal) },
      controllerExpandVolume: { on: onVolume, answer: (asked, signal) => expandVolume(client, this.#waits, asked, signal) },
      // It may last as long as a move, and others for the volume are answered meanwhile; a repeated one joins it.
      controllerPublishVolume: { on: () => '', answer: (asked, signal) => this.#publish(asked, signal) },
      controllerUnpublishVolume: { on: onVolume, answer: async (asked) => this.#unpublish(asked) },
      validateVolumeCapabilities: { answer: (asked) => this.#validate(asked) },
      controllerGetVolume: { answer: async (asked) => entryOf(await existing(this.#waits, volumeIdOf(asked))) },
      listVolumes: { answer: (asked) => listVolumes(client, asked) },
      createSnapshot: {
        on: ({ name }) => (name === '' ? '' : `snapshot ${snapshotNameFor(name)}`),
        answer: (asked, signal) => this.#snapshots.create(asked, signal),
      },
      deleteSnapshot: {
        on: ({ snapshotId }) => (snapshotId === '' ? '' : `snapshot ${snapshotId}`),
        answer: (asked, signal) => this.#snapshots.delete(snapshotIdOf(asked), signal),
      },
      getSnapshot: { answer: (asked) => this.#snapshots.get(asked) },
      listSnapshots: { answer: (asked) => this.#snapshots.list(asked) },
      getCapacity: { answer: (asked) => capacityOf(client, asked) },
    };
  }

  /** One that is not there is deleted already. */
  async #delete(name: string, signal: AbortSignal): Promise<object> {
    const volume = await this.#waits.read(name);
    if (!volume) return {};
    const { uid } = volume.metadata;
    if (!isDeleting(volume)) {
      await this.#unused(name, signal);
      await this.#withoutSnapshots(volume);
    }
    await this.#ports.client.delete(Volumes, name, { uid }).catch((error: unknown) => {
      if (!isReason(error, 'NotFound')) throw error;
    });
    await this.#waits.until(name, (seen) => (seen?.metadata.uid === uid ? null : true), signal);
    return {};
  }

  /** A snapshot lies in its volume's copy: that goes after it. */
  async #withoutSnapshots(volume: Stored<Volume>): Promise<void> {
    const held = await this.#snapshots.of(volume);
    if (held.length > 0)
      throw new Refused(status.FAILED_PRECONDITION, `volume ${volume.metadata.name} has snapshots: delete ${held.join(', ')} first`);
  }

  /** Throws FAILED_PRECONDITION when it is in use. Its node may have unstaged it just now, and not have said so yet. */
  async #unused(name: string, signal: AbortSignal): Promise<void> {
    const patience = new AbortController();
    const ended = new AbortController();
    const use = { text: '' };
    this.#ports.clock.sleep(SAYING_SO, ended.signal).then(
      () => patience.abort(new Refused(status.FAILED_PRECONDITION, use.text)),
      () => undefined,
    );
    try {
      await this.#waits.until(
        name,
        (seen) => ((use.text = useOf(name, seen)) === '' ? true : null),
        AbortSignal.any([signal, patience.signal]),
      );
    } finally {
      ended.abort();
    }
  }

  async #publish(asked: ControllerPublishVolumeRequest, signal: AbortSignal): Promise<{ publishContext: { [key: string]: string } }> {
    const [name, node] = [volumeIdOf(asked), nodeIdOf(asked)];
    const access = accessOf(asked.volumeCapability);
    const why = whyNotUsed(await existing(this.#waits, name), access);
    if (why !== null) throw new Refused(status.INVALID_ARGUMENT, why);
    await this.#attaching.beAttached(name, node, signal);
    return { publishContext: {} };
  }

  /** Where a volume is does not change by nobody using it. */
  #unpublish(asked: { volumeId: string; nodeId: string }): object {
    volumeIdOf(asked);
    if (asked.nodeId !== '') nodeIdOf(asked);
    return {};
  }

  async #validate(asked: ValidateVolumeCapabilitiesRequest): Promise<ValidateVolumeCapabilitiesResponse> {
    const name = volumeIdOf(asked);
    if (asked.volumeCapabilities.length === 0) throw new Refused(status.INVALID_ARGUMENT, 'volume_capabilities are missing');
    const volume = await existing(this.#waits, name);
    const message = unless(() => {
      const why = whyNotUsed(volume, commonAccess(asked.volumeCapabilities));
      if (why !== null) throw new Refused(status.INVALID_ARGUMENT, why);
      parametersOf(asked.parameters);
    });
    const { volumeContext, volumeCapabilities, parameters, mutableParameters } = asked;
    const confirmed = message === '' ? { volumeContext, volumeCapabilities, parameters, mutableParameters } : undefined;
    return { confirmed, message };
  }
}

/** What went wrong, or '' when nothing did. */
function unless(work: () => void): string {
  try {
    work();
    return '';
  } catch (error) {
    if (error instanceof Refused || isReason(error, 'Invalid')) return error.message;
    throw error;
  }
}
