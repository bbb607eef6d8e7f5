// ListVolumes, and one of them: what the records say now, with the condition of each.
import type { Client } from '../api/client.ts';
import { listAll } from '../api/list-all.ts';
import { isDeleting } from '../decide/observed.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import type { ControllerGetVolumeResponse, ListVolumesRequest, ListVolumesResponse, VolumeCondition } from './generated/csi.ts';
import { pageOf } from './pages.ts';
import { answerOf, sizeOf } from './records.ts';

/** By name. */
export async function listVolumes(client: Client, asked: ListVolumesRequest): Promise<ListVolumesResponse> {
  const { items } = await listAll(client, Volumes);
  const { page, nextToken } = pageOf(
    items.filter((volume) => sizeOf(volume) !== undefined && !isDeleting(volume)),
    asked,
  );
  return { entries: page.map(entryOf), nextToken };
}

export function entryOf(volume: Volume): Required<ControllerGetVolumeResponse> {
  const { node } = volume.spec;
  return {
    volume: answerOf(volume, sizeOf(volume) ?? 0n),
    // A volume can be used where it is, and nowhere else.
    status: { publishedNodeIds: node === undefined ? [] : [node], volumeCondition: conditionOf(volume) },
  };
}

export function conditionOf({ metadata, spec, status: known }: Volume): VolumeCondition {
  if (known?.obstacle) return { abnormal: true, message: `${known.obstacle.reason}: ${known.obstacle.message}` };
  return { abnormal: false, message: `volume ${metadata.name} is on node ${spec.node ?? '(none yet)'}` };
}
