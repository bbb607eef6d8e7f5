// Folders that are there afterwards, and an end where none can be.
import assert from 'node:assert/strict';
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../testing/folders.ts';
import { beFolder } from './files.ts';

test('a folder is made with all above it, once or twice, with the mode that was asked', async (t) => {
  const folder = join(await temporaryFolder(t), 'a', 'b', 'c');
  await beFolder(folder, 0o700);
  await beFolder(folder, 0o700);
  assert.equal((await stat(folder)).mode & 0o777, 0o700);
});

test('where no folder can be made that is said, and nothing is tried for ever', async (t) => {
  const root = await temporaryFolder(t);
  await writeFile(join(root, 'file'), '');
  await mkdir(join(root, 'folder'));
  for (const path of ['/proc/self/ns/x', '/proc/x', join(root, 'file'), join(root, 'file', 'x')])
    await assert.rejects(beFolder(path), { reason: 'Invalid', message: /^no folder can be made at / }, path);
});
