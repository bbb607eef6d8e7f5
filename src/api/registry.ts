// The objects' home: Kubernetes' semantics of reading, writing and watching, over a table. Every call is one step that nothing comes
// between; every write is durable in the table before anybody sees it. Knows no transport, no identities and no single kind.
import type { Clock } from '../model/clock.ts';
import { FlockError } from '../model/errors.ts';
import type { Kind } from '../model/kind.ts';
import { KINDS } from '../model/kinds.ts';
import type { ApiObject, ObjectMeta, Stored } from '../model/meta.ts';
import type { DeleteOptions, ListOptions, MergePatch, ObjectList } from './client.ts';
import { continueToken, readContinueToken, readVersion } from './continuation.ts';
import { Definition, type Fields, type Given } from './definition.ts';
import { isRecord, mergePatch, sameJson } from './merge-patch.ts';
import { asDying, bornMeta, metaProblems, metaUpdateProblems, nameProblems, namespaceProblems } from './metadata.ts';
import { checkExpected, checkPreconditions, revised } from './revision.ts';
import { selectorOf } from './selectors.ts';
import { Shelf, type Change, type Kept, type Seen, type View } from './shelf.ts';
import { alreadyExists, badRequest, expired, invalid, notFound, resourceOf, type FieldProblem } from './status.ts';
import type { Table } from './table.ts';
import { required } from './validation.ts';

export type Verb = 'create' | 'update' | 'delete';

export interface WriteOptions {
  /** Everything but the write itself: the answer is what would have been stored. */
  dryRun?: boolean;
  /** Asked before a write, with what is there and what would be; throws Forbidden to refuse it. */
  admit?: (verb: Verb, old: ApiObject | null, next: ApiObject | null) => void;
  /** Told the paths of the fields that were dropped because nobody knows them; may throw to refuse the write. */
  unknownFields?: (paths: string[]) => void;
}

export interface UpdateOptions extends WriteOptions {
  namespace?: string;
  subresource?: 'status';
}

export interface RegistryWatch {
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Changes after this version; '' and '0': first all that is there, as ADDED, then what comes. */
  resourceVersion: string;
}

export interface RegistryOptions {
  table: Table;
  clock: Clock;
  /** Gives UUIDs that never repeat. */
  uid: () => string;
  kinds?: readonly Kind[];
  /** How many changes of each kind can be watched again; default 2000. */
  window?: number;
}

/** Events are records for people, kept as long as Kubernetes keeps them by default. */
const EVENT_LIFETIME_MS = 3_600_000;
const EVENT_RESOURCE = 'events';
const GENERATE_ATTEMPTS = 8;

interface Place {
  definition: Definition;
  shelf: Shelf;
  /** Last write of each object of a kind that is not kept for ever, oldest first, ms. */
  ages: Map<string, number> | null;
}
/** What lies on a kind's shelf is of that kind: it was judged by its schema. */
const as = <T extends ApiObject>(object: ApiObject): Stored<T> => object as Stored<T>;

export class Registry {
  readonly kinds: readonly Kind[];
  readonly #table: Table;
  readonly #clock: Clock;
  readonly #uid: () => string;
  readonly #places = new Map<string, Place>();
  #version: number;

  constructor({ table, clock, uid, kinds = KINDS, window = 2000 }: RegistryOptions) {
    this.kinds = kinds;
    this.#table = table;
    this.#clock = clock;
    this.#uid = uid;
    this.#version = table.version();
    for (const kind of kinds) {
      const resource = resourceOf(kind);
      const ages = resource === EVENT_RESOURCE ? new Map<string, number>() : null;
      this.#places.set(resource, { definition: new Definition(kind), shelf: new Shelf(window, this.#version), ages });
    }
    this.#fill();
  }

  #fill(): void {
    for (const { resource, namespace, name, text } of this.#table.rows()) {
      const place = this.#places.get(resource);
      if (!place)
        throw new FlockError(
          'Corrupt',
          `the database holds ${resource} "${name}", a kind that this version does not know: use a newer one`,
        );
      place.shelf.fill(JSON.parse(text) as Kept);
      place.ages?.set(`${namespace}/${name}`, this.#clock.now());
    }
  }

  /** Version of the newest write. */
  get version(): string {
    return String(this.#version);
  }

  #place(kind: Kind): Place {
    const place = this.#places.get(resourceOf(kind));
    if (!place) throw new FlockError('NotFound', `this server has no ${resourceOf(kind)}`);
    return place;
  }

  #find(kind: Kind, name: string, namespace: string): Kept {
    const found = this.#place(kind).shelf.get(scoped(kind, namespace), name);
    if (!found) throw notFound(kind, name);
    return found;
  }

  get<T extends ApiObject>(kind: Kind<T>, name: string, namespace = ''): Stored<T> {
    return as(this.#find(kind, name, namespace));
  }

  list<T extends ApiObject>(kind: Kind<T>, options: ListOptions = {}): ObjectList<T> {
    const from = options.continue ? readContinueToken(options.continue) : { version: this.#version, after: '' };
    if (from.version > this.#version) throw expired('the continue token is of a time that this server does not know: begin the list again');
    const found = this.#place(kind)
      .shelf.at(from.version, viewOf(kind, options))
      .filter(([key]) => key > from.after);
    const page = options.limit ? found.slice(0, options.limit) : found;
    const last = page.at(-1)?.[0];
    return {
      items: page.map(([, object]) => as<T>(object)),
      resourceVersion: String(from.version),
      ...(page.length < found.length && last !== undefined ? { continue: continueToken({ version: from.version, after: last }) } : {}),
    };
  }

  create<T extends ApiObject>(kind: Kind<T>, object: ApiObject, options: WriteOptions = {}): Stored<T> {
    const { definition, shelf } = this.#place(kind);
    const given = definition.read(object);
    if (given.meta.resourceVersion) throw badRequest('resourceVersion should not be set on objects to be created');
    const namespace = scoped(kind, given.meta.namespace ?? '');
    const name = given.meta.name || this.#generatedName(shelf, namespace, given.meta);
    const meta = bornMeta(given.meta, { name, namespace, uid: this.#uid(), now: this.#clock.now(), counted: definition.counted });
    const { status: _, ...specified } = given.fields;
    const fields = kind.statusSubresource ? specified : given.fields;
    const born = definition.whole(meta, fields);
    options.admit?.('create', null, born);
    options.unknownFields?.(given.unknown);
    this.#judge(kind, name, [...birthProblems(kind, name, namespace), ...metaProblems(meta), ...definition.problems(fields, null)]);
    if (shelf.get(namespace, name)) throw alreadyExists(kind, name);
    return as(options.dryRun ? born : this.#store(kind, 'ADDED', born, null));
  }

  #generatedName(shelf: Shelf, namespace: string, meta: ObjectMeta): string {
    const base = (meta.generateName ?? '').slice(0, 58);
    if (base === '') return '';
    for (let attempt = 1; ; attempt += 1) {
      const name = base + this.#uid().replaceAll('-', '').slice(-5);
      if (attempt === GENERATE_ATTEMPTS || !shelf.get(namespace, name)) return name;
    }
  }

  replace<T extends ApiObject>(kind: Kind<T>, name: string, object: ApiObject, options: UpdateOptions = {}): Stored<T> {
    const { definition } = this.#place(kind);
    const given = definition.read(object);
    if (given.meta.name !== name)
      throw badRequest(`the name of the object (${given.meta.name ?? ''}) does not match the name on the URL (${name})`);
    const old = this.#find(kind, name, options.namespace ?? given.meta.namespace ?? '');
    checkExpected(kind, given.meta, old);
    return as(this.#update(kind, given, old, options));
  }

  patch<T extends ApiObject>(kind: Kind<T>, name: string, patch: MergePatch, options: UpdateOptions = {}): Stored<T> {
    if (!isRecord(patch)) throw badRequest('a merge patch must be a JSON object');
    const old = this.#find(kind, name, options.namespace ?? '');
    const given = this.#place(kind).definition.read(mergePatch(old, patch));
    if (given.meta.name !== name)
      throw badRequest(`the name of the object (${given.meta.name ?? ''}) does not match the name on the URL (${name})`);
    checkExpected(kind, given.meta, old);
    return as(this.#update(kind, given, old, options));
  }

  #update(kind: Kind, given: Given, old: Kept, options: UpdateOptions): Kept {
    const { definition } = this.#place(kind);
    const status = options.subresource === 'status';
    if (status && !kind.statusSubresource) throw notFound(kind, `${old.metadata.name}/status`);
    const next = revised(definition, given, old, status);
    options.admit?.('update', old, next);
    options.unknownFields?.(given.unknown);
    const ofMeta = status ? [] : metaUpdateProblems(given.meta, old.metadata);
    const ofFields = definition.problems(definition.fieldsOf(next), definition.fieldsOf(old));
    this.#judge(kind, old.metadata.name, [...ofMeta, ...ofFields]);
    return this.#settle(kind, next, old, options);
  }

  /** Stores an accepted update: nothing when nothing changed, a removal when the last finalizer of a dying object went. */
  #settle(kind: Kind, next: ApiObject & Fields, old: Kept, { dryRun = false }: WriteOptions): Kept {
    const gone = next.metadata.deletionTimestamp !== undefined && (next.metadata.finalizers ?? []).length === 0;
    if (dryRun || (!gone && sameJson(next, old))) return next as Kept;
    return gone ? this.#remove(kind, next as Kept, old) : this.#store(kind, 'MODIFIED', next, old);
  }

  delete<T extends ApiObject>(kind: Kind<T>, name: string, options: DeleteOptions & WriteOptions = {}): Stored<T> {
    const old = this.#find(kind, name, options.namespace ?? '');
    options.admit?.('delete', old, null);
    checkPreconditions(kind, options, old);
    const held = (old.metadata.finalizers ?? []).length > 0;
    if (held && old.metadata.deletionTimestamp !== undefined) return as(old);
    const dying = held ? asDying(old, this.#clock.now()) : old;
    if (options.dryRun) return as(dying);
    return as(held ? this.#store(kind, 'MODIFIED', dying, old) : this.#remove(kind, old, old));
  }

  /**
   * Tells `sink` all that happens, in order and within the write that did it, so it must neither throw nor write. Returns how to stop.
   * Throws Expired when the version is too old, or of a future that this server does not know.
   */
  watch<T extends ApiObject>(
    kind: Kind<T>,
    options: RegistryWatch,
    sink: (event: { type: Seen['type']; object: Stored<T> }) => void,
  ): () => void {
    const { shelf } = this.#place(kind);
    const view = viewOf(kind, options);
    const tell = ({ type, object }: Seen): void => sink({ type, object: as<T>(object) });
    const afresh = options.resourceVersion === '' || options.resourceVersion === '0';
    const version = afresh ? this.#version : readVersion(options.resourceVersion);
    if (version > this.#version) throw expired(`resource version ${version} is above this server's ${this.#version}: list again`);
    if (afresh) for (const [, object] of shelf.at(version, view)) tell({ type: 'ADDED', object });
    return shelf.watch(version, view, tell);
  }

  #judge(kind: Kind, name: string, problems: FieldProblem[]): void {
    if (problems.length > 0) throw invalid(kind, name.slice(0, 300), problems);
  }

  #store(kind: Kind, type: Change['type'], next: ApiObject, before: Kept | null): Kept {
    const version = this.#version + 1;
    const object = { ...next, metadata: { ...next.metadata, resourceVersion: String(version) } } as Kept;
    const { namespace = '', name } = object.metadata;
    this.#table.put({ resource: resourceOf(kind), namespace, name, text: JSON.stringify(object) }, version);
    this.#publish(kind, { version, type, object, before });
    this.#forgetOld(kind, `${namespace}/${name}`);
    return object;
  }

  /** Returns the object as its writer left it, with the version of its removal. */
  #remove(kind: Kind, last: Kept, before: Kept): Kept {
    const version = this.#version + 1;
    const { namespace = '', name } = before.metadata;
    this.#table.remove({ resource: resourceOf(kind), namespace, name }, version);
    const metadata = { ...before.metadata, resourceVersion: String(version) };
    this.#publish(kind, { version, type: 'DELETED', object: { ...before, metadata }, before });
    return { ...last, metadata: { ...last.metadata, resourceVersion: String(version) } };
  }

  #publish(kind: Kind, change: Change): void {
    this.#version = change.version;
    this.#place(kind).shelf.apply(change);
  }

  #forgetOld(kind: Kind, written: string): void {
    const { ages, shelf } = this.#place(kind);
    if (!ages) return;
    const now = this.#clock.now();
    ages.delete(written);
    ages.set(written, now);
    for (const [key, age] of ages) {
      if (now - age < EVENT_LIFETIME_MS) return;
      ages.delete(key);
      const [namespace = '', name = ''] = key.split('/');
      const old = shelf.get(namespace, name);
      if (old) this.#remove(kind, old, old);
    }
  }
}

const scoped = (kind: Kind, namespace: string): string => (kind.scope === 'Cluster' ? '' : namespace);

function viewOf(kind: Kind, options: { namespace?: string; labelSelector?: string; fieldSelector?: string }): View {
  return { namespace: scoped(kind, options.namespace ?? ''), selects: selectorOf(kind, options) };
}

function birthProblems(kind: Kind, name: string, namespace: string): FieldProblem[] {
  const ofName = name === '' ? [required('metadata.name', 'name or generateName is required')] : nameProblems(name);
  const ofNamespace = kind.scope === 'Cluster' ? [] : namespace === '' ? [required('metadata.namespace')] : namespaceProblems(namespace);
  return [...ofName, ...ofNamespace];
}
