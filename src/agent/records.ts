// How the agent reads and writes records: fresh reads, its own entries only, and no write that changes nothing.
import type { Client } from '../api/client.ts';
import { difference } from '../api/merge-patch.ts';
import { hasEnded } from '../decide/observed.ts';
import { ifFound } from '../model/errors.ts';
import type { Stored } from '../model/meta.ts';
import { Moves, type Incoming, type Move, type Outgoing } from '../model/move.ts';
import { Snapshots, type Snapshot } from '../model/snapshot.ts';
import { Volumes, type CopyStatus, type Volume } from '../model/volume.ts';
import type { Known } from './ports.ts';

/** One look at the records of a volume. `volume` null: there is none, or one of another uid. */
export interface World {
  volume: Stored<Volume> | null;
  moves: Stored<Move>[];
  /** Snapshots of volumes of its name. */
  snapshots: Stored<Snapshot>[];
}

export const freshVolume = (client: Client, name: string): Promise<Stored<Volume> | null> => ifFound(client.get(Volumes, name));
export const freshSnapshot = (client: Client, name: string): Promise<Stored<Snapshot> | null> => ifFound(client.get(Snapshots, name));
export const freshMove = (client: Client, name: string): Promise<Stored<Move> | null> => ifFound(client.get(Moves, name));

/** What watches know of the volume's moves; those that have not ended are read afresh, for rule 1 rests on them. */
export async function movesOf(client: Client, known: Known, volume: string): Promise<Stored<Move>[]> {
  const found = await Promise.all(
    known.movesOf(volume).map(async (move) => (hasEnded(move) ? move : freshMove(client, move.metadata.name))),
  );
  return found.filter((move) => move !== null);
}

/** Every move of the volume, read afresh, also those that no watch has told of: before anything is served or destroyed. */
export async function allMovesOf(client: Client, volume: string): Promise<Stored<Move>[]> {
  const { items } = await client.list(Moves);
  return items.filter((move) => move.spec.volume === volume);
}

/** Every Snapshot of the volume, read afresh, also those that no watch has told of: before anything that may hold one is destroyed. */
export async function allSnapshotsOf(client: Client, volume: string): Promise<Stored<Snapshot>[]> {
  const { items } = await client.list(Snapshots);
  return items.filter((snapshot) => snapshot.spec.volume === volume);
}

export async function patchEntry(client: Client, volume: Stored<Volume>, copy: string, entry: CopyStatus | null): Promise<void> {
  const before = volume.status?.copies?.[copy];
  if (entry === null && !before) return;
  const change = entry === null ? null : difference(before, entry);
  if (entry !== null && !change) return;
  const metadata = { uid: volume.metadata.uid, ...(entry === null ? { resourceVersion: volume.metadata.resourceVersion } : {}) };
  await client.patch(Volumes, volume.metadata.name, { metadata, status: { copies: { [copy]: change } } }, { subresource: 'status' });
}

export async function patchMove(
  client: Client,
  move: Stored<Move>,
  part: { outgoing: Partial<Nullable<Outgoing>> } | { incoming: Partial<Nullable<Incoming>> },
): Promise<void> {
  await client.patch(Moves, move.metadata.name, { metadata: { uid: move.metadata.uid }, status: part }, { subresource: 'status' });
}

type Nullable<T> = { [F in keyof T]: T[F] | null };
