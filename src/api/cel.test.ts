import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { KINDS } from '../model/kinds.ts';
import type { Structural } from '../model/structural.ts';
import { compileRules } from './cel.ts';
import { Definition } from './definition.ts';

const schema: Structural = {
  type: 'object',
  properties: {
    size: { type: 'string' },
    count: { type: 'integer' },
    ratio: { type: 'number' },
    part: { type: 'object', properties: { n: { type: 'integer' } } },
  },
};

const holds = (rule: string, object: object, old: object | null = null): boolean =>
  compileRules(schema, [{ path: '', rule, message: 'no' }])(object, old).length === 0;

describe('quantities in rules', () => {
  for (const [smaller, larger] of [
    ['1', '2'],
    ['999', '1k'],
    ['1k', '1Ki'],
    ['1500m', '2'],
    ['0.5Gi', '513Mi'],
    ['1e3', '1001'],
    ['-1', '0'],
    ['1E', '1Ei'],
    ['4Ei', '16Ei'],
  ] as const) {
    it(`know that ${smaller} is less than ${larger}`, () => {
      assert.equal(holds(`quantity("${smaller}").isLessThan(quantity("${larger}"))`, {}), true);
      assert.equal(holds(`quantity("${larger}").isGreaterThan(quantity("${smaller}"))`, {}), true);
      assert.equal(holds(`quantity("${smaller}").compareTo(quantity("${larger}")) == -1`, {}), true);
    });
  }

  it('count as 2^63 - 1 when they are above it, as kube-apiserver counts', () => {
    assert.equal(holds('quantity("16Ei").compareTo(quantity("9223372036854775807")) == 0', {}), true);
    assert.equal(holds('quantity("1e400000").compareTo(quantity("8Ei")) == 0', {}), true);
  });

  for (const [text, expected] of [
    ['1Gi', true],
    ['.5', true],
    ['5.', true],
    ['', false],
    ['.', false],
    ['Gi', false],
    ['1gi', false],
    ['1 Gi', false],
    ['1Gi\n', false],
  ] as const) {
    it(`${expected ? 'are' : 'are not'} ${JSON.stringify(text)}`, () => {
      assert.equal(holds('isQuantity(self.size)', { size: text }), expected);
    });
  }
});

describe('a rule', () => {
  it('sees integers as such, at every depth', () => {
    assert.equal(holds('self.count + 1 == 3', { count: 2 }), true);
    assert.equal(holds('self.part.n == 2', { part: { n: 2 } }), true);
    assert.equal(holds('self.ratio < 2.5', { ratio: 2 }), true);
  });

  it('that compares with what was is not asked of what is new', () => {
    assert.equal(holds('self.count == oldSelf.count', { count: 1 }), true);
    assert.equal(holds('self.count == oldSelf.count', { count: 1 }, { count: 2 }), false);
  });

  it('about what is not there is not asked', () => {
    const rules = compileRules(schema, [{ path: 'size', rule: 'false', message: 'no' }]);
    assert.deepEqual(rules({}, null), []);
    assert.deepEqual(rules({ size: '1' }, null), [{ field: 'size', reason: 'FieldValueInvalid', message: 'Invalid value: "1": no' }]);
  });

  it('that cannot be answered is broken, and says why', () => {
    const rules = compileRules(schema, [{ path: 'size', rule: 'quantity(self).isGreaterThan(quantity("0"))', message: 'no' }]);
    assert.match(rules({ size: 'x' }, null)[0]?.message ?? '', /rule evaluation error: .*"x" is no quantity/u);
  });

  it('that is no CEL is an error at once', () => {
    assert.throws(() => compileRules(schema, [{ path: '', rule: 'self ==', message: '' }]));
  });

  it('of every kind can be read', () => {
    for (const kind of KINDS) assert.doesNotThrow(() => new Definition(kind));
  });
});
