// The records' home in the simulation: the shipped registry, which stops, starts again, and is restored from a backup. What it gives away
// is frozen, so that nobody shares a change with it. Knows no clients.
import { marked } from '../api/backup.ts';
import { Registry } from '../api/registry.ts';
import { MemoryTable, type Row } from '../api/table.ts';
import type { Clock } from '../model/clock.ts';
import type { Kind } from '../model/kind.ts';
import { KINDS } from '../model/kinds.ts';
import type { ApiObject, Stored } from '../model/meta.ts';

export interface Seen {
  type: 'ADDED' | 'MODIFIED' | 'DELETED';
  object: Stored<ApiObject>;
}

export interface Backup {
  rows: readonly Row[];
  version: number;
}

/** Changes that can be watched again: few, so that watches expire. */
const WINDOW = 150;
/** As the shipped restore does: versions go on above all that the lost future may have used. */
const SKIPPED = 1_000_000_000;

export class Server {
  up = true;
  registry: Registry;
  readonly #clock: Clock;
  readonly #uid: () => string;
  readonly #observe: (kind: Kind, seen: Seen) => void;
  readonly #watches = new Set<(why: string) => void>();
  #table = new MemoryTable();

  /** `observe` is told of every write, within it. */
  constructor(clock: Clock, uid: () => string, observe: (kind: Kind, seen: Seen) => void) {
    this.#clock = clock;
    this.#uid = uid;
    this.#observe = observe;
    this.registry = this.#open();
  }

  #open(): Registry {
    const registry = new Registry({ table: this.#table, clock: this.#clock, uid: this.#uid, window: WINDOW });
    for (const kind of KINDS) registry.watch<ApiObject>(kind, { resourceVersion: registry.version }, (seen) => this.#observe(kind, seen));
    return registry;
  }

  /** Told when the server goes down; returns how to call that off. */
  watched(ends: (why: string) => void): () => void {
    this.#watches.add(ends);
    return () => void this.#watches.delete(ends);
  }

  stop(): void {
    this.up = false;
    this.dropWatches('the server stopped');
  }

  /** Whoever watches has to begin again. */
  dropWatches(why: string): void {
    for (const ends of Array.from(this.#watches)) ends(why);
  }

  start(): void {
    this.registry = this.#open();
    this.up = true;
  }

  backup(): Backup {
    return { rows: [...this.#table.rows()], version: this.#table.version() };
  }

  /** Only while it is down. */
  restore({ rows }: Backup): void {
    const version = this.#table.version() + SKIPPED;
    const objects = rows.map(({ text }) => JSON.parse(text) as ApiObject);
    const changed = marked(objects, new Date(this.#clock.now()).toISOString());
    this.#table = new MemoryTable();
    for (const [index, row] of rows.entries()) {
      const object = changed.get(index);
      this.#table.put(object ? { ...row, text: JSON.stringify(object) } : row, version);
    }
  }
}

const frozen = new WeakMap<object, object>();

function freeze(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  for (const each of Object.values(value)) freeze(each);
}

/** As it is now, for ever: objects of the registry are never changed, only replaced. */
export function snapshot<T extends object>(object: T): T {
  const known = frozen.get(object);
  if (known) return known as T;
  const copy = structuredClone(object);
  freeze(copy);
  frozen.set(object, copy);
  return copy;
}
