import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import Type, { type TSchema } from 'typebox';
import { crdOf } from './crd.ts';
import { FLOCK_KINDS } from './kinds.ts';
import { structural, type Structural } from './structural.ts';
import { Volumes } from './volume.ts';

describe('a structural schema', () => {
  for (const [what, schema, expected] of [
    [
      'a text',
      Type.String({ pattern: '^a', maxLength: 3, description: 'd' }),
      { type: 'string', pattern: '^a', maxLength: 3, description: 'd' },
    ],
    ['a choice of texts', Type.Enum(['a', 'b'], { default: 'a' }), { type: 'string', enum: ['a', 'b'], default: 'a' }],
    ['a time', Type.String({ format: 'date-time' }), { type: 'string', format: 'date-time' }],
    ['a number', Type.Integer({ minimum: 0 }), { type: 'integer', minimum: 0 }],
    ['a list', Type.Array(Type.Boolean(), { maxItems: 3 }), { type: 'array', maxItems: 3, items: { type: 'boolean' } }],
    ['a map', Type.Record(Type.String(), Type.String()), { type: 'object', additionalProperties: { type: 'string' } }],
    [
      'fields, of which some are required',
      Type.Object({ a: Type.String(), b: Type.Optional(Type.String()) }),
      { type: 'object', required: ['a'], properties: { a: { type: 'string' }, b: { type: 'string' } } },
    ],
  ] as [string, TSchema, Structural][]) {
    it(`says ${what}`, () => {
      assert.deepEqual(structural(schema), expected);
    });
  }

  for (const [what, schema] of [
    ['a union', Type.Union([Type.String(), Type.Integer()])],
    ['a literal', Type.Literal('a')],
    ['a choice of numbers', Type.Enum([1, 2])],
    ['null', Type.Null()],
    ['an unknown', Type.Unknown()],
    ['constrained keys', Type.Record(Type.String({ pattern: '^a' }), Type.String())],
    ['closed fields', Type.Object({}, { additionalProperties: false })],
    ['a word of another type', Type.String({ minimum: 3 })],
    ['something wrong far below', Type.Object({ a: Type.Array(Type.Object({ b: Type.Null() })) })],
  ] as [string, TSchema][]) {
    it(`cannot say ${what}`, () => {
      assert.throws(() => structural(schema), { reason: 'Internal' });
    });
  }

  it('names the place of what it cannot say', () => {
    assert.throws(() => structural(Type.Object({ a: Type.Array(Type.Object({ b: Type.Null() })) })), /the schema of a\[\]\.b cannot/u);
  });
});

/** A whole number, a choice, a text of limited length, or fields that are all bounded. */
const isBounded = ({ type, maxLength, enum: choice, properties }: Structural): boolean =>
  type === 'integer' ||
  choice !== undefined ||
  maxLength !== undefined ||
  (properties !== undefined && Object.values(properties).every((field) => isBounded(field)));

describe('a custom resource definition', () => {
  for (const kind of FLOCK_KINDS) {
    it(`of ${kind.plural} is structural and has all that the kind says`, () => {
      const { metadata, spec } = crdOf(kind);
      assert.equal(metadata.name, `${kind.plural}.flock.dev`);
      const [version] = spec.versions;
      assert.deepEqual(version?.subresources, { status: {} });
      assert.deepEqual(version?.additionalPrinterColumns, kind.columns);
      assert.deepEqual(spec.names.shortNames, kind.shortNames);
      const rules = JSON.stringify(version?.schema).match(/"rule":/gu) ?? [];
      assert.equal(rules.length, kind.rules.length);
    });
  }

  it('bounds every text that a rule compares, or the rule is too costly for kube-apiserver', () => {
    const compared = Volumes.rules
      .filter(({ path }) => path === 'spec')
      .flatMap(({ rule }) => [...rule.matchAll(/oldSelf\.\??([a-z]\w*)/giu)].map(([, field]) => field ?? ''));
    const { properties = {} } = crdOf(Volumes).spec.versions[0]?.schema.openAPIV3Schema.properties?.['spec'] ?? {};
    for (const field of new Set(compared)) assert.ok(isBounded(properties[field] ?? { type: 'object' }), field);
  });

  it('refuses a rule about what is not there', () => {
    const odd = { ...Volumes, rules: [{ path: 'spec.colour', rule: 'true', message: '' }] };
    assert.throws(() => crdOf(odd), /the rule "true" is about spec\.colour, which is not in the schema/u);
  });
});
