// What a kind of object is to the API: its names, scope, schema, rules and columns. No kind is named here.
import type { TSchema } from 'typebox';
import type { ApiObject } from './meta.ts';

/** A rule in CEL that a kind's objects obey, as in a CRD's x-kubernetes-validations. `self` is the value at `path`. */
export interface Rule {
  /** Where it holds: '' for the object, 'spec' or a dotted path below it. */
  path: string;
  rule: string;
  message: string;
  /** The field that it judges, below the path (`.spec.size`), where it needs to see more than that. */
  fieldPath?: string;
}

/** A column of `get`, as in a CRD's additionalPrinterColumns. */
export interface Column {
  name: string;
  type: 'string' | 'integer' | 'number' | 'boolean' | 'date';
  jsonPath: string;
  /** Above 0: only with -o wide. */
  priority?: number;
}

export interface Kind<T extends ApiObject = ApiObject> {
  group: string;
  version: string;
  kind: string;
  plural: string;
  singular: string;
  shortNames: readonly string[];
  scope: 'Cluster' | 'Namespaced';
  /** Schemas of the top-level fields besides apiVersion, kind and metadata. `null`: stored as it comes. */
  schema: { [field: string]: TSchema } | null;
  statusSubresource: boolean;
  rules: readonly Rule[];
  columns: readonly Column[];
  /** Never set: carries the objects' type. */
  readonly object?: T;
}

export const apiVersionOf = (kind: Kind): string => (kind.group === '' ? kind.version : `${kind.group}/${kind.version}`);
