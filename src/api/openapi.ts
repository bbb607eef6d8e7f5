// The OpenAPI v3 documents of our groups, as far as kubectl reads them: schemas for `explain`, and the parameters by which `apply` learns
// that the server checks fields itself. Knows no objects.
import { createHash } from 'node:crypto';
import { schemaOf } from '../model/crd.ts';
import { apiVersionOf, type Kind } from '../model/kind.ts';

const META = 'io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta';
const text = (description: string): object => ({ type: 'string', description });

const META_SCHEMA = {
  type: 'object',
  description: 'Standard metadata of every object.',
  properties: {
    name: text('Unique among the objects of its kind and namespace. Cannot be changed.'),
    generateName: text('Beginning of a name that the server makes up when there is none.'),
    namespace: text('Where a namespaced object lives.'),
    uid: text('Identity of this object in time; given by the server.'),
    resourceVersion: text('Changes with every write; opaque.'),
    generation: { type: 'integer', format: 'int64', description: 'Counts changes of the spec.' },
    creationTimestamp: { type: 'string', format: 'date-time' },
    deletionTimestamp: {
      type: 'string',
      format: 'date-time',
      description: 'Deletion was asked; the object stays while it has finalizers.',
    },
    labels: { type: 'object', additionalProperties: { type: 'string' }, description: 'Names and values to select by.' },
    annotations: { type: 'object', additionalProperties: { type: 'string' } },
    finalizers: { type: 'array', items: { type: 'string' }, description: 'Who must let go before the object can be removed.' },
  },
};

const typeOf = (kind: Kind): object[] => [{ group: kind.group, version: kind.version, kind: kind.kind }];
const nameOf = (kind: Kind): string => `${(kind.group || 'core.k8s.io').split('.').toReversed().join('.')}.${kind.version}.${kind.kind}`;

function schema(kind: Kind): object {
  const base = kind.schema === null ? { type: 'object', properties: {}, 'x-kubernetes-preserve-unknown-fields': true } : schemaOf(kind);
  const properties = {
    ...base.properties,
    apiVersion: text('Version of the schema of this object.'),
    kind: text('What this object is.'),
    metadata: { allOf: [{ $ref: `#/components/schemas/${META}` }], description: 'Standard metadata of every object.' },
  };
  return { ...base, properties, 'x-kubernetes-group-version-kind': typeOf(kind) };
}

const parameter = (name: string): object => ({ name, in: 'query', schema: { type: 'string', uniqueItems: true } });

function pathsOf(kind: Kind): { [path: string]: object } {
  const root = kind.group === '' ? `/api/${kind.version}` : `/apis/${apiVersionOf(kind)}`;
  const collection = `${root}${kind.scope === 'Namespaced' ? '/namespaces/{namespace}' : ''}/${kind.plural}`;
  const reference = { $ref: `#/components/schemas/${nameOf(kind)}` };
  const answer = { 200: { description: 'OK', content: { 'application/json': { schema: reference } } } };
  const operation = (action: string, ...parameters: string[]): object => ({
    'x-kubernetes-action': action,
    'x-kubernetes-group-version-kind': typeOf(kind)[0],
    parameters: parameters.map(parameter),
    responses: answer,
  });
  const written = ['dryRun', 'fieldManager', 'fieldValidation'];
  return {
    [collection]: { get: operation('list', 'labelSelector', 'fieldSelector', 'limit', 'continue'), post: operation('post', ...written) },
    [`${collection}/{name}`]: {
      get: operation('get'),
      put: operation('put', ...written),
      patch: operation('patch', ...written),
      delete: operation('delete', 'dryRun'),
    },
  };
}

function documentOf(groupVersion: string, kinds: Kind[]): object {
  return {
    openapi: '3.0.0',
    info: { title: `Flock: ${groupVersion}`, version: 'v1' },
    paths: Object.assign({}, ...kinds.map(pathsOf)) as object,
    components: { schemas: { [META]: META_SCHEMA, ...Object.fromEntries(kinds.map((kind) => [nameOf(kind), schema(kind)])) } },
  };
}

/** The index and the documents, by path. */
export function openApi(kinds: readonly Kind[]): { [path: string]: object } {
  const documents = [...Map.groupBy(kinds, apiVersionOf)].map(([version, members]) => {
    const path = version.includes('/') ? `apis/${version}` : `api/${version}`;
    return { path, document: documentOf(version, members) };
  });
  const index = documents.map(({ path, document }) => {
    const hash = createHash('sha256').update(JSON.stringify(document)).digest('hex').slice(0, 32);
    return [path, { serverRelativeURL: `/openapi/v3/${path}?hash=${hash}` }];
  });
  return {
    '/openapi/v3': { paths: Object.fromEntries(index) as object },
    ...Object.fromEntries(documents.map(({ path, document }) => [`/openapi/v3/${path}`, document])),
  };
}
