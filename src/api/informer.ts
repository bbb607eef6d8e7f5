// A local, current view of all objects of one kind: list once, then watch, for ever. It tells its listeners of each change in order and
// decides nothing. Objects are told apart by UID: one that was made again under the same name is a deletion and an addition.
import type { Clock } from '../model/clock.ts';
import { FlockError, isReason, messageOf } from '../model/errors.ts';
import type { Kind } from '../model/kind.ts';
import type { ApiObject, Stored } from '../model/meta.ts';
import { backoffDelay } from './backoff.ts';
import type { Client, ObjectList, WatchEvent } from './client.ts';
import { listAll } from './list-all.ts';
import type { Log } from './log.ts';
import { DEFAULT_BACKOFF } from './queue.ts';

export interface InformerOptions {
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  clock: Clock;
  random: () => number;
  log: Log;
}

/** `object` null: it is gone. `previous` null: it is new. Called in order of the changes; must not throw and must not change the objects. */
export type Listener<T extends ApiObject> = (key: string, object: Stored<T> | null, previous: Stored<T> | null) => void;

export interface Informer<T extends ApiObject> {
  /** Ends with the signal, whatever the server does meanwhile. Call it once. */
  start(signal: AbortSignal): Promise<void>;
  /** The first list is here and the listeners know of it. Rejects with Unavailable when the informer is stopped before. */
  readonly synced: Promise<void>;
  get(name: string, namespace?: string): Stored<T> | null;
  list(): Stored<T>[];
  /** A listener that comes late is told of what is there at once. Returns how to end it. */
  onChange(listener: Listener<T>): () => void;
}

/** `name`, or `namespace/name`. */
const keyOf = ({ metadata }: ApiObject): string => (metadata.namespace ? `${metadata.namespace}/${metadata.name}` : metadata.name);

export function informer<T extends ApiObject>(client: Client, kind: Kind<T>, options: InformerOptions): Informer<T> {
  return new WatchingInformer(client, kind, options);
}

/** A watch that ended so soon, without a word, counts as a failure, ms: or a broken server would be asked without pause. */
const TOO_SHORT = 1_000;
/** After so many lists in a row that are older than what was seen, the server did go back (it was restored). */
const BELIEVE_OLDER = 5;

/** Versions are opaque; but servers that count, count upwards. False when it cannot be told. */
function isOlder(version: string, than: string): boolean {
  const counts = /^[0-9]{1,30}$/u;
  return counts.test(version) && counts.test(than) && BigInt(version) < BigInt(than);
}

class WatchingInformer<T extends ApiObject> implements Informer<T> {
  readonly synced: Promise<void>;
  readonly #client: Client;
  readonly #kind: Kind<T>;
  readonly #options: InformerOptions;
  readonly #objects = new Map<string, Stored<T>>();
  readonly #listeners = new Set<Listener<T>>();
  #markSynced = (): void => {};
  #markStopped = (): void => {};
  /** Version to watch from; null: list first. */
  #from: string | null = null;
  /** The newest version that was ever seen. */
  #newest = '';
  #failures = 0;
  #olderLists = 0;

  constructor(client: Client, kind: Kind<T>, options: InformerOptions) {
    this.#client = client;
    this.#kind = kind;
    this.#options = options;
    this.synced = new Promise((resolve, reject) => {
      this.#markSynced = resolve;
      this.#markStopped = () => reject(new FlockError('Unavailable', `${kind.plural} were not listed before the stop`));
    });
    // Nobody has to wait for it.
    this.synced.catch(() => {});
  }

  get(name: string, namespace?: string): Stored<T> | null {
    return this.#objects.get(namespace ? `${namespace}/${name}` : name) ?? null;
  }

  list(): Stored<T>[] {
    return [...this.#objects.values()];
  }

  onChange(listener: Listener<T>): () => void {
    this.#listeners.add(listener);
    for (const [key, object] of this.#objects) listener(key, object, null);
    return () => void this.#listeners.delete(listener);
  }

  async start(signal: AbortSignal): Promise<void> {
    const { clock, log, random } = this.#options;
    while (!signal.aborted) {
      try {
        await this.#listThenWatch(signal);
      } catch (error) {
        if (signal.aborted) break;
        const delay = backoffDelay(this.#failures, DEFAULT_BACKOFF, random);
        this.#failures += 1;
        log.warn({ kind: this.#kind.plural, failures: this.#failures, delay }, `watching goes on after a pause: ${messageOf(error)}`);
        await clock.sleep(delay, signal).catch(() => {});
      }
    }
    this.#markStopped();
  }

  async #listThenWatch(signal: AbortSignal): Promise<void> {
    const fresh = this.#from === null;
    const from = this.#from ?? (await this.#relist(signal));
    this.#from = from;
    const since = this.#options.clock.monotonic();
    try {
      const heard = await this.#follow(from, signal);
      if (signal.aborted || heard) return;
    } catch (error) {
      if (!isReason(error, 'Expired')) throw error;
      // Only a server that answers Expired to a fresh list's version is worth a pause.
      const pointless = fresh && this.#from === from && this.#lasted(since) < TOO_SHORT;
      this.#from = null;
      if (pointless) throw error;
      return;
    }
    if (this.#lasted(since) < TOO_SHORT) throw new FlockError('Unavailable', 'the server ended the watch at once');
    this.#failures = 0;
  }

  #lasted(since: number): number {
    return this.#options.clock.monotonic() - since;
  }

  /** True when anything came before the watch ended. */
  async #follow(resourceVersion: string, signal: AbortSignal): Promise<boolean> {
    let heard = false;
    for await (const event of this.#client.watch(this.#kind, { ...this.#selection(), resourceVersion, signal })) {
      if (signal.aborted) break;
      this.#apply(event);
      heard = true;
      this.#failures = 0;
    }
    return heard;
  }

  #selection(): { namespace?: string; labelSelector?: string; fieldSelector?: string } {
    const { namespace, labelSelector, fieldSelector } = this.#options;
    return {
      ...(namespace ? { namespace } : {}),
      ...(labelSelector ? { labelSelector } : {}),
      ...(fieldSelector ? { fieldSelector } : {}),
    };
  }

  async #relist(signal: AbortSignal): Promise<string> {
    const list = await listAll(this.#client, this.#kind, this.#selection());
    if (signal.aborted) return list.resourceVersion;
    this.#refuseOlder(list);
    const present = new Set(list.items.map(keyOf));
    for (const [key, previous] of this.#objects) if (!present.has(key)) this.#change(key, null, previous);
    for (const object of list.items) this.#put(object);
    this.#newest = list.resourceVersion;
    this.#markSynced();
    return list.resourceVersion;
  }

  #refuseOlder(list: ObjectList<T>): void {
    if (!isOlder(list.resourceVersion, this.#newest)) {
      this.#olderLists = 0;
      return;
    }
    this.#olderLists += 1;
    const versions = { kind: this.#kind.plural, seen: this.#newest, listed: list.resourceVersion };
    if (this.#olderLists < BELIEVE_OLDER)
      throw new FlockError('Unavailable', `the server's ${this.#kind.plural} are older than what it said before`);
    this.#options.log.warn(versions, 'the server keeps telling an older state: it was restored, and is believed now');
    this.#olderLists = 0;
  }

  #apply(event: WatchEvent<T>): void {
    if (event.type === 'BOOKMARK') return this.#reached(event.resourceVersion);
    const { object } = event;
    if (event.type === 'DELETED') this.#drop(object);
    else if (!this.#isKnownOlder(object)) this.#put(object);
    this.#reached(object.metadata.resourceVersion);
  }

  /** A server that lags behind the one asked before repeats what is over. */
  #isKnownOlder({ metadata }: Stored<T>): boolean {
    const known = this.get(metadata.name, metadata.namespace)?.metadata;
    return known !== undefined && known.uid === metadata.uid && isOlder(metadata.resourceVersion, known.resourceVersion);
  }

  #reached(version: string): void {
    this.#from = version;
    if (!isOlder(version, this.#newest)) this.#newest = version;
  }

  #drop(object: Stored<T>): void {
    const key = keyOf(object);
    const previous = this.#objects.get(key);
    if (previous !== undefined && previous.metadata.uid === object.metadata.uid) this.#change(key, null, previous);
  }

  #put(object: Stored<T>): void {
    const key = keyOf(object);
    const previous = this.#objects.get(key) ?? null;
    if (previous === null) return this.#change(key, object, null);
    if (previous.metadata.uid !== object.metadata.uid) {
      this.#change(key, null, previous);
      return this.#change(key, object, null);
    }
    if (previous.metadata.resourceVersion !== object.metadata.resourceVersion) this.#change(key, object, previous);
  }

  #change(key: string, object: Stored<T> | null, previous: Stored<T> | null): void {
    if (object === null) this.#objects.delete(key);
    else this.#objects.set(key, object);
    for (const listener of this.#listeners) {
      try {
        listener(key, object, previous);
      } catch (error) {
        this.#options.log.error({ kind: this.#kind.plural, key }, `a listener failed: ${messageOf(error)}`);
      }
    }
  }
}
