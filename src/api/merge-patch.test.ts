import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { difference, mergePatch, sameJson } from './merge-patch.ts';

/** JSON as a server can hold it in an object: without null, which a patch uses for "not there". */
const kept = fc.letrec((tie) => ({
  value: fc.oneof({ depthSize: 'small' }, fc.boolean(), fc.integer(), fc.string(), fc.array(tie('value'), { maxLength: 3 }), tie('record')),
  record: fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd', '__proto__', 'constructor'), tie('value'), { maxKeys: 4 }),
}));

describe('a merge patch', () => {
  // The examples of RFC 7386, appendix A.
  for (const [target, patch, result] of [
    ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
    ['{"a":"b"}', '{"a":null}', '{}'],
    ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
    ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
    ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
    ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
    ['["a","b"]', '["c","d"]', '["c","d"]'],
    ['{"a":"b"}', '["c"]', '["c"]'],
    ['{"a":"foo"}', 'null', 'null'],
    ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
    ['[1,2]', '{"a":"b","c":null}', '{"a":"b"}'],
    ['{}', '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
  ] as const) {
    it(`turns ${target} by ${patch} into ${result}`, () => {
      assert.deepEqual(mergePatch(JSON.parse(target), JSON.parse(patch)), JSON.parse(result));
    });
  }

  it('names what changed, null for what went away at any depth, and is none when nothing did', () => {
    assert.equal(difference({ a: 1, b: [1], c: { d: 1 } }, { c: { d: 1 }, a: 1, b: [1] }), null);
    assert.deepEqual(difference({ a: 1, b: [1], c: 1 }, { a: 2, b: [1] }), { a: 2, c: null });
    assert.deepEqual(difference({ a: { b: 1, c: 1 } }, { a: { b: 1 } }), { a: { c: null } });
    assert.deepEqual(difference({ a: { b: 1 } }, { a: { b: 1, c: undefined } }), null);
    assert.deepEqual(difference(undefined, { a: 1 }), { a: 1 });
  });

  it('can turn any record into any other', () => {
    fc.assert(
      fc.property(kept.record, kept.record, (from, to) => {
        assert.ok(sameJson(mergePatch(from, difference(from, to) ?? {}), to));
      }),
    );
  });

  it('says the same when it is applied twice, and changes nothing it was given', () => {
    fc.assert(
      fc.property(kept.record, kept.record, fc.constantFrom('a', 'b', 'c'), (target, more, removed) => {
        const patch = { ...more, [removed]: null };
        const [before, given] = [JSON.stringify(target), JSON.stringify(patch)];
        const once = mergePatch(target, patch);
        assert.ok(sameJson(mergePatch(once, patch), once));
        assert.deepEqual([JSON.stringify(target), JSON.stringify(patch)], [before, given]);
      }),
    );
  });
});
