// CreateVolume: writes the record, under the name that the caller chose, and waits for the copy. Which node has room is judged as for every
// other volume; a refusal takes the record away again, so that nothing is left of it.
import { status } from '@grpc/grpc-js';
import type { Client } from '../api/client.ts';
import { listAll } from '../api/list-all.ts';
import { SMALLEST } from '../decide/filesystem-size.ts';
import { isDeleting, servedCopy, type Why } from '../decide/observed.ts';
import { holdsDirectories, place, usualPool, whyNot } from '../decide/placement.ts';
import { isReason } from '../model/errors.ts';
import { GROUP_VERSION, type Stored } from '../model/meta.ts';
import { nodeName } from '../model/names.ts';
import { parseSize } from '../model/quantity.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import { Volumes, type Volume, type VolumeSpec } from '../model/volume.ts';
import { commonAccess } from './access.ts';
import { codeOfObstacle, invalid, Refused } from './errors.ts';
import type { CreateVolumeRequest, CreateVolumeResponse, TopologyRequirement } from './generated/csi.ts';
import { volumeNameFor } from './ids.ts';
import { NODE_KEY } from './names.ts';
import { parametersOf } from './parameters.ts';
import { answerOf, sizeOf, unitOf } from './records.ts';
import { isWithin, sizeFor, windowOf, type SizeWindow } from './sizes.ts';
import type { VolumeWaits } from './waiting.ts';

interface Order {
  name: string;
  window: SizeWindow;
  /** All but size and node. */
  spec: Partial<VolumeSpec>;
  annotations: { [name: string]: string };
  /** Where it may be, best first; empty: anywhere. */
  nodes: string[];
  /** The first of the nodes is where it is needed. */
  isChosen: boolean;
}

export class VolumeMaker {
  readonly #client: Client;
  readonly #waits: VolumeWaits;

  constructor(client: Client, waits: VolumeWaits) {
    this.#client = client;
    this.#waits = waits;
  }

  async create(request: CreateVolumeRequest, signal: AbortSignal): Promise<CreateVolumeResponse> {
    const order = orderOf(request);
    const volume = (await this.#found(order)) ?? (await this.#recorded(order));
    const made = await this.#waits.until(order.name, (seen) => madeOf(volume, seen), signal);
    if ('reason' in made) return this.#giveUp(volume, made, signal);
    return { volume: answerOf(made.volume, made.size) };
  }

  /** The volume of that name if there is one and it is what is asked for. Throws ALREADY_EXISTS when it is not. */
  async #found(order: Order): Promise<Stored<Volume> | null> {
    const there = await this.#waits.read(order.name);
    if (!there) return null;
    if (isDeleting(there)) throw new Refused(status.ABORTED, `volume ${order.name} is being deleted; try again in a moment`);
    const difference = differenceOf(there, order);
    if (difference !== null) throw new Refused(status.ALREADY_EXISTS, `there is a volume ${order.name} already, with ${difference}`);
    const [node] = order.nodes;
    // Where it was to be made first, nothing was made yet: it goes where it is needed now.
    if (!order.isChosen || node === undefined || there.spec.copy !== undefined || there.spec.node === node) return there;
    return this.#client.replace(Volumes, { ...there, spec: { ...there.spec, node } });
  }

  async #recorded(order: Order): Promise<Stored<Volume>> {
    const { items: nodes } = await listAll(this.#client, StorageNodes);
    const pool = order.spec.pool ?? usualPool(nodes);
    if (typeof pool !== 'string') throw refusal(pool);
    const size = sizeFor(order.window, {
      unit: largestUnit(nodes, pool, order),
      least: leastOf(order.spec, holdsDirectories(nodes, pool)),
    });
    const node = chosenNode(nodes, order, { pool, size });
    const spec: VolumeSpec = { ...order.spec, size: String(size), ...(node === null ? {} : { node }) };
    const { name, annotations } = order;
    try {
      return await this.#client.create(Volumes, { apiVersion: GROUP_VERSION, kind: Volumes.kind, metadata: { name, annotations }, spec });
    } catch (error) {
      // Another replica was asked too.
      if (isReason(error, 'AlreadyExists')) throw new Refused(status.ABORTED, `volume ${name} is being made; try again`, { cause: error });
      throw error;
    }
  }

  async #giveUp({ metadata }: Stored<Volume>, why: Why, signal: AbortSignal): Promise<never> {
    const { name, uid } = metadata;
    await this.#client.delete(Volumes, name, { uid }).catch((error: unknown) => {
      if (!isReason(error, 'NotFound', 'Conflict')) throw error;
    });
    await this.#waits.until(name, (seen) => (seen?.metadata.uid === uid ? null : true), signal);
    throw refusal(why);
  }
}

const refusal = ({ reason, message }: Why): Refused => new Refused(codeOfObstacle(reason) ?? status.INTERNAL, message);

// ---- what is asked for ---------------------------------------------------------------------------------------------------------

function orderOf(request: CreateVolumeRequest): Order {
  const name = volumeNameFor(request.name);
  const { volumeMode, filesystem } = commonAccess(request.volumeCapabilities);
  if (request.volumeContentSource) throw invalid('a volume cannot be made from a snapshot or another volume');
  if (Object.keys(request.mutableParameters).length > 0) throw invalid('there are no parameters that can be changed later');
  const { spec, annotations } = parametersOf(request.parameters);
  const { filesystem: usual = 'ext4', ...rest } = spec;
  const mode = volumeMode === 'Block' ? { volumeMode } : { volumeMode, filesystem: filesystem ?? usual };
  return {
    name,
    window: windowOf(request.capacityRange),
    spec: { ...rest, ...mode },
    annotations,
    ...nodesOf(request.accessibilityRequirements),
  };
}

/** The first preferred one is where the scheduler put the pod; what else is listed is merely possible. */
function nodesOf(requirement: TopologyRequirement | undefined): Pick<Order, 'nodes' | 'isChosen'> {
  const { preferred = [], requisite = [] } = requirement ?? {};
  const named = (of: { segments: { [key: string]: string } }[]): string[] =>
    of.flatMap(({ segments }) => (segments[NODE_KEY] === undefined ? [] : [nodeName(segments[NODE_KEY])]));
  const [first] = named(preferred.slice(0, 1));
  const possible = named(requisite);
  if (first !== undefined) return { nodes: [first], isChosen: true };
  return { nodes: possible, isChosen: possible.length === 1 };
}

const leastOf = ({ volumeMode, filesystem }: Partial<VolumeSpec>, isDirectory: boolean): bigint =>
  volumeMode === 'Block' || filesystem === undefined || isDirectory ? 1n : SMALLEST[filesystem];

/** The largest of those nodes that it may come to. */
function largestUnit(nodes: readonly Stored<StorageNode>[], pool: string, order: Order): bigint {
  return possible(nodes, order).reduce(
    (largest, node) => (unitOf(node, pool) > largest ? unitOf(node, pool) : largest),
    unitOf(null, pool),
  );
}

const possible = (nodes: readonly Stored<StorageNode>[], order: Order): readonly Stored<StorageNode>[] =>
  order.nodes.length === 0 ? nodes : nodes.filter(({ metadata }) => order.nodes.includes(metadata.name));

/** null: the controller chooses. Throws when it is known already that nothing can be made. */
function chosenNode(nodes: readonly Stored<StorageNode>[], order: Order, { pool, size }: { pool: string; size: bigint }): string | null {
  const need = { pool, size, filesystem: order.spec.volumeMode === 'Block' ? null : (order.spec.filesystem ?? null) };
  const [first] = order.nodes;
  if (order.isChosen && first !== undefined) {
    const why = whyNot(first, nodes.find(({ metadata }) => metadata.name === first) ?? null, need);
    if (why) throw refusal(why);
    return first;
  }
  const found = place(possible(nodes, order), need);
  if ('reason' in found) throw refusal(found);
  return order.nodes.length === 0 ? null : found.node;
}

// ---- what is there -------------------------------------------------------------------------------------------------------------

const COMPARED = [
  'pool',
  'volumeMode',
  'filesystem',
  'dataMigrationMode',
  'retainSource',
  'allowedPause',
  'transferBandwidth',
  'wipe',
] as const;

/** In what it differs from what is asked for, or null. A pool that the caller leaves open is whichever it got. */
function differenceOf(volume: Volume, { spec, window }: Order): string | null {
  const size = sizeOf(volume) ?? parseSize(volume.spec.size);
  if (!isWithin(size, window)) return `a size of ${size} bytes`;
  const other = COMPARED.filter((field) => field !== 'pool' || spec.pool !== undefined)
    .filter((field) => field !== 'filesystem' || spec.volumeMode !== 'Block')
    .find((field) => spec[field] !== volume.spec[field]);
  return other === undefined ? null : `${other} ${volume.spec[other] ?? 'not set'}`;
}

function madeOf(ordered: Stored<Volume>, seen: Stored<Volume> | null): { volume: Stored<Volume>; size: bigint } | Why | null {
  if (seen?.metadata.uid !== ordered.metadata.uid || isDeleting(seen))
    throw new Refused(status.ABORTED, `volume ${ordered.metadata.name} was deleted while it was made`);
  const size = sizeOf(seen);
  return size === undefined ? whyNever(seen) : { volume: seen, size };
}

/** What keeps it from being made, unless that may go away by itself. */
function whyNever(volume: Volume): Why | null {
  const why = servedCopy(volume)?.obstacle ?? volume.status?.obstacle;
  return why && codeOfObstacle(why.reason) !== null ? why : null;
}
