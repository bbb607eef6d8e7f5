// What was written before the move: its hash is that of what lies on the disk, and a single turned bit changes it.
import assert from 'node:assert/strict';
import { open, readFile, writeFile } from 'node:fs/promises';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../../testing/folders.ts';
import { hashStretches, writeStretches } from './content.ts';

const LENGTH = 8 * 1024 * 1024;
const signal = new AbortController().signal;

test('files and a stretch of a raw file hash to what was written, and nothing outside of the stretch changes', async (t) => {
  const folder = await temporaryFolder(t);
  const raw = join(folder, 'raw');
  await writeFile(raw, Buffer.alloc(LENGTH + 8192, 7));
  const stretches = [
    { file: join(folder, 'file'), offset: 0, length: LENGTH },
    { file: raw, offset: 4096, length: LENGTH },
  ];
  const told: number[] = [];
  const hash = await writeStretches(stretches, (written) => told.push(written), signal);
  assert.equal(told.at(-1), 2 * LENGTH);
  assert.equal(await hashStretches(stretches, signal), hash);

  const whole = await readFile(raw);
  assert.deepEqual([...whole.subarray(0, 4096), ...whole.subarray(4096 + LENGTH)], Array(8192).fill(7));
  const joined = createHash('sha256')
    .update(await readFile(join(folder, 'file')))
    .update(whole.subarray(4096, 4096 + LENGTH));
  assert.equal(joined.digest('hex'), hash);

  await using file = await open(raw, 'r+');
  await file.write(Buffer.of(whole[LENGTH]! ^ 1), 0, 1, LENGTH);
  assert.notEqual(await hashStretches(stretches, signal), hash);
});

test('a file that became shorter has another hash', async (t) => {
  const stretches = [{ file: join(await temporaryFolder(t), 'file'), offset: 0, length: LENGTH }];
  const hash = await writeStretches(stretches, () => {}, signal);
  await using file = await open(stretches[0]!.file, 'r+');
  await file.truncate(LENGTH - 1);
  assert.notEqual(await hashStretches(stretches, signal), hash);
});
