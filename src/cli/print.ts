// Objects as a table, JSON, YAML or names. Knows columns, not kinds.
import { stringify } from 'yaml';
import type { Kind } from '../model/kind.ts';
import type { ApiObject, Stored } from '../model/meta.ts';
import type { Format } from './arguments.ts';
import type { Context } from './context.ts';
import { harmless, paintFor } from './format.ts';

export interface TableColumn<T> {
  title: string;
  text: (object: T, now: number) => string;
}

/** Rows of cells, aligned; the last column is not padded. */
export function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) for (const [at, cell] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, cell.length);
  return rows.map((row) => row.map((cell, at) => (at === row.length - 1 ? cell : cell.padEnd((widths[at] ?? 0) + 3))).join(''));
}

/** Pairs of a name and a value, one a line; those without a value are left out. */
export function described(pairs: readonly (readonly [string, string | undefined])[]): string[] {
  return aligned(pairs.flatMap(([name, value]) => (value === undefined || value === '' ? [] : [[`${name}:`, harmless(value)]])));
}

const named = <T extends ApiObject>(kind: Kind<T>, object: T): string =>
  `${kind.singular}${kind.group === '' ? '' : `.${kind.group}`}/${object.metadata.name}`;

export interface View<T extends ApiObject> {
  kind: Kind<T>;
  columns: readonly TableColumn<Stored<T>>[];
  /** What is said instead of an empty table. */
  none: string;
}

/** A list in one document. */
export function printList<T extends ApiObject>(context: Context, view: View<T>, objects: readonly Stored<T>[], format: Format): void {
  switch (format) {
    case 'json':
      return context.out.write(`${JSON.stringify(listOf(objects), null, 2)}\n`);
    case 'yaml':
      return context.out.write(stringify(listOf(objects)));
    case 'name':
      return context.out.write(objects.map((object) => `${named(view.kind, object)}\n`).join(''));
    case 'table':
      return printTable(context, view, objects);
  }
}

const listOf = (items: readonly ApiObject[]): object => ({ apiVersion: 'v1', kind: 'List', items });

function printTable<T extends ApiObject>(context: Context, view: View<T>, objects: readonly Stored<T>[]): void {
  if (objects.length === 0) return context.err.write(`${view.none}\n`);
  const [head = '', ...rows] = tableLines(context, view, objects);
  const paint = paintFor(context.out, context.env);
  context.out.write([paint('bold', head), ...rows, ''].join('\n'));
}

function tableLines<T extends ApiObject>(context: Context, view: View<T>, objects: readonly Stored<T>[]): string[] {
  const now = context.clock.now();
  return aligned([
    view.columns.map((column) => column.title),
    ...objects.map((object) => view.columns.map((column) => harmless(column.text(object, now)))),
  ]);
}

/** One object; `describe` says it for people. */
export function printObject<T extends ApiObject>(
  context: Context,
  kind: Kind<T>,
  object: Stored<T>,
  how: { format: Format; describe: () => string[] },
): void {
  switch (how.format) {
    case 'json':
      return context.out.write(`${JSON.stringify(object, null, 2)}\n`);
    case 'yaml':
      return context.out.write(stringify(object));
    case 'name':
      return context.out.write(`${named(kind, object)}\n`);
    case 'table':
      return context.out.write(
        how
          .describe()
          .map((text) => `${text}\n`)
          .join(''),
      );
  }
}

export interface Change<T extends ApiObject> {
  object: Stored<T>;
  /** What else is there: a row is aligned to it. */
  others: Iterable<Stored<T>>;
}

/** One change of a watched list: a row, or a document of its own. */
export function printChange<T extends ApiObject>(context: Context, view: View<T>, { object, others }: Change<T>, format: Format): void {
  switch (format) {
    case 'json':
      return context.out.write(`${JSON.stringify(object)}\n`);
    case 'yaml':
      return context.out.write(`---\n${stringify(object)}`);
    case 'name':
      return context.out.write(`${named(view.kind, object)}\n`);
    case 'table':
      return context.out.write(`${tableLines(context, view, [object, ...others])[1] ?? ''}\n`);
  }
}
