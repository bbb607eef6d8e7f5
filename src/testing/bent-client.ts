// A client that a test has bent: what an agent reads is changed on its way, what it writes is lost or refused. Only *.test.ts import it.
import type { Client, DeleteOptions, ListOptions, MergePatch, ObjectList, WatchEvent, WatchOptions } from '../api/client.ts';
import type { Kind } from '../model/kind.ts';
import type { ApiObject, Stored } from '../model/meta.ts';

export interface Bend {
  /** What is read, in every way of reading. */
  read?: (kind: Kind, object: Stored<ApiObject>) => Stored<ApiObject>;
  /** Called before a patch is sent; what it throws is the answer. */
  beforePatch?: (kind: Kind, name: string, patch: MergePatch) => void;
  /** Called after a patch was written; what it throws is the answer. */
  afterPatch?: (kind: Kind, name: string, patch: MergePatch) => void;
}

export class BentClient implements Client {
  readonly #client: Client;
  readonly #bend: Bend;

  constructor(client: Client, bend: Bend) {
    this.#client = client;
    this.#bend = bend;
  }

  #read<T extends ApiObject>(kind: Kind<T>, object: Stored<T>): Stored<T> {
    return (this.#bend.read?.(kind, object) as Stored<T> | undefined) ?? object;
  }

  async get<T extends ApiObject>(kind: Kind<T>, name: string, namespace?: string): Promise<Stored<T>> {
    return this.#read(kind, await this.#client.get(kind, name, namespace));
  }

  async list<T extends ApiObject>(kind: Kind<T>, options?: ListOptions): Promise<ObjectList<T>> {
    const list = await this.#client.list(kind, options);
    return { ...list, items: list.items.map((object) => this.#read(kind, object)) };
  }

  create<T extends ApiObject>(kind: Kind<T>, object: T): Promise<Stored<T>> {
    return this.#client.create(kind, object);
  }

  replace<T extends ApiObject>(kind: Kind<T>, object: Stored<T>, subresource?: 'status'): Promise<Stored<T>> {
    return this.#client.replace(kind, object, subresource);
  }

  async patch<T extends ApiObject>(
    kind: Kind<T>,
    name: string,
    patch: MergePatch,
    options?: { namespace?: string; subresource?: 'status' },
  ): Promise<Stored<T>> {
    this.#bend.beforePatch?.(kind, name, patch);
    const written = await this.#client.patch(kind, name, patch, options);
    this.#bend.afterPatch?.(kind, name, patch);
    return this.#read(kind, written);
  }

  delete<T extends ApiObject>(kind: Kind<T>, name: string, options?: DeleteOptions): Promise<Stored<T>> {
    return this.#client.delete(kind, name, options);
  }

  async *watch<T extends ApiObject>(kind: Kind<T>, options: WatchOptions): AsyncGenerator<WatchEvent<T>> {
    for await (const event of this.#client.watch(kind, options))
      yield event.type === 'BOOKMARK' ? event : { ...event, object: this.#read(kind, event.object) };
  }
}
