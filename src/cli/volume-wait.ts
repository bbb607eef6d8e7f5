// Waiting for a volume.
import type { Client } from '../api/client.ts';
import type { Stored } from '../model/meta.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import type { Context } from './context.ts';
import { waitFor, type Wait } from './wait.ts';

export const waitForVolume = <R>(context: Context, client: Client, volume: Stored<Volume>, wait: Wait<Volume, R>): Promise<R> =>
  waitFor(context, { client, kind: Volumes, name: volume.metadata.name }, wait);

/** Until it may be used. */
export const waitUntilMade = (context: Context, client: Client, volume: Stored<Volume>): Promise<Stored<Volume>> => {
  const { name } = volume.metadata;
  return waitForVolume(context, client, volume, {
    judge: (seen) => (seen.status?.phase === 'Available' || seen.status?.phase === 'Published' ? seen : null),
    interrupted: `volume ${name} is still being made; flockctl volume show ${name} --watch, or flockctl volume delete ${name}`,
  });
};
