// Records by the names that people type: what is missing is said with the command that shows what is there. Knows no output.
import type { Client } from '../api/client.ts';
import { listAll } from '../api/list-all.ts';
import { isUnfinished } from '../decide/observed.ts';
import { whyNoSnapshots } from '../decide/snapshots.ts';
import { FlockError, ifFound, isReason } from '../model/errors.ts';
import { EVENT_NAMESPACE, type ApiObject, type Stored } from '../model/meta.ts';
import { Moves, type Move } from '../model/move.ts';
import { Snapshots, type Snapshot } from '../model/snapshot.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import { Events, type Event } from '../model/system.ts';
import { Volumes, type Volume } from '../model/volume.ts';

async function orHint<T>(found: Promise<T>, what: string, command: string): Promise<T> {
  try {
    return await found;
  } catch (error) {
    if (isReason(error, 'NotFound'))
      throw new FlockError('NotFound', `there is no ${what}; ${command} shows what is there`, { cause: error });
    throw error;
  }
}

export const volumeNamed = (client: Client, name: string): Promise<Stored<Volume>> =>
  orHint(client.get(Volumes, name), `volume "${name}"`, 'flockctl volume list');

export const snapshotNamed = (client: Client, name: string): Promise<Stored<Snapshot>> =>
  orHint(client.get(Snapshots, name), `snapshot "${name}"`, 'flockctl snapshot list');

export const nodeNamed = (client: Client, name: string): Promise<Stored<StorageNode>> =>
  orHint(client.get(StorageNodes, name), `node "${name}"`, 'flockctl node list');

/** Throws Unsupported when the volume lies where no snapshot can be taken, and so no clone be made. */
export async function refuseWithoutSnapshots(client: Client, volume: Stored<Volume>): Promise<void> {
  const { node } = volume.spec;
  const why = node === undefined ? null : whyNoSnapshots(volume, await ifFound(client.get(StorageNodes, node)));
  if (why) throw new FlockError('Unsupported', `${why.message}; nothing was made`);
}

/** The Move of that name, or else of the volume of that name: the one that goes on, or the newest. */
export async function moveNamed(client: Client, name: string): Promise<Stored<Move>> {
  const exact = await ifFound(client.get(Moves, name));
  if (exact) return exact;
  const moves = await movesOf(client, name);
  const meant = moves.findLast(isUnfinished) ?? moves.at(-1);
  if (meant) return meant;
  throw new FlockError('NotFound', `there is no move "${name}", and no move of a volume of that name; flockctl move list shows the moves`);
}

/** Oldest first. */
export async function movesOf(client: Client, volume: string): Promise<Stored<Move>[]> {
  const { items } = await listAll(client, Moves);
  const created = (move: Stored<Move>): string => `${move.metadata.creationTimestamp} ${move.metadata.name}`;
  return items.filter((move) => move.spec.volume === volume).toSorted((a, b) => (created(a) < created(b) ? -1 : 1));
}

/** What happened to an object, oldest first. */
export async function eventsOf(client: Client, object: Stored<ApiObject>): Promise<Stored<Event>[]> {
  const { items } = await client.list(Events, {
    namespace: object.metadata.namespace ?? EVENT_NAMESPACE,
    fieldSelector: `involvedObject.uid=${object.metadata.uid}`,
  });
  return items.toSorted((a, b) => ((a.lastTimestamp ?? '') < (b.lastTimestamp ?? '') ? -1 : 1));
}
