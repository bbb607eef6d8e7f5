// One object, or all of a kind, as they change: list, watch, and again from the start when the server closed or restarted. Knows no kind.
import type { Client } from '../api/client.ts';
import type { Clock } from '../model/clock.ts';
import { FlockError, isReason } from '../model/errors.ts';
import type { Kind } from '../model/kind.ts';
import type { ApiObject, Stored } from '../model/meta.ts';

/** A server that restarts is waited for; a person may always end it sooner. */
const PATIENCE_MS = 60_000;
const RETRY_MS = 500;

export interface Following<T extends ApiObject> {
  client: Client;
  kind: Kind<T>;
  clock: Clock;
  signal: AbortSignal;
  fieldSelector?: string;
}

export type Seen<T extends ApiObject> = { type: 'LIST'; objects: Stored<T>[] } | { type: 'CHANGED' | 'DELETED'; object: Stored<T> };

/** Everything that is there, then every change. After a break everything once more. Ends when the signal aborts. Throws what is not a break. */
export async function* changes<T extends ApiObject>(following: Following<T>): AsyncGenerator<Seen<T>> {
  let goodUntil = following.clock.monotonic() + PATIENCE_MS;
  while (!following.signal.aborted) {
    try {
      for await (const seen of once(following)) {
        goodUntil = following.clock.monotonic() + PATIENCE_MS;
        yield seen;
      }
    } catch (error) {
      if (following.signal.aborted) return;
      if (isReason(error, 'Expired')) continue;
      if (!isReason(error, 'Unavailable') || following.clock.monotonic() > goodUntil) throw error;
    }
    await following.clock.sleep(RETRY_MS, following.signal).catch(() => {});
  }
}

async function* once<T extends ApiObject>({ client, kind, signal, fieldSelector }: Following<T>): AsyncGenerator<Seen<T>> {
  const select = fieldSelector === undefined ? {} : { fieldSelector };
  const list = await client.list(kind, select);
  yield { type: 'LIST', objects: list.items };
  for await (const event of client.watch(kind, { ...select, resourceVersion: list.resourceVersion, signal })) {
    if (event.type === 'BOOKMARK') continue;
    yield { type: event.type === 'DELETED' ? 'DELETED' : 'CHANGED', object: event.object };
  }
}

/** One object at each of its changes; null when it is gone, which is the last. Ends early when the signal aborts. */
export async function* states<T extends ApiObject>(following: Following<T>, name: string): AsyncGenerator<Stored<T> | null> {
  for await (const seen of changes({ ...following, fieldSelector: `metadata.name=${name}` })) {
    const object = seen.type === 'LIST' ? (seen.objects[0] ?? null) : seen.type === 'CHANGED' ? seen.object : null;
    yield object;
    if (object === null) return;
  }
}

/** The object once `judge` answers; null of `judge` waits on. Throws NotFound when the object goes away, the signal's reason when aborted. */
export async function until<T extends ApiObject, R>(
  following: Following<T>,
  name: string,
  judge: (object: Stored<T>) => R | null,
): Promise<R> {
  for await (const object of states(following, name)) {
    if (object === null) throw new FlockError('NotFound', `${following.kind.singular} ${name} is gone`);
    const result = judge(object);
    if (result !== null) return result;
  }
  following.signal.throwIfAborted();
  throw new FlockError('Internal', `the changes of ${following.kind.singular} ${name} ended`);
}
