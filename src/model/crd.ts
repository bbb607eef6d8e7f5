// The custom resource definitions of our kinds, made from the same schemas and rules that our own server holds objects to.
import { FlockError } from './errors.ts';
import type { Column, Kind, Rule } from './kind.ts';
import { structuralFields, type Structural } from './structural.ts';

/** `apiextensions.k8s.io/v1`, as far as it is used here. */
export interface CustomResourceDefinition {
  apiVersion: 'apiextensions.k8s.io/v1';
  kind: 'CustomResourceDefinition';
  metadata: { name: string };
  spec: {
    group: string;
    scope: Kind['scope'];
    names: {
      kind: string;
      listKind: string;
      plural: string;
      singular: string;
      shortNames: readonly string[];
      categories: readonly string[];
    };
    versions: {
      name: string;
      served: true;
      storage: true;
      schema: { openAPIV3Schema: Structural };
      subresources?: { status: Record<string, never> };
      additionalPrinterColumns: readonly Column[];
    }[];
  };
}

/** `kubectl get flock` shows all our kinds. */
export const CATEGORIES: readonly string[] = ['flock'];

function placeOf(root: Structural, rule: Rule): Structural {
  let schema: Structural | undefined = root;
  for (const name of rule.path === '' ? [] : rule.path.split('.')) schema = schema?.properties?.[name];
  if (!schema) throw new FlockError('Internal', `the rule ${JSON.stringify(rule.rule)} is about ${rule.path}, which is not in the schema`);
  return schema;
}

/** The schema of whole objects, rules and all. Throws Internal for a schema that cannot be structural, or a rule without a place. */
export function schemaOf(kind: Kind): Structural {
  const { required, properties } = structuralFields(kind.schema ?? {});
  const named: Structural = {
    type: 'object',
    properties: { apiVersion: { type: 'string' }, kind: { type: 'string' }, metadata: { type: 'object' }, ...properties },
    ...(required ? { required } : {}),
  };
  const root = structuredClone(named);
  for (const rule of kind.rules) {
    const place = placeOf(root, rule);
    const { path: _path, ...said } = rule;
    place['x-kubernetes-validations'] = [...(place['x-kubernetes-validations'] ?? []), said];
  }
  return root;
}

export function crdOf(kind: Kind): CustomResourceDefinition {
  const { group, scope, plural, singular, shortNames } = kind;
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope,
      names: { kind: kind.kind, listKind: `${kind.kind}List`, plural, singular, shortNames, categories: CATEGORIES },
      versions: [
        {
          name: kind.version,
          served: true,
          storage: true,
          schema: { openAPIV3Schema: schemaOf(kind) },
          ...(kind.statusSubresource ? { subresources: { status: {} } } : {}),
          additionalPrinterColumns: kind.columns,
        },
      ],
    },
  };
}
