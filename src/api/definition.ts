// A kind made ready for the registry: its structural schema, its compiled rules, and how a client's object is read. Knows no storage.
import { apiVersionOf, type Kind } from '../model/kind.ts';
import type { ApiObject, ObjectMeta } from '../model/meta.ts';
import { structuralFields, type Structural } from '../model/structural.ts';
import { compileRules, type Rules } from './cel.ts';
import { isRecord, sameJson } from './merge-patch.ts';
import { metaTypeProblems, normalisedMeta } from './metadata.ts';
import { badRequest, type FieldProblem } from './status.ts';
import { check, normalised } from './validation.ts';

export type Fields = { [field: string]: unknown };
const IDENTITY = new Set(['apiVersion', 'kind', 'metadata']);

/** A client's object, taken apart. */
export interface Given {
  meta: ObjectMeta;
  fields: Fields;
  /** Paths of fields that nobody knows; they are dropped. */
  unknown: string[];
}

export class Definition {
  readonly kind: Kind;
  readonly #schema: Structural | null;
  readonly #rules: Rules;

  constructor(kind: Kind) {
    this.kind = kind;
    this.#schema = kind.schema === null ? null : structuralFields(kind.schema);
    this.#rules = this.#schema ? compileRules(this.#schema, kind.rules) : () => [];
  }

  /** Kubernetes counts generations of custom resources, not of Leases and Events. */
  get counted(): boolean {
    return this.#schema !== null;
  }

  /** Throws Invalid when it is no object of this kind at all. */
  read(object: unknown): Given {
    const { kind } = this;
    if (!isRecord(object)) throw badRequest(`the body must be a JSON object of kind ${kind.kind}`);
    if (object['kind'] !== kind.kind || object['apiVersion'] !== apiVersionOf(kind)) {
      const found = `${JSON.stringify(object['apiVersion'] ?? '')}, kind ${JSON.stringify(object['kind'] ?? '')}`;
      throw badRequest(`the object is of apiVersion ${found}; this is the place of ${apiVersionOf(kind)}, kind ${kind.kind}`);
    }
    const unknown: string[] = [];
    const meta = normalisedMeta(object['metadata'], unknown);
    const [problem] = metaTypeProblems(meta);
    if (problem) throw badRequest(`${kind.kind} cannot be read: ${problem.field}: ${problem.message}`);
    const fields = Object.fromEntries(Object.entries(object).filter(([name]) => !IDENTITY.has(name)));
    if (this.#schema === null) return { meta, fields, unknown };
    return { meta, fields: normalised(this.#schema, fields, '', unknown) as Fields, unknown };
  }

  /** The fields of `next`, sharing with `old` what is the same, so that it need not be judged again. */
  shared(next: Fields, old: Fields): Fields {
    return Object.fromEntries(Object.entries(next).map(([name, value]) => [name, sameJson(value, old[name]) ? old[name] : value]));
  }

  /** All that is wrong with the fields by schema and rules. `old`: what they replace; what it shares with it was judged before. */
  problems(fields: Fields, old: Fields | null): FieldProblem[] {
    const schema = this.#schema;
    if (!schema) return [];
    const fresh = Object.entries(fields).filter(([name, value]) => old?.[name] !== value);
    const missing = (schema.required ?? []).filter((name) => fields[name] === undefined);
    const judged: Structural = { type: 'object', properties: schema.properties ?? {}, required: missing };
    const problems = check(judged, Object.fromEntries(fresh), '');
    return problems.length > 0 ? problems : this.#rules(fields, old);
  }

  fieldsOf(object: ApiObject): Fields {
    return Object.fromEntries(Object.entries(object).filter(([name]) => !IDENTITY.has(name)));
  }

  whole(meta: ObjectMeta, fields: Fields): ApiObject & Fields {
    return { apiVersion: apiVersionOf(this.kind), kind: this.kind.kind, metadata: meta, ...fields };
  }
}
