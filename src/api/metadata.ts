// What metadata may say, and what of it a writer may change: the rules of Kubernetes' ObjectMeta. Knows no kind and no storage.
import type { ApiObject, ObjectMeta, Stored } from '../model/meta.ts';
import { NAME_PATTERN, printable } from '../model/names.ts';
import type { Structural } from '../model/structural.ts';
import type { FieldProblem } from './status.ts';
import { check, invalidValue, normalised } from './validation.ts';

const text: Structural = { type: 'string' };
const texts: Structural = { type: 'object', additionalProperties: text };

const META: Structural = {
  type: 'object',
  properties: {
    name: text,
    generateName: text,
    namespace: text,
    uid: text,
    resourceVersion: text,
    generation: { type: 'integer' },
    creationTimestamp: text,
    deletionTimestamp: text,
    deletionGracePeriodSeconds: { type: 'integer' },
    labels: texts,
    annotations: texts,
    finalizers: { type: 'array', items: text },
    ownerReferences: {
      type: 'array',
      items: {
        type: 'object',
        required: ['apiVersion', 'kind', 'name', 'uid'],
        properties: {
          apiVersion: text,
          kind: text,
          name: text,
          uid: text,
          controller: { type: 'boolean' },
          blockOwnerDeletion: { type: 'boolean' },
        },
      },
    },
  },
};

/** Fields that come with every object of a client and are never stored: accepted in silence. */
const SILENT = new Set(['metadata.managedFields', 'metadata.selfLink']);
const isEmpty = (value: unknown): boolean => value === null || (typeof value === 'object' && Object.keys(value).length === 0);

/** Metadata without what nobody knows; empty maps and lists are as good as none. */
export function normalisedMeta(metadata: unknown, unknown: string[]): ObjectMeta {
  const found: string[] = [];
  const meta = normalised(META, metadata ?? {}, 'metadata', found);
  unknown.push(...found.filter((path) => !SILENT.has(path)));
  if (typeof meta !== 'object') return meta as ObjectMeta;
  return Object.fromEntries(Object.entries(meta as object).filter(([, value]) => !isEmpty(value))) as unknown as ObjectMeta;
}

/** Wrong types in metadata: the request makes no sense. */
export const metaTypeProblems = (meta: unknown): FieldProblem[] => check(META, meta, 'metadata');

const NAME = new RegExp(NAME_PATTERN, 'u');
const NAME_RULE =
  'a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "-" or ".", and must start and end with an alphanumeric character, at most 253 characters';
const NAMESPACE = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/u;
const QUALIFIED = /^(?:([a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?)\/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/u;
const LABEL = /^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/u;
const MOST_ANNOTATIONS = 256 * 1024;

const wrong = (field: string, value: string, why: string): FieldProblem => ({
  field,
  reason: 'FieldValueInvalid',
  message: `Invalid value: ${printable(value)}: ${why}`,
});

export const nameProblems = (name: string): FieldProblem[] =>
  name.length <= 253 && NAME.test(name) ? [] : [wrong('metadata.name', name, NAME_RULE)];

export const namespaceProblems = (namespace: string): FieldProblem[] =>
  NAMESPACE.test(namespace)
    ? []
    : [wrong('metadata.namespace', namespace, 'a namespace is a lowercase RFC 1123 label, at most 63 characters')];

const KEY_RULE =
  'a name is an optional DNS prefix and "/", then at most 63 letters, digits, "-", "_" or ".", beginning and ending with a letter or digit';

function labelProblems(labels: Record<string, string>): FieldProblem[] {
  return Object.entries(labels).flatMap(([key, value]) => [
    ...(QUALIFIED.test(key) ? [] : [wrong('metadata.labels', key, KEY_RULE)]),
    ...(LABEL.test(value)
      ? []
      : [
          wrong(
            'metadata.labels',
            value,
            'a label is at most 63 letters, digits, "-", "_" or ".", beginning and ending with a letter or digit',
          ),
        ]),
  ]);
}

function annotationProblems(annotations: Record<string, string>): FieldProblem[] {
  const size = Object.entries(annotations).reduce((sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(value), 0);
  const keys = Object.keys(annotations).filter((key) => !QUALIFIED.test(key.toLowerCase()));
  return [
    ...keys.map((key) => wrong('metadata.annotations', key, KEY_RULE)),
    ...(size > MOST_ANNOTATIONS
      ? [
          {
            field: 'metadata.annotations',
            reason: 'FieldValueTooLong' as const,
            message: `Too long: may not be more than ${MOST_ANNOTATIONS} bytes`,
          },
        ]
      : []),
  ];
}

/** Labels, annotations and finalizers, wherever they come from. */
export function metaProblems(meta: ObjectMeta): FieldProblem[] {
  return [
    ...labelProblems(meta.labels ?? {}),
    ...annotationProblems(meta.annotations ?? {}),
    ...(meta.finalizers ?? []).filter((name) => !QUALIFIED.test(name)).map((name) => wrong('metadata.finalizers', name, KEY_RULE)),
  ];
}

/** What an update of `old` may not do. */
export function metaUpdateProblems(meta: ObjectMeta, old: ObjectMeta): FieldProblem[] {
  const problems = metaProblems(meta);
  if (old.deletionTimestamp === undefined && meta.deletionTimestamp !== undefined) {
    problems.push(invalidValue('metadata.deletionTimestamp', meta.deletionTimestamp, 'field is immutable'));
  }
  const added = old.deletionTimestamp === undefined ? [] : (meta.finalizers ?? []).filter((name) => !old.finalizers?.includes(name));
  if (added.length > 0) {
    const why = `no new finalizers can be added if the object is being deleted, found new finalizers ${JSON.stringify(added)}`;
    problems.push({ field: 'metadata.finalizers', reason: 'FieldValueForbidden', message: `Forbidden: ${why}` });
  }
  return problems;
}

/** Kubernetes' times have whole seconds. */
const seconds = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;

export interface Birth {
  name: string;
  namespace: string;
  uid: string;
  /** ms since 1970 */
  now: number;
  counted: boolean;
}

/** Metadata of an object that comes to be: identity is the server's to give. */
export function bornMeta(given: ObjectMeta, { name, namespace, uid, now, counted }: Birth): ObjectMeta {
  const { deletionTimestamp: _, deletionGracePeriodSeconds: __, resourceVersion: ___, generation: ____, namespace: _____, ...kept } = given;
  return {
    ...kept,
    name,
    ...(namespace === '' ? {} : { namespace }),
    uid,
    ...(counted ? { generation: 1 } : {}),
    creationTimestamp: seconds(now),
  };
}

const FIXED = [
  'name',
  'namespace',
  'uid',
  'generateName',
  'creationTimestamp',
  'generation',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'resourceVersion',
] as const;

/** Metadata that replaces `old`: identity, times and version stay. */
export function keptMeta(given: ObjectMeta, old: ObjectMeta): ObjectMeta {
  const { labels, annotations, finalizers, ownerReferences } = given;
  const fixed = Object.fromEntries(FIXED.flatMap((field) => (old[field] === undefined ? [] : [[field, old[field]]])));
  const free = Object.fromEntries(
    Object.entries({ labels, annotations, finalizers, ownerReferences }).filter(([, value]) => value !== undefined),
  );
  return { ...fixed, ...free } as unknown as ObjectMeta;
}

/** The object as it is once its deletion was asked while finalizers hold it. */
export function asDying<T extends ApiObject>(object: Stored<T>, now: number): Stored<T> {
  const { generation } = object.metadata;
  return {
    ...object,
    metadata: {
      ...object.metadata,
      ...(generation === undefined ? {} : { generation: generation + 1 }),
      deletionTimestamp: seconds(now),
      deletionGracePeriodSeconds: 0,
    },
  };
}
