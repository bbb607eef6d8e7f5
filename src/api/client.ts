// The one way to the records. Controllers, agents and the CLI hold a Client and cannot tell whether kube-apiserver, `flockctl server` or
// the in-memory registry answers. Errors are FlockErrors: NotFound, AlreadyExists, Conflict, Invalid, Forbidden, Unauthorized, Expired
// (a watch or a continue token too old: list again), Unavailable (nobody answered, or not now: try again later).
import type { Kind } from '../model/kind.ts';
import type { ApiObject, Stored } from '../model/meta.ts';

export interface ListOptions {
  namespace?: string;
  /** As kubectl writes them: `a=b,c!=d,e in (f,g),!h`. */
  labelSelector?: string;
  /** metadata.name, metadata.namespace; for Events also involvedObject.*. */
  fieldSelector?: string;
  limit?: number;
  continue?: string;
}

export interface ObjectList<T extends ApiObject> {
  items: Stored<T>[];
  /** Watch from here to see every later change. */
  resourceVersion: string;
  continue?: string;
}

export interface WatchOptions extends Omit<ListOptions, 'limit' | 'continue'> {
  /** Changes after this version. */
  resourceVersion: string;
  signal?: AbortSignal;
}

export type WatchEvent<T extends ApiObject> =
  | { type: 'ADDED' | 'MODIFIED' | 'DELETED'; object: Stored<T> }
  /** Nothing older than this will come any more. */
  | { type: 'BOOKMARK'; resourceVersion: string };

export interface DeleteOptions {
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
}

/** RFC 7386: null removes, lists are replaced whole. */
export type MergePatch = { [key: string]: unknown };

export interface Client {
  get<T extends ApiObject>(kind: Kind<T>, name: string, namespace?: string): Promise<Stored<T>>;
  list<T extends ApiObject>(kind: Kind<T>, options?: ListOptions): Promise<ObjectList<T>>;
  create<T extends ApiObject>(kind: Kind<T>, object: T): Promise<Stored<T>>;
  /** Compare-and-swap by the object's resourceVersion: Conflict when it is not the newest. With 'status' only the status is written, else only the rest. */
  replace<T extends ApiObject>(kind: Kind<T>, object: Stored<T>, subresource?: 'status'): Promise<Stored<T>>;
  /** With `metadata.resourceVersion` in the patch it is a compare-and-swap too. */
  patch<T extends ApiObject>(
    kind: Kind<T>,
    name: string,
    patch: MergePatch,
    options?: { namespace?: string; subresource?: 'status' },
  ): Promise<Stored<T>>;
  /** The object as it is afterwards: with finalizers it only got its deletionTimestamp. */
  delete<T extends ApiObject>(kind: Kind<T>, name: string, options?: DeleteOptions): Promise<Stored<T>>;
  /** Ends when the signal aborts or the server closes it; throws Expired when the version is too old. */
  watch<T extends ApiObject>(kind: Kind<T>, options: WatchOptions): AsyncIterable<WatchEvent<T>>;
}
