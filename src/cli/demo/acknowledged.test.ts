// The proof from the log: what it accepts, and that it finds every kind of loss.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isReason } from '../../model/errors.ts';
import { checksumOf, goesOn, isProven, lineOf, parseLog, pauseOf, prove, type Acknowledged } from './acknowledged.ts';

const entry = (number: number, content = `payload ${number}`, at = 1000 * number): Acknowledged => ({
  number,
  checksum: checksumOf(number, Buffer.from(content)),
  at,
});
const held = (...entries: Acknowledged[]): Map<number, string> => new Map(entries.map(({ number, checksum }) => [number, checksum]));

test('what was logged is read back, and a last line without an end is just being written', () => {
  const entries = [entry(1), entry(2), entry(3)];
  const text = entries.map(lineOf).join('');
  assert.deepEqual(parseLog(text), entries);
  assert.deepEqual(parseLog(text.slice(0, -1)), entries.slice(0, 2));
  assert.deepEqual(parseLog(''), []);
});

for (const line of ['', '1 abc 5', `0 ${'a'.repeat(64)} 5`, `1 ${'a'.repeat(64)}`, `1 ${'a'.repeat(64)} 5 more`, '\u0000'])
  test(`a log with the line ${JSON.stringify(line)} proves nothing`, () => {
    assert.throws(
      () => parseLog(`${lineOf(entry(1))}${line}\n`),
      (error) => isReason(error, 'Corrupt'),
    );
  });

test('a checksum stands for the number too', () => {
  assert.notEqual(checksumOf(1, Buffer.from('a')), checksumOf(2, Buffer.from('a')));
  assert.notEqual(checksumOf(1, Buffer.from('1:a')), checksumOf(11, Buffer.from(':a')));
});

const PROOFS: { name: string; log: Acknowledged[]; there: Acknowledged[]; lost?: number[]; changed?: number[]; proven: boolean }[] = [
  { name: 'everything that was acknowledged is there', log: [entry(1), entry(2)], there: [entry(1), entry(2)], proven: true },
  { name: 'more than was acknowledged is no loss', log: [entry(1)], there: [entry(1), entry(2)], proven: true },
  { name: 'one in the middle is missing', log: [entry(1), entry(2), entry(3)], there: [entry(1), entry(3)], lost: [2], proven: false },
  { name: 'the last one is missing', log: [entry(1), entry(2)], there: [entry(1)], lost: [2], proven: false },
  { name: 'one has another content', log: [entry(1), entry(2)], there: [entry(1), entry(2, 'other')], changed: [2], proven: false },
  {
    name: 'one was lost and its number was used again',
    log: [entry(1), entry(2), entry(2, 'again')],
    there: [entry(1), entry(2, 'again')],
    changed: [2],
    proven: false,
  },
  { name: 'nothing was acknowledged', log: [], there: [entry(1)], proven: false },
];

for (const { name, log, there, lost = [], changed = [], proven } of PROOFS)
  test(`${name}: ${proven ? 'proven' : 'not proven'}`, () => {
    const proof = prove(log, held(...there));
    assert.deepEqual(proof, { acknowledged: log.length, found: log.length - lost.length - changed.length, lost, changed });
    assert.equal(isProven(proof), proven);
  });

test('the pause lies between the last commit before the stop and the first after', () => {
  const log = [entry(1, 'a', 100), entry(2, 'b', 150), entry(3, 'c', 1650)];
  assert.equal(pauseOf(log, 2), 1500);
  assert.equal(pauseOf(log, 3), null);
  assert.equal(pauseOf(log, 0), null);
});

for (const [first, goes] of [
  [3, true],
  [4, true],
  [5, false],
  [2, false],
  [1, false],
] as const)
  test(`after commit 2, commit ${first} ${goes ? 'goes on' : 'does not go on'}`, () => {
    assert.equal(goesOn([entry(1), entry(2), entry(first, 'new')], 2), goes);
  });

test('without a commit after the stop nothing goes on', () => {
  assert.equal(goesOn([entry(1), entry(2)], 2), false);
});
