import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Invalid } from './errors.ts';
import { formatWords } from './format-options.ts';

for (const [filesystem, text, words] of [
  ['ext4', '', []],
  ['ext4', ' -N 100000  -m 0.5 ', ['-N', '100000', '-m', '0.5']],
  ['ext4', '-i 65536', ['-i', '65536']],
  ['xfs', '-i maxpct=50 -i size=1024', ['-i', 'maxpct=50', '-i', 'size=1024']],
  ['btrfs', '-n 32768 -m single', ['-n', '32768', '-m', 'single']],
] as const)
  test(`${filesystem} may be made with "${text}"`, () => assert.deepEqual(formatWords(filesystem, text), words));

for (const [filesystem, text] of [
  ['ext4', '-N'],
  ['ext4', '-N 0'],
  ['ext4', '-N 1;reboot'],
  ['ext4', '-O ^has_journal'],
  ['ext4', '-E offset=4096'],
  ['ext4', '-m 0.5 /dev/sda'],
  ['ext4', 'constructor x'],
  ['xfs', '-N 100'],
  ['xfs', '-m reflink=0'],
  ['xfs', '-i maxpct=50,sparse=0'],
  ['xfs', '-c options=/etc/passwd'],
  ['btrfs', '-r /etc'],
] as const)
  test(`${filesystem} is not made with "${text}"`, () =>
    assert.throws(
      () => formatWords(filesystem, text),
      (error) => error instanceof Invalid && /is not possible for/u.test(error.message),
    ));
