// ControllerExpandVolume: asks for a larger size in the record and waits until the copy has it. The agent grows device and filesystem; the
// call to the node afterwards proves it.
import { status } from '@grpc/grpc-js';
import type { Client } from '../api/client.ts';
import { whyNotGrow } from '../decide/growth.ts';
import { isDeleting, servedCopy } from '../decide/observed.ts';
import type { Stored } from '../model/meta.ts';
import { parseSize } from '../model/quantity.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import { accessOf } from './access.ts';
import { Refused } from './errors.ts';
import type { ControllerExpandVolumeRequest, ControllerExpandVolumeResponse } from './generated/csi.ts';
import { volumeIdOf } from './ids.ts';
import { existing, nodeNamed, sizeOf, unitOf } from './records.ts';
import { isWithin, sizeFor, windowOf, type SizeWindow } from './sizes.ts';
import type { VolumeWaits } from './waiting.ts';

export async function expandVolume(
  client: Client,
  waits: VolumeWaits,
  asked: ControllerExpandVolumeRequest,
  signal: AbortSignal,
): Promise<ControllerExpandVolumeResponse> {
  const name = volumeIdOf(asked);
  const window = windowOf(asked.capacityRange);
  if (asked.volumeCapability) accessOf(asked.volumeCapability);
  const volume = await existing(waits, name);
  const nodeExpansionRequired = volume.spec.volumeMode !== 'Block';
  const size = sizeOf(volume);
  if (size === undefined) throw new Refused(status.UNAVAILABLE, `volume ${name} is not made yet; try again in a moment`);
  if (isWithin(size, window)) return { capacityBytes: size, nodeExpansionRequired };
  const wanted = await orderGrowth(client, volume, size, window);
  const capacityBytes = await waits.until(name, (seen) => grownTo(name, seen, wanted), signal);
  return { capacityBytes, nodeExpansionRequired };
}

/** A size in a record never goes back: room is looked for before it is written. */
async function orderGrowth(client: Client, volume: Stored<Volume>, size: bigint, window: SizeWindow): Promise<bigint> {
  const { name, uid } = volume.metadata;
  const { limit } = window;
  if (limit !== null && size > limit)
    throw new Refused(status.OUT_OF_RANGE, `volume ${name} has ${size} bytes, more than the ${limit} allowed, and cannot shrink`);
  const node = await nodeNamed(client, volume.spec.node ?? '');
  const pool = volume.spec.pool ?? '';
  const wanted = sizeFor(window, { unit: unitOf(node, pool), least: 1n });
  if (wanted <= parseSize(volume.spec.size)) return wanted;
  const why = whyNotGrow(volume, wanted, { name: volume.spec.node ?? '', record: node });
  if (why) throw new Refused(status.RESOURCE_EXHAUSTED, why.message);
  await client.patch(Volumes, name, { metadata: { uid }, spec: { size: String(wanted) } });
  return wanted;
}

function grownTo(name: string, seen: Stored<Volume> | null, wanted: bigint): bigint | null {
  if (!seen || isDeleting(seen)) throw new Refused(status.NOT_FOUND, `volume ${name} was deleted`);
  const size = sizeOf(seen) ?? 0n;
  if (size >= wanted) return size;
  const obstacle = servedCopy(seen)?.obstacle;
  if (obstacle?.reason === 'NoSpace') throw new Refused(status.RESOURCE_EXHAUSTED, obstacle.message);
  return null;
}
