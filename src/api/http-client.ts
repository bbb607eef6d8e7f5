// The records over HTTP: kube-apiserver or our own server, which this file cannot tell apart. It knows Kubernetes' paths and queries; the
// transport is http-connection.ts, the meaning of refusals http-errors.ts.
import { FlockError, Invalid } from '../model/errors.ts';
import { apiVersionOf, type Kind } from '../model/kind.ts';
import type { ApiObject, Stored } from '../model/meta.ts';
import { printable } from '../model/names.ts';
import type { Client, DeleteOptions, ListOptions, MergePatch, ObjectList, WatchEvent, WatchOptions } from './client.ts';
import { connectTo, type Call, type Connection, type ConnectionConfig } from './http-connection.ts';
import { kindUnknown, refusalOf, type ReceivedStatus } from './http-errors.ts';
import { resourceOf } from './status.ts';

export type { ConnectionConfig } from './http-connection.ts';

export interface HttpClient extends Client {
  /** This machine's address as the server sees it; null before its first answer, or when that is not by network. */
  localAddress(): string | null;
  /** Drops the idle connections; a watch ends by its signal. */
  close(): void;
}

/** A Client of the server at `config.server`. Opens nothing until it is used. Throws Invalid for an address that is none. */
export function httpClient(config: ConnectionConfig): HttpClient {
  return new RestClient(connectTo(config));
}

/** One segment of a path, such that it cannot become another path. */
function segment(text: string, what: string): string {
  if (text === '' || text === '.' || text === '..' || /[/%\0]/u.test(text)) throw new Invalid(`${what} ${printable(text)} is not valid`);
  return encodeURIComponent(text);
}

function collectionPath(kind: Kind, namespace: string | undefined): string {
  const base = kind.group === '' ? `/api/${kind.version}` : `/apis/${kind.group}/${kind.version}`;
  const inNamespace = kind.scope === 'Namespaced' && namespace !== undefined && namespace !== '';
  return inNamespace ? `${base}/namespaces/${segment(namespace, 'namespace')}/${kind.plural}` : `${base}/${kind.plural}`;
}

function objectPath(kind: Kind, name: string, namespace: string | undefined, subresource?: 'status'): string {
  if (kind.scope === 'Namespaced' && !namespace) throw new Invalid(`${kind.kind} ${printable(name)} needs a namespace`);
  const path = `${collectionPath(kind, namespace)}/${segment(name, `name of ${kind.kind}`)}`;
  return subresource === undefined ? path : `${path}/${subresource}`;
}

function queryOf(values: { [name: string]: string | number | boolean | undefined }): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value !== undefined && value !== '') query.set(name, String(value));
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

const selectors = ({ labelSelector, fieldSelector }: ListOptions): { [name: string]: string | undefined } => ({
  labelSelector,
  fieldSelector,
});

/** A list's items of Kubernetes' own kinds do not say what they are. */
function stored<T extends ApiObject>(kind: Kind<T>, object: unknown): Stored<T> {
  return { ...(object as Stored<T>), apiVersion: apiVersionOf(kind), kind: kind.kind };
}

class RestClient implements HttpClient {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  localAddress(): string | null {
    return this.#connection.localAddress();
  }

  close(): void {
    this.#connection.close();
  }

  async get<T extends ApiObject>(kind: Kind<T>, name: string, namespace?: string): Promise<Stored<T>> {
    return stored(kind, await this.#demand(kind, { method: 'GET', path: objectPath(kind, name, namespace) }));
  }

  async list<T extends ApiObject>(kind: Kind<T>, options: ListOptions = {}): Promise<ObjectList<T>> {
    const query = queryOf({ ...selectors(options), limit: options.limit, continue: options.continue });
    const path = collectionPath(kind, options.namespace) + query;
    const body = (await this.#demand(kind, { method: 'GET', path })) as {
      items?: unknown[] | null;
      metadata?: { resourceVersion?: string; continue?: string };
    };
    return {
      items: (body.items ?? []).map((item) => stored(kind, item)),
      resourceVersion: body.metadata?.resourceVersion ?? '',
      ...(body.metadata?.continue ? { continue: body.metadata.continue } : {}),
    };
  }

  async create<T extends ApiObject>(kind: Kind<T>, object: T): Promise<Stored<T>> {
    const namespace = object.metadata.namespace;
    if (kind.scope === 'Namespaced' && !namespace) throw new Invalid(`${kind.kind} ${printable(object.metadata.name)} needs a namespace`);
    const path = collectionPath(kind, namespace);
    return stored(kind, await this.#demand(kind, { method: 'POST', path, body: object }));
  }

  async replace<T extends ApiObject>(kind: Kind<T>, object: Stored<T>, subresource?: 'status'): Promise<Stored<T>> {
    const path = objectPath(kind, object.metadata.name, object.metadata.namespace, subresource);
    return stored(kind, await this.#demand(kind, { method: 'PUT', path, body: object }));
  }

  async patch<T extends ApiObject>(
    kind: Kind<T>,
    name: string,
    patch: MergePatch,
    options: { namespace?: string; subresource?: 'status' } = {},
  ): Promise<Stored<T>> {
    const path = objectPath(kind, name, options.namespace, options.subresource);
    return stored(kind, await this.#demand(kind, { method: 'PATCH', path, body: patch, contentType: 'application/merge-patch+json' }));
  }

  async delete<T extends ApiObject>(kind: Kind<T>, name: string, options: DeleteOptions = {}): Promise<Stored<T>> {
    // kube-apiserver answers with a bare Status when nothing is left: what it was is only known from before.
    const before = await this.get(kind, name, options.namespace);
    const { uid, resourceVersion } = options;
    const preconditions = { ...(uid === undefined ? {} : { uid }), ...(resourceVersion === undefined ? {} : { resourceVersion }) };
    const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions };
    const answer = await this.#demand(kind, { method: 'DELETE', path: objectPath(kind, name, options.namespace), body });
    return (answer as ReceivedStatus | null)?.kind === 'Status' ? before : stored(kind, answer);
  }

  async *watch<T extends ApiObject>(kind: Kind<T>, options: WatchOptions): AsyncGenerator<WatchEvent<T>, void, void> {
    const { resourceVersion } = options;
    const query = queryOf({ watch: true, allowWatchBookmarks: true, resourceVersion, ...selectors(options) });
    for await (const line of this.#connection.lines(collectionPath(kind, options.namespace) + query, options.signal)) {
      const event = this.#event(kind, line as { type?: string; object?: unknown });
      if (event !== null) yield event;
    }
  }

  #event<T extends ApiObject>(kind: Kind<T>, line: { type?: string; object?: unknown }): WatchEvent<T> | null {
    switch (line.type) {
      case 'ADDED':
      case 'MODIFIED':
      case 'DELETED':
        return { type: line.type, object: stored(kind, line.object) };
      case 'BOOKMARK':
        return { type: 'BOOKMARK', resourceVersion: (line.object as ApiObject).metadata.resourceVersion ?? '' };
      case 'ERROR': {
        const status = line.object as ReceivedStatus;
        throw refusalOf(this.#connection.server, status.code ?? 500, status);
      }
      default:
        return null;
    }
  }

  async #demand(kind: Kind, call: Call): Promise<unknown> {
    const { code, body } = await this.#connection.call(call);
    const ok = code >= 200 && code < 300;
    if (ok && body !== null) return body;
    throw refused(this.#connection.server, kind, ok ? null : { code, status: body as ReceivedStatus | null });
  }
}

/** `answer` null: it was no JSON at all. */
function refused(server: string, kind: Kind, answer: { code: number; status: ReceivedStatus | null } | null): FlockError {
  if (answer === null) return new FlockError('Unavailable', `${server} answered without JSON: is it a Kubernetes API or flockctl server?`);
  const { code, status } = answer;
  return code === 404 && !status?.details?.name ? kindUnknown(server, resourceOf(kind)) : refusalOf(server, code, status);
}
