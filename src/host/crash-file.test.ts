// A place to die at that is named by a file.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../testing/folders.ts';
import { killByFile } from './crash-file.ts';

test('a file names the place where the process ends, and is gone for the next life', async (t) => {
  const file = join(await temporaryFolder(t), 'crash');
  let kills = 0;
  const pass = killByFile(file, () => (kills += 1));
  pass('here');
  await writeFile(file, 'here\n');
  pass('there');
  assert.deepEqual([kills, existsSync(file)], [0, true]);
  pass('here');
  pass('here');
  assert.deepEqual([kills, existsSync(file)], [1, false]);
});

test('without a file every place is passed', () => {
  killByFile(undefined, () => assert.fail('killed'))('here');
});
