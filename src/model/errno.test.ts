// What the system refuses reaches people in words.
import assert from 'node:assert/strict';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { messageOf } from './errors.ts';

const nowhere = join(tmpdir(), 'flock-is-not-there', 'file');

for (const [what, failing, message] of [
  ['a file that is not there', () => readFile(nowhere), `${nowhere}: there is no such file or folder (ENOENT)`],
  ['a folder for a file', () => readFile(tmpdir()), 'read: it is a folder (EISDIR)'],
  ['a path through a file', () => writeFile('/proc/version/x', ''), '/proc/version/x: a part of the path is no folder (ENOTDIR)'],
  ['two paths', () => rename(nowhere, '/tmp/x'), `${nowhere} -> /tmp/x: there is no such file or folder (ENOENT)`],
] as [string, () => Promise<unknown>, string][])
  test(`${what} is said as the thing and the cause`, async () => {
    const error: unknown = await failing().catch((reason: unknown) => reason);
    assert.equal(messageOf(error), message);
  });

test('other errors speak for themselves', () => {
  assert.equal(messageOf(new Error('plain')), 'plain');
  assert.equal(messageOf('text'), 'text');
  const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code: 'ECONNREFUSED', syscall: 'connect' });
  assert.equal(messageOf(refused), 'connect ECONNREFUSED 127.0.0.1:1');
});
