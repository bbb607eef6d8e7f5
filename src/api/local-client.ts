// A client of a registry in the same process: for tests, the simulation, and a server's own parts. What goes in and out is copied, so
// that nobody shares an object with the registry.
import type { Clock } from '../model/clock.ts';
import type { Kind } from '../model/kind.ts';
import type { ApiObject, Stored } from '../model/meta.ts';
import type { Client, DeleteOptions, ListOptions, MergePatch, ObjectList, WatchEvent, WatchOptions } from './client.ts';
import type { Registry, UpdateOptions } from './registry.ts';

export interface LocalClientOptions {
  registry: Registry;
  clock: Clock;
  /** How often a silent watch tells its version, ms; default a minute. */
  bookmarkEvery?: number;
}

const copy = <T>(value: T): T => structuredClone(value);

export class LocalClient implements Client {
  readonly #registry: Registry;
  readonly #clock: Clock;
  readonly #bookmarkEvery: number;

  constructor({ registry, clock, bookmarkEvery = 60_000 }: LocalClientOptions) {
    this.#registry = registry;
    this.#clock = clock;
    this.#bookmarkEvery = bookmarkEvery;
  }

  async get<T extends ApiObject>(kind: Kind<T>, name: string, namespace?: string): Promise<Stored<T>> {
    return copy(this.#registry.get(kind, name, namespace));
  }

  async list<T extends ApiObject>(kind: Kind<T>, options?: ListOptions): Promise<ObjectList<T>> {
    return copy(this.#registry.list(kind, options));
  }

  async create<T extends ApiObject>(kind: Kind<T>, object: T): Promise<Stored<T>> {
    return copy(this.#registry.create<T>(kind, copy(object)));
  }

  async replace<T extends ApiObject>(kind: Kind<T>, object: Stored<T>, subresource?: 'status'): Promise<Stored<T>> {
    return copy(this.#registry.replace<T>(kind, object.metadata.name, copy(object), subresource ? { subresource } : {}));
  }

  async patch<T extends ApiObject>(kind: Kind<T>, name: string, patch: MergePatch, options: UpdateOptions = {}): Promise<Stored<T>> {
    return copy(this.#registry.patch(kind, name, copy(patch), options));
  }

  async delete<T extends ApiObject>(kind: Kind<T>, name: string, options?: DeleteOptions): Promise<Stored<T>> {
    return copy(this.#registry.delete(kind, name, options));
  }

  async *watch<T extends ApiObject>(kind: Kind<T>, options: WatchOptions): AsyncGenerator<WatchEvent<T>> {
    const waiting: WatchEvent<T>[] = [];
    let wake = (): void => {};
    const stop = this.#registry.watch<T>(kind, options, (event) => {
      waiting.push(copy(event));
      wake();
    });
    try {
      while (!options.signal?.aborted) {
        yield* waiting.splice(0);
        if (waiting.length > 0) continue;
        const silent = !(await this.#somethingComes(options.signal, (resolve) => (wake = resolve)));
        // What came in the meantime is older than the bookmark and goes first.
        if (silent && waiting.length === 0 && !options.signal?.aborted) yield { type: 'BOOKMARK', resourceVersion: this.#registry.version };
      }
    } finally {
      stop();
    }
  }

  /** True when `wake` was called, false when it is time for a bookmark or the watch was aborted. */
  async #somethingComes(aborted: AbortSignal | undefined, onWake: (resolve: () => void) => void): Promise<boolean> {
    const done = new AbortController();
    const signal = aborted ? AbortSignal.any([aborted, done.signal]) : done.signal;
    const woken = new Promise<true>((resolve) => onWake(() => resolve(true)));
    const slept = this.#clock.sleep(this.#bookmarkEvery, signal).then(
      () => false,
      () => false,
    );
    try {
      return await Promise.race([woken, slept]);
    } finally {
      done.abort();
    }
  }
}
