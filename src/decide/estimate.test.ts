// What bounds a copy, by what was measured.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { estimated, type Bound, type Measured } from './estimate.ts';

const MB = 1e6;
const all: Measured = { read: 2000 * MB, write: 2000 * MB, hash: 6000 * MB, wire: 5000 * MB };

const CASES: [what: string, measured: Partial<Measured>, bound: Bound, rate: number][] = [
  ['a target that writes and reads each byte', {}, 'writing and reading back at the target', 1000 * MB],
  ['a slow wire', { wire: 115 * MB }, 'the wire', 115 * MB],
  ['a slow wire, where no disk could be measured', { wire: 115 * MB, read: null, write: null }, 'the wire', 115 * MB],
  ['a slow processor', { hash: 50 * MB }, 'hashing', 50 * MB],
  ['disks alone', { wire: null }, 'writing and reading back at the target', 1000 * MB],
  ['a disk that could not be written', { write: null }, 'reading at the source', 2000 * MB],
];
for (const [what, measured, bound, rate] of CASES)
  test(`${what} bounds a copy`, () =>
    assert.deepEqual(estimated(10_000 * MB, { ...all, ...measured }), { bytes: 10_000 * MB, bound, rate, seconds: (10_000 * MB) / rate }));

test('where neither disk nor wire was measured nothing is said', () => {
  assert.equal(estimated(MB, { ...all, read: null, write: null, wire: null }), null);
});
