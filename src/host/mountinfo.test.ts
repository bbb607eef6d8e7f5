import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deviceNumber, parseMounts } from './mountinfo.ts';

test('reads a line with optional fields, and one without', () => {
  const text = [
    '36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue',
    '37 35 0:21 / /proc rw - proc proc rw',
    '',
  ].join('\n');
  assert.deepEqual(parseMounts(text), [
    {
      number: '98:0',
      root: '/mnt1',
      target: '/mnt2',
      options: ['rw', 'noatime'],
      filesystem: 'ext3',
      source: '/dev/root',
      superOptions: ['rw', 'errors=continue'],
    },
    { number: '0:21', root: '/', target: '/proc', options: ['rw'], filesystem: 'proc', source: 'proc', superOptions: ['rw'] },
  ]);
});

for (const [written, meant] of [
  ['/a\\040b', '/a b'],
  ['/a\\011b', '/a\tb'],
  ['/a\\012b', '/a\nb'],
  ['/a\\134040b', '/a\\040b'],
  ['/\\303\\274\\040ü', '/ü ü'],
] as const)
  test(`reads ${written} as ${JSON.stringify(meant)}`, () => {
    assert.equal(parseMounts(`1 0 8:1 / ${written} rw - xfs /dev/sda1 rw`)[0]?.target, meant);
  });

test('tells device numbers as mountinfo does', () => {
  assert.equal(deviceNumber(0xfe00), '254:0');
  assert.equal(deviceNumber(0x801), '8:1');
  assert.equal(deviceNumber(0x700 + (0x123 << 20) + 4), '7:74500');
});
