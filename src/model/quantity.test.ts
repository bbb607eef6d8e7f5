// Sizes as people write them and as bytes: nothing is lost, and what is not whole is rounded up, once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { humanBytes, LARGEST, parseQuantity, parseSize, quantityOf, roundUp } from './quantity.ts';

const MEANT: [string, bigint][] = [
  ['0', 0n],
  ['512', 512n],
  ['1k', 1_000n],
  ['1Ki', 1_024n],
  ['1.5Gi', 3n << 29n],
  ['1e9', 1_000_000_000n],
  ['0.1Ki', 103n],
  ['0.0000000001', 1n],
  ['9007199254740993', 9_007_199_254_740_993n],
  ['9223372036854775807', LARGEST],
];
for (const [text, bytes] of MEANT) test(`${text} is ${bytes} bytes`, () => assert.equal(parseQuantity(text), bytes));

for (const text of ['', '-1', '1 Gi', '1gi', '100m', '1KiB', '0x10', '../1', '9223372036854775808', '8Ei'])
  test(`${JSON.stringify(text)} is no size`, () => assert.throws(() => parseQuantity(text), { reason: 'Invalid' }));

test('nothing is as large as 0', () => assert.throws(() => parseSize('0Gi'), /must be more than 0/u));

test('what is no multiple is rounded up to the next, and a multiple stays', () => {
  assert.equal(roundUp(4_097n, 4_096n), 8_192n);
  assert.equal(roundUp(8_192n, 4_096n), 8_192n);
});

test('people read three digits and a binary unit', () => {
  assert.equal(humanBytes(1_023n), '1023 B');
  assert.equal(humanBytes(3n << 29n), '1.50 GiB');
});

test('bytes are written with a suffix where that is exact', () => {
  assert.deepEqual([2n << 30n, 3n << 20n, 1_000_001_536n, 0n].map(quantityOf), ['2Gi', '3Mi', '1000001536', '0']);
});
