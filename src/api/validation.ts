// An object's fields against its kind's structural schema, as kube-apiserver does it for custom resources: unknown fields are pruned,
// defaults filled in, and what is wrong is told with its path, its value and what is allowed. Knows no rules in CEL and no storage.
import type { Structural } from '../model/structural.ts';
import { isRecord } from './merge-patch.ts';
import type { FieldProblem } from './status.ts';

const at = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`);
const keyed = (path: string, key: string): string => `${path}[${key}]`;

/** The value without nulls and without fields that the schema does not know, whose paths are collected in `unknown`, and with its defaults. */
export function normalised(schema: Structural, value: unknown, path: string, unknown: string[]): unknown {
  if (Array.isArray(value)) {
    const { items } = schema;
    return items ? value.map((item, index) => normalised(items, item, keyed(path, String(index)), unknown)) : value;
  }
  return isRecord(value) ? normalisedRecord(schema, value, path, unknown) : value;
}

function normalisedRecord(schema: Structural, value: { [key: string]: unknown }, path: string, unknown: string[]): unknown {
  const { properties, additionalProperties: values } = schema;
  if (values) {
    const said = Object.entries(value).filter(([, item]) => item !== null);
    return Object.fromEntries(said.map(([key, item]) => [key, normalised(values, item, at(path, key), unknown)]));
  }
  if (!properties) return value;
  unknown.push(...Object.keys(value).flatMap((name) => (Object.hasOwn(properties, name) ? [] : [at(path, name)])));
  const kept: [string, unknown][] = [];
  for (const [name, field] of Object.entries(properties)) {
    const given = Object.hasOwn(value, name) ? value[name] : undefined;
    const set = given ?? field.default;
    if (set !== undefined) kept.push([name, normalised(field, set, at(path, name), unknown)]);
  }
  return Object.fromEntries(kept);
}

const shown = (value: unknown): string => (typeof value === 'string' ? JSON.stringify(value) : String(value));

/** A value as Kubernetes tells it: `Invalid value: "x": why`; of an object only why. */
export const invalidValue = (field: string, value: unknown, why: string): FieldProblem => ({
  field,
  reason: 'FieldValueInvalid',
  message: `Invalid value: ${isRecord(value) || Array.isArray(value) ? '' : `${shown(value)}: `}${why}`,
});

export const required = (field: string, why = ''): FieldProblem => ({
  field,
  reason: 'FieldValueRequired',
  message: `Required value${why === '' ? '' : `: ${why}`}`,
});

const typeName = (value: unknown): string => {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) && Math.abs(value) < 2 ** 63 ? 'integer' : 'number';
  return typeof value;
};

const fits = (type: Structural['type'], value: unknown): boolean =>
  typeName(value) === type || (type === 'number' && typeof value === 'number');

const DATE_TIME = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$/u;
const patterns = new Map<string, RegExp>();
const patternOf = (text: string): RegExp => {
  const known = patterns.get(text) ?? new RegExp(text, 'u');
  patterns.set(text, known);
  return known;
};

/** Length in characters, as OpenAPI counts: code points. */
const characters = (text: string): number => Array.from(text).length;

const tooLong = (field: string, most: number): FieldProblem => ({
  field,
  reason: 'FieldValueTooLong',
  message: `Too long: may not be more than ${most} bytes`,
});
const tooMany = (field: string, count: number, most: number): FieldProblem => ({
  field,
  reason: 'FieldValueTooMany',
  message: `Too many: ${count}: must have at most ${most} items`,
});

const notSupported = (field: string, value: string, allowed: string[]): FieldProblem => ({
  field,
  reason: 'FieldValueNotSupported',
  message: `Unsupported value: ${shown(value)}: supported values: ${allowed.map((one) => JSON.stringify(one)).join(', ')}`,
});

const isDateTime = (text: string): boolean => DATE_TIME.test(text) && Number.isFinite(Date.parse(text));

function checkString(schema: Structural, value: string, path: string): FieldProblem[] {
  return [...checkLength(schema, value, path), ...checkContent(schema, value, path)];
}

function checkLength({ minLength = 0, maxLength = Infinity }: Structural, value: string, path: string): FieldProblem[] {
  const length = characters(value);
  if (length > maxLength) return [tooLong(path, maxLength)];
  return length < minLength ? [invalidValue(path, value, `${path} in body should be at least ${minLength} chars long`)] : [];
}

function checkContent({ enum: choice, pattern, format }: Structural, value: string, path: string): FieldProblem[] {
  if (choice && !choice.includes(value)) return [notSupported(path, value, choice)];
  if (pattern !== undefined && !patternOf(pattern).test(value)) {
    const start = value.length > 60 ? `${value.slice(0, 60)}…` : value;
    return [invalidValue(path, start, `${path} in body should match '${pattern}'`)];
  }
  return format === 'date-time' && !isDateTime(value)
    ? [invalidValue(path, value, `${path} in body must be of type date-time: ${shown(value)}`)]
    : [];
}

function checkNumber(schema: Structural, value: number, path: string): FieldProblem[] {
  if (schema.minimum !== undefined && value < schema.minimum) {
    return [invalidValue(path, value, `${path} in body should be greater than or equal to ${schema.minimum}`)];
  }
  if (schema.maximum !== undefined && value > schema.maximum) {
    return [invalidValue(path, value, `${path} in body should be less than or equal to ${schema.maximum}`)];
  }
  return [];
}

function checkArray(schema: Structural, value: unknown[], path: string): FieldProblem[] {
  const { items, minItems = 0, maxItems = Infinity } = schema;
  const problems = items ? value.flatMap((item, index) => check(items, item, keyed(path, String(index)))) : [];
  if (value.length > maxItems) problems.push(tooMany(path, value.length, maxItems));
  if (value.length < minItems) problems.push(invalidValue(path, value, `${path} in body should have at least ${minItems} items`));
  return problems;
}

function checkRecord(schema: Structural, value: { [key: string]: unknown }, path: string): FieldProblem[] {
  const { properties = {}, additionalProperties: values, maxProperties = Infinity } = schema;
  const problems = (schema.required ?? []).flatMap((name) => (value[name] === undefined ? [required(at(path, name))] : []));
  const keys = Object.keys(value);
  if (keys.length > maxProperties) problems.push(tooMany(path, keys.length, maxProperties));
  for (const key of keys) {
    const field = Object.hasOwn(properties, key) ? properties[key] : values;
    if (field && value[key] !== undefined) problems.push(...check(field, value[key], at(path, key)));
  }
  return problems;
}

/** All that is wrong with a value, empty when nothing is. */
export function check(schema: Structural, value: unknown, path: string): FieldProblem[] {
  if (!fits(schema.type, value)) {
    const why = `${path} in body must be of type ${schema.type}: ${JSON.stringify(typeName(value))}`;
    return [{ field: path, reason: 'FieldValueTypeInvalid', message: `Invalid value: ${JSON.stringify(typeName(value))}: ${why}` }];
  }
  if (typeof value === 'string') return checkString(schema, value, path);
  if (typeof value === 'number') return checkNumber(schema, value, path);
  if (Array.isArray(value)) return checkArray(schema, value, path);
  return isRecord(value) ? checkRecord(schema, value, path) : [];
}
