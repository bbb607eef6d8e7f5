import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { ApiObject } from '../model/meta.ts';
import { Volumes } from '../model/volume.ts';
import { fieldSelector, labelSelector } from './selectors.ts';

const labelled = (labels: Record<string, string>): ApiObject => ({ apiVersion: 'v1', kind: 'X', metadata: { name: 'x', labels } });

const keys = fc.constantFrom('app', 'tier', 'flock.dev/set');
const values = fc.constantFrom('a', 'b', 'c-1', '7', '12');

describe('a label selector', () => {
  it('means what its operators say', () => {
    const labels = fc.dictionary(keys, values);
    const lists = fc.array(values, { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(labels, keys, lists, (given, key, list) => {
        const [first = ''] = list;
        const [object, value] = [labelled(given), Object.hasOwn(given, key) ? given[key] : undefined];
        const selects = (text: string): boolean => labelSelector(text)(object);
        assert.equal(selects(`${key}=${first}`), value === first);
        assert.equal(selects(`${key} == ${first}`), value === first);
        assert.equal(selects(`${key}!=${first}`), value !== first);
        assert.equal(selects(`${key} in (${list.join(', ')})`), value !== undefined && list.includes(value));
        assert.equal(selects(`${key} notin (${list.join(',')})`), value === undefined || !list.includes(value));
        assert.equal(selects(key), value !== undefined);
        assert.equal(selects(`!${key}`), value === undefined);
        assert.equal(selects(`${key}>9`), value !== undefined && Number(value) > 9);
        assert.equal(selects(`${key}<9`), value !== undefined && Number(value) < 9);
      }),
    );
  });

  it('asks for all of its requirements', () => {
    const selects = labelSelector('app in (a, b),tier!=gold,!old');
    assert.equal(selects(labelled({ app: 'a' })), true);
    assert.equal(selects(labelled({ app: 'a', tier: 'gold' })), false);
    assert.equal(selects(labelled({ app: 'b', old: 'x' })), false);
    assert.equal(selects(labelled({})), false);
  });

  it('may ask for an empty value', () => {
    assert.equal(labelSelector('app=')(labelled({ app: '' })), true);
    assert.equal(labelSelector('app=')(labelled({})), false);
  });

  for (const text of ['a in b', 'a in ()b', '=a', 'a=b=c', 'a b', 'a,', 'a>b', 'a in (b', '!', '-a=b', 'a=b/c']) {
    it(`is refused when it makes no sense: ${JSON.stringify(text)}`, () => {
      assert.throws(() => labelSelector(text), { reason: 'Invalid', message: /unable to parse label selector/u });
    });
  }
});

describe('a field selector', () => {
  const object: ApiObject = { apiVersion: 'v1', kind: 'X', metadata: { name: 'db', namespace: 'apps' } };

  for (const [text, expected] of [
    ['metadata.name=db', true],
    ['metadata.name==db', true],
    ['metadata.name!=db', false],
    ['metadata.name=db,metadata.namespace=apps', true],
    ['metadata.name=db,metadata.namespace!=apps', false],
    ['metadata.name=', false],
    ['', true],
  ] as const) {
    it(`says ${expected} by ${JSON.stringify(text)}`, () => {
      assert.equal(fieldSelector(Volumes, text)(object), expected);
    });
  }

  it('is refused for a field that the kind has not, with those that it has', () => {
    assert.throws(() => fieldSelector(Volumes, 'type=Warning'), {
      reason: 'Invalid',
      message: 'field label not supported: type; volumes can be selected by metadata.name, metadata.namespace',
    });
  });
});
