// Where a registry's objects outlive it: rows of text under a version. A table knows no kinds' meaning and no semantics; the registry
// keeps the objects in memory and reads a table once, when it opens it.

export interface Row {
  /** `volumes.flock.dev` */
  resource: string;
  /** Empty for cluster-scoped objects. */
  namespace: string;
  name: string;
  /** The object as JSON. */
  text: string;
}

export type RowKey = Omit<Row, 'text'>;

export interface Table {
  /** Version of the newest write, 0 when there was none. */
  version(): number;
  rows(): Iterable<Row>;
  /** Both are durable when they return, together with the version; they throw Unavailable or NoSpace and then changed nothing. */
  put(row: Row, version: number): void;
  remove(key: RowKey, version: number): void;
}

const keyOf = ({ resource, namespace, name }: RowKey): string => `${resource}/${namespace}/${name}`;

/** For tests and the simulation: outlives a registry, not the process. */
export class MemoryTable implements Table {
  readonly #rows = new Map<string, Row>();
  #version = 0;

  version(): number {
    return this.#version;
  }

  rows(): Iterable<Row> {
    return [...this.#rows.values()];
  }

  put(row: Row, version: number): void {
    this.#rows.set(keyOf(row), row);
    this.#version = version;
  }

  remove(key: RowKey, version: number): void {
    this.#rows.delete(keyOf(key));
    this.#version = version;
  }
}
