// ListVolumes, and one of them: what the records say now, with the condition of each.
import { status } from '@grpc/grpc-js';
import type { Client } from '../api/client.ts';
import { listAll } from '../api/list-all.ts';
import { isDeleting } from '../decide/observed.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import { invalid, Refused } from './errors.ts';
import type { ControllerGetVolumeResponse, ListVolumesRequest, ListVolumesResponse, VolumeCondition } from './generated/csi.ts';
import { answerOf, sizeOf } from './records.ts';

const TOKEN = 'after:';

/** By name; a token is the last name of the page before, so that what is made or deleted meanwhile shifts no page. */
export async function listVolumes(client: Client, { maxEntries, startingToken }: ListVolumesRequest): Promise<ListVolumesResponse> {
  if (maxEntries < 0) throw invalid('max_entries is negative');
  const after = nameAfter(startingToken);
  const { items } = await listAll(client, Volumes);
  const rest = items
    .filter((volume) => volume.metadata.name > after && sizeOf(volume) !== undefined && !isDeleting(volume))
    .toSorted((one, other) => (one.metadata.name < other.metadata.name ? -1 : 1));
  const page = maxEntries > 0 ? rest.slice(0, maxEntries) : rest;
  return { entries: page.map(entryOf), nextToken: page.length < rest.length ? `${TOKEN}${page.at(-1)?.metadata.name}` : '' };
}

function nameAfter(token: string): string {
  if (token === '') return '';
  if (!token.startsWith(TOKEN)) throw new Refused(status.ABORTED, 'starting_token is none of ours; list from the start');
  return token.slice(TOKEN.length);
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
