// CreateVolume: writes the record, under the name that the caller chose, and waits for the copy. Which node has room is judged as for every
// other volume; a refusal takes the record away again, so that nothing is left of it.
import { status } from '@grpc/grpc-js';
import type { Client } from '../api/client.ts';
import { listAll } from '../api/list-all.ts';
import { SMALLEST } from '../decide/filesystem-size.ts';
import { isDeleting, servedCopy, type Why } from '../decide/observed.ts';
import { holdsDirectories, place, usualPool, whyNot } from '../decide/placement.ts';
import { isReason } from '../model/errors.ts';
import { formatWords } from '../model/format-options.ts';
import { GROUP_VERSION, type Stored } from '../model/meta.ts';
import { nodeName } from '../model/names.ts';
import { parseSize } from '../model/quantity.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import { filesystemOf, USUAL_FILESYSTEM, Volumes, type Volume, type VolumeSpec } from '../model/volume.ts';
import { commonAccess } from './access.ts';
import { checkAlike, contentOf, sourceOf } from './content.ts';
import { codeOfObstacle, invalid, Refused } from './errors.ts';
import type { CreateVolumeRequest, CreateVolumeResponse, Topology, TopologyRequirement } from './generated/csi.ts';
import { volumeNameFor } from './ids.ts';
import { NODE_KEY } from './names.ts';
import { parametersOf } from './parameters.ts';
import { answerOf, sizeOf, unitOf } from './records.ts';
import { isWithin, sizeFor, windowOf, type SizeWindow } from './sizes.ts';
import type { AllWaits, SnapshotWaits, VolumeWaits } from './waiting.ts';

interface Order {
  name: string;
  /** What it begins with, made where that is; null: it begins empty. */
  source: NonNullable<VolumeSpec['source']> | null;
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
  readonly #snapshots: SnapshotWaits;

  constructor(client: Client, waits: AllWaits) {
    this.#client = client;
    this.#waits = waits.volumes;
    this.#snapshots = waits.snapshots;
  }

  async create(request: CreateVolumeRequest, signal: AbortSignal): Promise<CreateVolumeResponse> {
    const order = orderOf(request);
    const volume = (await this.#found(order)) ?? (await this.#ordered(order));
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

  async #ordered(order: Order): Promise<Stored<Volume>> {
    const { items: nodes } = await listAll(this.#client, StorageNodes);
    return this.#recorded(order, order.source === null ? emptyOn(nodes, order) : await this.#filledOn(nodes, order, order.source));
  }

  /** Its node follows from its source: one that moves comes to its pod afterwards. */
  async #filledOn(nodes: readonly Stored<StorageNode>[], order: Order, source: NonNullable<Order['source']>): Promise<VolumeSpec> {
    const content = await contentOf(source, { volumes: this.#waits, snapshots: this.#snapshots });
    const { node: name, pool } = content;
    const spec = { ...content.kind, ...order.spec };
    checkAlike(content, spec);
    if (order.nodes.length > 0 && !order.nodes.includes(name))
      throw new Refused(
        status.RESOURCE_EXHAUSTED,
        `what it is to begin with is on node ${name}, and it may only be on ${order.nodes.join(', ')}`,
      );
    const node = nodes.find(({ metadata }) => metadata.name === name) ?? null;
    const { required, limit } = order.window;
    const size = sizeFor({ required: required === 0n ? content.size : required, limit }, { unit: unitOf(node, pool), least: content.size });
    const why = whyNot(name, node, { pool, size, filesystem: filesystemOf(spec) });
    if (why) throw refusal(why);
    return { ...spec, source, size: String(size) };
  }

  async #recorded({ name, annotations }: Order, spec: VolumeSpec): Promise<Stored<Volume>> {
    try {
      return await this.#client.create(Volumes, { apiVersion: GROUP_VERSION, kind: Volumes.kind, metadata: { name, annotations }, spec });
    } catch (error) {
      // Another replica was asked too.
      if (isReason(error, 'AlreadyExists')) throw new Refused(status.ABORTED, `volume ${name} is being made; try again`, { cause: error });
      throw error;
    }
  }

  async #giveUp({ metadata }: Stored<Volume>, why: Why, signal: AbortSignal): Promise<never> {
    await this.#waits.beGone(metadata, signal);
    throw refusal(why);
  }
}

const refusal = ({ reason, message }: Why): Refused => new Refused(codeOfObstacle(reason) ?? status.INTERNAL, message);

/** Size and, when it is known already, node of one that begins empty. Throws when nothing can be made. */
function emptyOn(nodes: readonly Stored<StorageNode>[], order: Order): VolumeSpec {
  const pool = order.spec.pool ?? usualPool(nodes);
  if (typeof pool !== 'string') throw refusal(pool);
  const least = leastOf(order.spec, holdsDirectories(nodes, pool));
  const size = sizeFor(order.window, { unit: largestUnit(nodes, pool, order), least });
  const node = chosenNode(nodes, order, { pool, size });
  return { ...order.spec, size: String(size), ...(node === null ? {} : { node }) };
}

// ---- what is asked for ---------------------------------------------------------------------------------------------------------

function orderOf(request: CreateVolumeRequest): Order {
  const name = volumeNameFor(request.name);
  const { volumeMode, filesystem } = commonAccess(request.volumeCapabilities);
  const source = sourceOf(request.volumeContentSource);
  if (Object.keys(request.mutableParameters).length > 0) throw invalid('there are no parameters that can be changed later');
  const { spec, annotations } = parametersOf(request.parameters);
  const { filesystem: usual, ...rest } = spec;
  // One that begins with something has the filesystem of that, if none is asked for.
  const wanted = filesystem ?? usual ?? (source === null ? USUAL_FILESYSTEM : undefined);
  const mode = volumeMode === 'Block' || wanted === undefined ? { volumeMode } : { volumeMode, filesystem: wanted };
  checkFormatOptions({ ...rest, ...mode });
  return {
    name,
    source,
    window: windowOf(request.capacityRange),
    spec: { ...rest, ...mode },
    annotations,
    ...(source === null
      ? nodesOf(request.accessibilityRequirements)
      : { nodes: named(request.accessibilityRequirements?.requisite), isChosen: false }),
  };
}

/** Without a filesystem it has that of what it begins with, and is not formatted. */
function checkFormatOptions({ formatOptions, filesystem }: Partial<VolumeSpec>): void {
  if (formatOptions !== undefined && filesystem !== undefined) formatWords(filesystem, formatOptions);
}

const named = (topologies: readonly Topology[] = []): string[] =>
  topologies.flatMap(({ segments }) => (segments[NODE_KEY] === undefined ? [] : [nodeName(segments[NODE_KEY])]));

/** The first preferred one is where the scheduler put the pod; what else is listed is merely possible. */
function nodesOf(requirement: TopologyRequirement | undefined): Pick<Order, 'nodes' | 'isChosen'> {
  const { preferred = [], requisite = [] } = requirement ?? {};
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
  'formatOptions',
  'dataMigrationMode',
  'retainSource',
  'allowedPause',
  'transferBandwidth',
  'wipe',
] as const;

/** In what it differs from what is asked for, or null. A pool that the caller leaves open is whichever it got. */
function differenceOf(volume: Volume, { spec, window, source }: Order): string | null {
  const size = sizeOf(volume) ?? parseSize(volume.spec.size);
  if (!isWithin(size, window)) return `a size of ${size} bytes`;
  if (contentNamed(volume.spec.source) !== contentNamed(source)) return contentNamed(volume.spec.source);
  const other = COMPARED.filter((field) => field !== 'pool' || spec.pool !== undefined)
    .filter((field) => field !== 'filesystem' || (spec.volumeMode !== 'Block' && spec.filesystem !== undefined))
    .find((field) => spec[field] !== volume.spec[field]);
  return other === undefined ? null : `${other} ${volume.spec[other] ?? 'not set'}`;
}

const contentNamed = (source: VolumeSpec['source'] | null): string =>
  source ? `the content of ${Object.entries(source).join(' and ').replaceAll(',', ' ')}` : 'no content to begin with';

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
