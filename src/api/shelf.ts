// All objects of one kind in memory, with the window of their latest changes: lists at an older version and watches that replay come
// from here. Objects on a shelf are never changed, only replaced. Knows no semantics of writes.
import type { ApiObject, Stored } from '../model/meta.ts';
import type { Selector } from './selectors.ts';
import { expired } from './status.ts';

export type Kept = Stored<ApiObject> & { [field: string]: unknown };

export interface Change {
  version: number;
  type: 'ADDED' | 'MODIFIED' | 'DELETED';
  /** As it is after the change; of a deleted object, as it last was, with the version of its deletion. */
  object: Kept;
  before: Kept | null;
}

export type Seen = { type: Change['type']; object: Kept };
export type Sink = (event: Seen) => void;

export interface View {
  /** Empty: all. */
  namespace: string;
  selects: Selector | null;
}

const keyOf = (namespace: string, name: string): string => `${namespace}/${name}`;

const inView = ({ namespace, selects }: View, object: Kept | null): boolean =>
  object !== null && (namespace === '' || object.metadata.namespace === namespace) && (selects === null || selects(object));

const withVersion = (object: Kept, version: string): Kept => ({ ...object, metadata: { ...object.metadata, resourceVersion: version } });

/** A change as it looks through a view: what comes into it was added, what leaves it was deleted. */
function seen(view: View, { type, object, before }: Change): Seen | null {
  const was = inView(view, before);
  if (type === 'DELETED') return was ? { type, object } : null;
  const is = inView(view, object);
  if (is) return { type: was ? 'MODIFIED' : 'ADDED', object };
  // Kubernetes shows it as it was when it was last in view, with the version of the change.
  return was && before ? { type: 'DELETED', object: withVersion(before, object.metadata.resourceVersion) } : null;
}

export class Shelf {
  readonly #objects = new Map<string, Kept>();
  readonly #watchers = new Set<(change: Change) => void>();
  readonly #depth: number;
  #changes: Change[] = [];
  #sorted: [string, Kept][] | null = null;
  /** Changes after this version are in the window. */
  #forgotten: number;

  /** `depth`: how many changes the window holds at least; `version`: that of the table it was filled from. */
  constructor(depth: number, version: number) {
    this.#depth = depth;
    this.#forgotten = version;
  }

  /** Puts an object there that the table had; not a change. */
  fill(object: Kept): void {
    this.#objects.set(keyOf(object.metadata.namespace ?? '', object.metadata.name), object);
    this.#sorted = null;
  }

  get(namespace: string, name: string): Kept | null {
    return this.#objects.get(keyOf(namespace, name)) ?? null;
  }

  apply(change: Change): void {
    const { metadata } = change.object;
    const key = keyOf(metadata.namespace ?? '', metadata.name);
    if (change.type === 'DELETED') this.#objects.delete(key);
    else this.#objects.set(key, change.object);
    this.#sorted = null;
    this.#changes.push(change);
    if (this.#changes.length >= 2 * this.#depth) this.#forget();
    for (const tell of this.#watchers) tell(change);
  }

  #forget(): void {
    const dropped = this.#changes.splice(0, this.#changes.length - this.#depth);
    this.#forgotten = dropped.at(-1)?.version ?? this.#forgotten;
  }

  #changesAfter(version: number): Change[] {
    if (version < this.#forgotten) throw expired(`too old resource version: ${version} (${this.#forgotten})`);
    let first = this.#changes.length;
    while (first > 0 && (this.#changes[first - 1]?.version ?? 0) > version) first -= 1;
    return this.#changes.slice(first);
  }

  /** What was in view at a version, in order of its keys. Throws Expired when that is too long ago. */
  at(version: number, view: View): [string, Kept][] {
    const later = this.#changesAfter(version);
    if (later.length === 0) return this.#now().filter(([, object]) => inView(view, object));
    const objects = new Map(this.#objects);
    for (const { object, before } of later.toReversed()) {
      const key = keyOf(object.metadata.namespace ?? '', object.metadata.name);
      if (before) objects.set(key, before);
      else objects.delete(key);
    }
    return inOrder(objects).filter(([, object]) => inView(view, object));
  }

  #now(): [string, Kept][] {
    this.#sorted ??= inOrder(this.#objects);
    return this.#sorted;
  }

  /** Tells `sink` every change after `version`, those of the past at once. Returns how to stop. Throws Expired. */
  watch(version: number, view: View, sink: Sink): () => void {
    const tell = (change: Change): void => {
      const event = seen(view, change);
      if (event) sink(event);
    };
    for (const change of this.#changesAfter(version)) tell(change);
    this.#watchers.add(tell);
    return () => {
      this.#watchers.delete(tell);
    };
  }
}

const inOrder = (objects: Map<string, Kept>): [string, Kept][] => [...objects].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
