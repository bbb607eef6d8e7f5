// The REST verbs of our kinds over a registry: queries and bodies in, objects, lists, Tables and watches out. Knows no sockets and no
// certificates; who asks is told by its caller.
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../model/clock.ts';
import { apiVersionOf, type Kind } from '../model/kind.ts';
import type { ApiObject, Stored } from '../model/meta.ts';
import { mayRead, mayWrite, told, type Identity } from './access.ts';
import type { DeleteOptions, ListOptions, MergePatch } from './client.ts';
import { bodyOf, type Reply } from './exchange.ts';
import { isRecord } from './merge-patch.ts';
import type { Registry, Verb, WriteOptions } from './registry.ts';
import type { RestPath } from './rest-path.ts';
import { badRequest, forbidden, refused, resourceOf, statusOf } from './status.ts';
import { Tabulator, type IncludeObject } from './table-view.ts';
import { streamWatch, type WatchLine } from './watch-stream.ts';

export interface Asked {
  request: IncomingMessage;
  at: RestPath;
  query: URLSearchParams;
  identity: Identity;
  /** Whether the identity still stands; asked again while a watch lasts. */
  stands: () => Promise<boolean>;
}

const HALF_AN_HOUR_MS = 1_800_000;
const TABLE = /^application\/json;\s*as=Table;\s*v=v1;\s*g=meta\.k8s\.io$/u;

const flag = (query: URLSearchParams, name: string): boolean => ['1', 'true'].includes(query.get(name) ?? '');

/** A query's words that are set, under their names. */
function words<N extends string>(query: URLSearchParams, ...names: N[]): { [name in N]?: string } {
  return Object.fromEntries(names.flatMap((name) => (query.get(name) ? [[name, query.get(name)]] : []))) as { [name in N]?: string };
}

function count(query: URLSearchParams, name: string): number | null {
  const text = query.get(name);
  if (text === null || text === '') return null;
  if (!/^[0-9]{1,9}$/u.test(text)) throw badRequest(`${name}=${JSON.stringify(text.slice(0, 60))} is not a number`);
  return Number(text);
}

/** Whether rows are wanted rather than objects. The first that we can give is taken, as clients order them. */
function wantsTable(request: IncomingMessage): boolean {
  const accepted = (request.headers.accept ?? '*/*').split(',').map((one) => one.trim());
  for (const one of accepted) {
    if (TABLE.test(one)) return true;
    if (/^(application\/json|application\/\*|\*\/\*)(;\s*(q=[\d.]+|charset=utf-8|stream=watch))*$/iu.test(one)) return false;
  }
  throw refused(
    406,
    'NotAcceptable',
    'only the following media types are accepted: application/json, application/json;as=Table;v=v1;g=meta.k8s.io',
  );
}

const include = (query: URLSearchParams): IncludeObject => {
  const asked = query.get('includeObject') ?? '';
  return asked === 'None' || asked === 'Object' ? asked : 'Metadata';
};

export class Rest {
  readonly #registry: Registry;
  readonly #clock: Clock;
  readonly #tabulators: Map<string, Tabulator>;

  constructor(registry: Registry, clock: Clock) {
    this.#registry = registry;
    this.#clock = clock;
    this.#tabulators = new Map(registry.kinds.map((kind) => [resourceOf(kind), new Tabulator(kind)]));
  }

  /** Throws what the client is to be told. */
  async answer(asked: Asked): Promise<Reply> {
    const { request, at, identity } = asked;
    const act = this.#acts(at)[request.method ?? ''];
    if (!act)
      throw refused(405, 'MethodNotAllowed', `${request.method} is not possible there; ${Object.keys(this.#acts(at)).join(', ')} is`);
    const refusal = mayRead(identity);
    if (refusal !== null) throw forbidden(at.kind, at.name ?? '', told(identity), refusal);
    return act(asked);
  }

  #acts({ name }: RestPath): { [method: string]: (asked: Asked) => Promise<Reply> | Reply } {
    if (name === null) return { GET: (asked) => this.#collection(asked), POST: (asked) => this.#create(asked) };
    return {
      GET: (asked) => this.#get(asked),
      PUT: (asked) => this.#replace(asked),
      PATCH: (asked) => this.#patch(asked),
      DELETE: (asked) => this.#delete(asked),
    };
  }

  #tabulator(kind: Kind): Tabulator {
    return this.#tabulators.get(resourceOf(kind)) ?? new Tabulator(kind);
  }

  #get({ request, at, query }: Asked): Reply {
    const { kind, name, namespace } = at;
    const object = this.#registry.get(kind, name ?? '', namespace);
    if (!wantsTable(request)) return { code: 200, body: object };
    const metadata = { resourceVersion: object.metadata.resourceVersion };
    return { code: 200, body: this.#tabulator(kind).table([object], { now: this.#clock.now(), include: include(query), metadata }) };
  }

  #collection(asked: Asked): Reply {
    const { request, at, query } = asked;
    if (flag(query, 'watch')) return this.#watch(asked);
    const { kind, namespace } = at;
    const limit = count(query, 'limit');
    const options: ListOptions = { namespace, ...words(query, 'labelSelector', 'fieldSelector', 'continue'), ...(limit ? { limit } : {}) };
    const { items, ...metadata } = this.#registry.list(kind, options);
    if (wantsTable(request)) {
      return { code: 200, body: this.#tabulator(kind).table(items, { now: this.#clock.now(), include: include(query), metadata }) };
    }
    return { code: 200, body: { kind: `${kind.kind}List`, apiVersion: apiVersionOf(kind), metadata, items } };
  }

  #watch({ request, at, query, stands }: Asked): Reply {
    const { kind, namespace } = at;
    const table = wantsTable(request);
    const initial = flag(query, 'sendInitialEvents');
    const resourceVersion = initial ? '' : (query.get('resourceVersion') ?? '');
    const shown = (object: ApiObject): object =>
      table ? this.#tabulator(kind).table([object], { now: this.#clock.now(), include: include(query) }) : object;
    const bookmark = (annotations?: object): WatchLine => {
      const metadata = { resourceVersion: this.#registry.version, creationTimestamp: null, ...(annotations ? { annotations } : {}) };
      return { type: 'BOOKMARK', object: { kind: kind.kind, apiVersion: apiVersionOf(kind), metadata } };
    };
    const seconds = count(query, 'timeoutSeconds');
    const options = { namespace, resourceVersion, ...words(query, 'labelSelector', 'fieldSelector') };
    const begin = (tell: (line: WatchLine) => void): (() => void) => {
      const stop = this.#registry.watch(kind, options, ({ type, object }) => tell({ type, object: shown(object) }));
      if (initial) tell(bookmark({ 'k8s.io/initial-events-end': 'true' }));
      return stop;
    };
    return {
      stream: (response) =>
        streamWatch(response, {
          clock: this.#clock,
          // Not all at once: clients that came together would come together again.
          lasting: seconds ? seconds * 1000 : HALF_AN_HOUR_MS * (1 + Math.random()),
          bookmark: flag(query, 'allowWatchBookmarks') ? bookmark : null,
          allowed: stands,
          begin,
          told: (error) => ({ type: 'ERROR', object: statusOf(error) }),
        }),
    };
  }

  #writing({ at, query, identity }: Asked, warnings: string[]): WriteOptions & { namespace: string; subresource?: 'status' } {
    const dryRun = query.getAll('dryRun');
    if (dryRun.some((value) => value !== 'All')) throw badRequest('dryRun must be All');
    const validation = query.get('fieldValidation') || 'Warn';
    if (!['Ignore', 'Warn', 'Strict'].includes(validation)) throw badRequest('fieldValidation must be Ignore, Warn or Strict');
    return {
      namespace: at.namespace,
      dryRun: dryRun.length > 0,
      admit: (verb, old, next) => this.#admit(at.kind, identity, verb, { old, next }),
      unknownFields: (paths) => {
        const found = validation === 'Ignore' ? [] : paths.map((path) => `unknown field "${path}"`);
        if (validation === 'Strict' && found.length > 0)
          throw badRequest(`${unreadable(at.kind)}: strict decoding error: ${found.join(', ')}`);
        warnings.push(...found);
      },
      ...(at.subresource ? { subresource: at.subresource } : {}),
    };
  }

  #admit(kind: Kind, identity: Identity, verb: Verb, write: { old: ApiObject | null; next: ApiObject | null }): void {
    const refusal = mayWrite(identity, verb, kind, write);
    if (refusal !== null) throw forbidden(kind, (write.next ?? write.old)?.metadata.name ?? '', told(identity), refusal);
  }

  async #create(asked: Asked): Promise<Reply> {
    const { kind, namespace } = asked.at;
    const object = await bodyOf(asked.request);
    if (!isRecord(object)) throw badRequest(`the body must be an object of kind ${kind.kind}`);
    const warnings: string[] = [];
    const body = this.#registry.create(kind, inNamespace(kind, object, namespace), this.#writing(asked, warnings));
    return { code: 201, body, warnings };
  }

  async #replace(asked: Asked): Promise<Reply> {
    const { kind, name, namespace } = asked.at;
    const object = await bodyOf(asked.request);
    if (!isRecord(object)) throw badRequest(`the body must be an object of kind ${kind.kind}`);
    const warnings: string[] = [];
    const body = this.#registry.replace(kind, name ?? '', inNamespace(kind, object, namespace), this.#writing(asked, warnings));
    return { code: 200, body, warnings };
  }

  async #patch(asked: Asked): Promise<Reply> {
    const { kind, name } = asked.at;
    const patch = await bodyOf(asked.request, ['application/merge-patch+json']);
    const warnings: string[] = [];
    const body = this.#registry.patch(kind, name ?? '', patch as MergePatch, this.#writing(asked, warnings));
    return { code: 200, body, warnings };
  }

  async #delete(asked: Asked): Promise<Reply> {
    const { kind, name, subresource } = asked.at;
    if (subresource) throw refused(405, 'MethodNotAllowed', 'a status cannot be deleted');
    const { dryRun, ...preconditions } = readDeleteOptions(await bodyOf(asked.request));
    const options = this.#writing(asked, []);
    const last = this.#registry.delete(kind, name ?? '', { ...options, ...preconditions, dryRun: options.dryRun === true || dryRun });
    return { code: 200, body: (last.metadata.finalizers ?? []).length > 0 ? last : removed(kind, last) };
  }
}

const unreadable = ({ kind, version }: Kind): string => `${kind} in version "${version}" cannot be handled as a ${kind}`;

/** As Kubernetes answers when nothing is left of an object. */
function removed(kind: Kind, { metadata }: Stored<ApiObject>): object {
  const { name, uid } = metadata;
  const details = { name, ...(kind.group === '' ? {} : { group: kind.group }), kind: kind.plural, uid };
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details };
}

function readDeleteOptions(body: unknown): DeleteOptions & { dryRun: boolean } {
  if (body !== undefined && !isRecord(body)) throw badRequest('the body must be DeleteOptions');
  const { preconditions, dryRun } = body ?? {};
  const { uid, resourceVersion } = isRecord(preconditions) ? preconditions : {};
  return {
    dryRun: Array.isArray(dryRun) && dryRun.includes('All'),
    ...(typeof uid === 'string' ? { uid } : {}),
    ...(typeof resourceVersion === 'string' ? { resourceVersion } : {}),
  };
}

/** The object, with the namespace of its path. */
function inNamespace(kind: Kind, object: { [field: string]: unknown }, namespace: string): ApiObject {
  const { metadata } = object;
  if (kind.scope === 'Cluster' || !isRecord(metadata)) return object as unknown as ApiObject;
  const own = metadata['namespace'] ?? '';
  if (own !== '' && own !== namespace) {
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
  }
  return { ...object, metadata: { ...metadata, namespace } } as unknown as ApiObject;
}
