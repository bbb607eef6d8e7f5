// Objects as the rows that kubectl prints: meta.k8s.io/v1 Table, from a kind's columns. Knows no transport.
import type { Column, Kind } from '../model/kind.ts';
import type { ApiObject } from '../model/meta.ts';
import { jsonPath } from './json-path.ts';
import { isRecord } from './merge-patch.ts';

export interface TableView {
  kind: 'Table';
  apiVersion: 'meta.k8s.io/v1';
  metadata: { resourceVersion?: string; continue?: string };
  columnDefinitions: { name: string; type: string; format: string; description: string; priority: number }[];
  rows: { cells: unknown[]; object: object }[];
}

/** What of an object comes with its row. */
export type IncludeObject = 'None' | 'Metadata' | 'Object';

/** How long ago, as kubectl says it: 45s, 5m, 5m30s, 3h, 3h20m, 2d, 2d4h. `ms` since then. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  const two = (a: number, unit: string, b: number, smaller: string): string => (b === 0 ? `${a}${unit}` : `${a}${unit}${b}${smaller}`);
  if (seconds < 120) return `${seconds}s`;
  if (minutes < 10) return two(minutes, 'm', seconds % 60, 's');
  if (minutes < 180) return `${minutes}m`;
  if (hours < 8) return two(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return `${hours}h`;
  if (days < 8) return two(days, 'd', hours % 24, 'h');
  return days < 730 ? `${days}d` : two(Math.floor(days / 365), 'y', days % 365, 'd');
}

function cell({ type }: Column, value: unknown, now: number): unknown {
  if (value === undefined || value === null) return type === 'date' ? '<unknown>' : type === 'string' ? '' : null;
  if (type === 'date') {
    const then = typeof value === 'string' ? Date.parse(value) : NaN;
    return Number.isNaN(then) ? '<invalid>' : age(now - then);
  }
  return type === 'string' && typeof value !== 'string' ? text(value) : value;
}

/** What is no text itself: a reference to another object as kubectl writes one, `volume/db`, all else as JSON. */
function text(value: unknown): string {
  const { kind, name } = isRecord(value) ? value : {};
  return typeof kind === 'string' && typeof name === 'string' ? `${kind.toLowerCase()}/${name}` : JSON.stringify(value);
}

const partial = (object: ApiObject): object => ({ kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: object.metadata });

/** Comes first, unless the kind has a place of its own for it. */
const NAME: Column = { name: 'Name', type: 'string', jsonPath: '.metadata.name' };

/** Makes Tables of one kind's objects; `now` in ms since 1970. */
export class Tabulator {
  readonly #columns: { column: Column; read: (value: unknown) => unknown }[];

  constructor({ columns }: Kind) {
    const placed = columns.some((column) => column.jsonPath === NAME.jsonPath);
    this.#columns = [...(placed ? [] : [NAME]), ...columns].map((column) => ({ column, read: jsonPath(column.jsonPath) }));
  }

  table(
    objects: ApiObject[],
    { now, include, metadata = {} }: { now: number; include: IncludeObject; metadata?: TableView['metadata'] },
  ): TableView {
    const columns = this.#columns.map(({ column }) => ({
      name: column.name,
      type: column.type,
      format: column.jsonPath === NAME.jsonPath ? 'name' : '',
      description: `Value at ${column.jsonPath}`,
      priority: column.priority ?? 0,
    }));
    return {
      kind: 'Table',
      apiVersion: 'meta.k8s.io/v1',
      metadata,
      columnDefinitions: columns.map((column) => (column.type === 'date' ? { ...column, type: 'string' } : column)),
      rows: objects.map((object) => ({
        cells: this.#columns.map(({ column, read }) => cell(column, read(object), now)),
        object: include === 'Object' ? object : include === 'Metadata' ? partial(object) : {},
      })),
    };
  }
}
