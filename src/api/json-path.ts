// The JSONPath that columns are written in: fields, numbered items, and one item chosen by a field's value. Nothing else.
import { FlockError } from '../model/errors.ts';
import { isRecord } from './merge-patch.ts';

type Step = (value: unknown) => unknown;

const STEP = /\.([A-Za-z_][-\w]*)|\['([^']+)'\]|\[(\d+)\]|\[\?\(@\.(\w+)\s*==\s*["']([^"']*)["']\)\]/uy;

const field =
  (name: string): Step =>
  (value) =>
    isRecord(value) && Object.hasOwn(value, name) ? value[name] : undefined;

const chosen =
  (name: string, wanted: string): Step =>
  (value) =>
    Array.isArray(value) ? value.find((item) => isRecord(item) && item[name] === wanted) : undefined;

function stepOf([, name, quoted, index, filtered, wanted = '']: RegExpExecArray): Step {
  if (index !== undefined) return (value) => (Array.isArray(value) ? value[Number(index)] : undefined);
  if (filtered !== undefined) return chosen(filtered, wanted);
  return field(name ?? quoted ?? '');
}

/** Reads the value at a path, undefined when there is none. Throws Internal for a path beyond this subset. */
export function jsonPath(path: string): Step {
  const steps: Step[] = [];
  STEP.lastIndex = 0;
  while (STEP.lastIndex < path.length) {
    const at = STEP.lastIndex;
    const match = STEP.exec(path);
    if (!match) throw new FlockError('Internal', `the column's path ${path} is not understood from ${JSON.stringify(path.slice(at))} on`);
    steps.push(stepOf(match));
  }
  return (value) => steps.reduce((found, step) => step(found), value);
}
