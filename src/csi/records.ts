// Records as calls look them up, with the protocol's own refusals; and what orchestrators are told of a volume.
import { status } from '@grpc/grpc-js';
import type { Client } from '../api/client.ts';
import { servedCopy } from '../decide/observed.ts';
import { isReason } from '../model/errors.ts';
import type { Stored } from '../model/meta.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import type { Volume, VolumeSpec } from '../model/volume.ts';
import { Refused } from './errors.ts';
import type { Topology, Volume as Answer, VolumeContentSource } from './generated/csi.ts';
import { NODE_KEY, poolKey } from './names.ts';
import type { VolumeWaits } from './waiting.ts';

/** Throws NOT_FOUND. */
export async function existing(waits: VolumeWaits, name: string): Promise<Stored<Volume>> {
  const volume = await waits.read(name);
  if (!volume) throw new Refused(status.NOT_FOUND, `there is no volume ${name}`);
  return volume;
}

export async function nodeNamed(client: Client, name: string): Promise<Stored<StorageNode> | null> {
  try {
    return await client.get(StorageNodes, name);
  } catch (error) {
    if (isReason(error, 'NotFound')) return null;
    throw error;
  }
}

/** Sizes of pools that do not say otherwise are multiples of this, bytes. */
const USUAL_UNIT = 4096n;

export const unitOf = (node: StorageNode | null, pool: string): bigint => BigInt(node?.status?.pools?.[pool]?.unit ?? USUAL_UNIT);

/** The real size of the copy that may be served, bytes; undefined: it is not made. */
export function sizeOf(volume: Volume): bigint | undefined {
  const copy = servedCopy(volume);
  return copy?.created && copy.size !== undefined ? BigInt(copy.size) : undefined;
}

/** As orchestrators are told of a volume. */
export function answerOf({ metadata, spec }: Volume, size: bigint): Answer {
  return {
    capacityBytes: size,
    volumeId: metadata.name,
    volumeContext: {},
    contentSource: contentSourceOf(spec),
    accessibleTopology: topologyOf(spec),
  };
}

function contentSourceOf({ source = {} }: VolumeSpec): VolumeContentSource | undefined {
  if (source.snapshot !== undefined) return { type: { $case: 'snapshot', value: { snapshotId: source.snapshot } } };
  if (source.volume !== undefined) return { type: { $case: 'volume', value: { volumeId: source.volume } } };
  return undefined;
}

/** It never changes while the volume lives: one that follows its application may be on any node that has its pool. */
function topologyOf({ node, pool, dataMigrationMode }: VolumeSpec): Topology[] {
  if (dataMigrationMode === 'VolumeTransfer' && pool !== undefined) return [{ segments: { [poolKey(pool)]: 'true' } }];
  return node === undefined ? [] : [{ segments: { [NODE_KEY]: node } }];
}
