// Label and field selectors, as kubectl writes them. Parsed once, then asked for each object. Knows no kind but by its fields.
import type { Kind } from '../model/kind.ts';
import type { ApiObject } from '../model/meta.ts';
import { printable } from '../model/names.ts';
import { badRequest } from './status.ts';

export type Selector = (object: ApiObject) => boolean;
type Labels = Readonly<Record<string, string>>;
type Requirement = (labels: Labels) => boolean;

const KEY = '[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?';
const VALUE = '(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?';
const EXISTS = new RegExp(`^(!?)\\s*(${KEY})$`, 'u');
const COMPARES = new RegExp(`^(${KEY})\\s*(==|=|!=|>|<)\\s*(${VALUE})$`, 'u');
const CONTAINS = new RegExp(`^(${KEY})\\s+(in|notin)\\s*\\(\\s*(${VALUE}(?:\\s*,\\s*${VALUE})*)\\s*\\)$`, 'u');

/** Splits at commas that are outside of parentheses. */
const split = (text: string): string[] => text.split(/,(?![^(]*\))/u).map((part) => part.trim());

const unparsable = (what: string, text: string, how: string): never => {
  throw badRequest(`unable to parse ${what} selector ${printable(text)}: ${how}`);
};

const whole = (text: string | undefined): bigint | null => (text !== undefined && /^-?[0-9]{1,19}$/u.test(text) ? BigInt(text) : null);

function ordered(key: string, greater: boolean, value: string, text: string): Requirement {
  const bound = whole(value);
  if (bound === null) return unparsable('label', text, `for > and < the value must be an integer`);
  return (labels) => {
    const there = whole(labels[key]);
    return there !== null && (greater ? there > bound : there < bound);
  };
}

function comparison([, key = '', operator = '', value = '']: RegExpExecArray, text: string): Requirement {
  if (operator === '!=') return (labels) => labels[key] !== value;
  if (operator === '>' || operator === '<') return ordered(key, operator === '>', value, text);
  return (labels) => labels[key] === value;
}

function requirement(part: string, text: string): Requirement {
  const contains = CONTAINS.exec(part);
  if (contains) {
    const [, key = '', operator, list = ''] = contains;
    const values = new Set(list.split(',').map((value) => value.trim()));
    return operator === 'in'
      ? (labels) => labels[key] !== undefined && values.has(labels[key])
      : (labels) => labels[key] === undefined || !values.has(labels[key]);
  }
  const compares = COMPARES.exec(part);
  if (compares) return comparison(compares, text);
  const exists = EXISTS.exec(part);
  if (!exists)
    return unparsable('label', text, `${printable(part)} is none of key, !key, key=value, key!=value, key in (a,b), key notin (a,b)`);
  const [, not, key = ''] = exists;
  return not ? (labels) => labels[key] === undefined : (labels) => labels[key] !== undefined;
}

const NO_LABELS: Labels = {};

/** Throws Invalid when the text is no label selector. */
export function labelSelector(text: string): Selector {
  if (text.trim() === '') return () => true;
  const requirements = split(text).map((part) => requirement(part, text));
  return (object) => requirements.every((holds) => holds(object.metadata.labels ?? NO_LABELS));
}

const EVERYWHERE = ['metadata.name', 'metadata.namespace'];
const OF_EVENTS = [
  ...['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath'].map((field) => `involvedObject.${field}`),
  'reason',
  'reportingComponent',
  'source',
  'type',
];
const selectable = (kind: Kind): string[] => (kind.group === '' && kind.kind === 'Event' ? [...EVERYWHERE, ...OF_EVENTS] : EVERYWHERE);

function fieldOf(object: object, path: string): string {
  let value: unknown = object;
  for (const name of path.split('.')) value = (value as { [name: string]: unknown } | undefined)?.[name];
  if (path === 'source') return String((value as { component?: string } | undefined)?.component ?? '');
  return typeof value === 'string' ? value : '';
}

function fieldRequirement(kind: Kind, part: string, text: string): Selector {
  const [, field = '', operator, value = ''] =
    /^([A-Za-z.]+)(==|=|!=)(.*)$/u.exec(part) ?? unparsable('field', text, 'write it as field=value or field!=value');
  const fields = selectable(kind);
  if (!fields.includes(field))
    throw badRequest(`field label not supported: ${field}; ${kind.plural} can be selected by ${fields.join(', ')}`);
  return operator === '!=' ? (object) => fieldOf(object, field) !== value : (object) => fieldOf(object, field) === value;
}

/** Throws Invalid when the text is no field selector, or names a field that this kind cannot be selected by. */
export function fieldSelector(kind: Kind, text: string): Selector {
  if (text.trim() === '') return () => true;
  const requirements = text.split(',').map((part) => fieldRequirement(kind, part.trim(), text));
  return (object) => requirements.every((holds) => holds(object));
}

/** Both selectors of a list or watch as one; null when everything is selected. */
export function selectorOf(kind: Kind, options: { labelSelector?: string; fieldSelector?: string }): Selector | null {
  const { labelSelector: labels = '', fieldSelector: fields = '' } = options;
  if (labels === '' && fields === '') return null;
  const byLabel = labelSelector(labels);
  const byField = fieldSelector(kind, fields);
  return (object) => byLabel(object) && byField(object);
}
