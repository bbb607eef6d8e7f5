// From typebox to the structural schemas of custom resource definitions. The vocabulary is closed: what is not known here is an error,
// so that a schema never says more in a record's type than the server checks. Knows no kind.
import Type, { type TSchema } from 'typebox';
import { FlockError } from './errors.ts';

/** A structural schema as in apiextensions.k8s.io/v1, as far as our kinds use it. */
export interface Structural {
  type: 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean';
  description?: string;
  default?: unknown;
  properties?: { [name: string]: Structural };
  required?: string[];
  additionalProperties?: Structural;
  items?: Structural;
  enum?: string[];
  pattern?: string;
  format?: 'date-time';
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  minItems?: number;
  maxItems?: number;
  maxProperties?: number;
  'x-kubernetes-validations'?: { rule: string; message: string; fieldPath?: string }[];
}

type Words = { [word: string]: unknown };

/** Words that are carried over as they are, by type. */
const CARRIED: { [type in Structural['type']]: readonly string[] } = {
  object: ['required', 'maxProperties'],
  array: ['minItems', 'maxItems'],
  string: ['pattern', 'format', 'minLength', 'maxLength', 'enum'],
  integer: ['minimum', 'maximum'],
  number: ['minimum', 'maximum'],
  boolean: [],
};
const ANYWHERE = ['type', 'description', 'default'];
const RECORD_KEYS = '^.*$';

const refuse = (path: string, why: string): never => {
  throw new FlockError('Internal', `the schema of ${path || 'the object'} cannot be part of a custom resource definition: ${why}`);
};

function typeOf(words: Words, path: string): Structural['type'] {
  if (words['type'] === undefined && Array.isArray(words['enum'])) {
    if (!words['enum'].every((value) => typeof value === 'string')) refuse(path, 'only strings can be enumerated');
    return 'string';
  }
  if (typeof words['type'] !== 'string' || !(words['type'] in CARRIED)) return refuse(path, `its type is ${JSON.stringify(words['type'])}`);
  return words['type'] as Structural['type'];
}

const below = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`);

function objectParts(words: Words, path: string): Partial<Structural> {
  const { properties, patternProperties } = words as {
    properties?: { [name: string]: TSchema };
    patternProperties?: { [p: string]: TSchema };
  };
  if (patternProperties === undefined) {
    const entries = Object.entries(properties ?? {}).map(([name, schema]) => [name, structural(schema, below(path, name))]);
    return { properties: Object.fromEntries(entries) as { [name: string]: Structural } };
  }
  if (properties !== undefined) refuse(path, 'it has both fields and free keys');
  const [[pattern, values] = ['', undefined], ...more] = Object.entries(patternProperties);
  if (values === undefined || more.length > 0 || pattern !== RECORD_KEYS) return refuse(path, 'its keys are constrained');
  return { additionalProperties: structural(values, `${path}[*]`) };
}

const NESTED: { [type in Structural['type']]?: readonly string[] } = { object: ['properties', 'patternProperties'], array: ['items'] };

/** The structural schema of a typebox schema. Throws Internal on any word outside the vocabulary. */
export function structural(schema: TSchema, path = ''): Structural {
  const words: Words = { ...(schema as object) };
  const type = typeOf(words, path);
  const known = [...ANYWHERE, ...CARRIED[type], ...(NESTED[type] ?? [])];
  const unknown = Object.keys(words).filter((word) => !word.startsWith('~') && !known.includes(word));
  if (unknown.length > 0) refuse(path, `it uses ${unknown.join(', ')}`);
  const carried = Object.fromEntries(
    ['description', 'default', ...CARRIED[type]].flatMap((word) => (words[word] === undefined ? [] : [[word, words[word]]])),
  );
  const nested =
    type === 'object' ? objectParts(words, path) : type === 'array' ? { items: structural(words['items'] as TSchema, `${path}[]`) } : {};
  return { type, ...carried, ...nested };
}

/** The schema of an object whose top-level fields are these; `apiVersion`, `kind` and `metadata` come by themselves. */
export function structuralFields(fields: { [field: string]: TSchema }): Structural {
  return structural(Type.Object(fields));
}
