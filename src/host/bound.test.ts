// A raw file behind a link: it is handed out as a device is, and not taken away while somebody writes through it.
import assert from 'node:assert/strict';
import { open, readFile, realpath, writeFile } from 'node:fs/promises';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { isReason } from '../model/errors.ts';
import { temporaryFolder } from '../testing/folders.ts';
import { beBound, beUnbound, isBound } from './bound.ts';

test('a link is made once, found, and taken away', async (t) => {
  const folder = await temporaryFolder(t);
  const [file, target] = [join(folder, 'image'), join(folder, 'to', 'volume')];
  await writeFile(file, 'bytes');
  for (let time = 0; time < 2; time += 1) await beBound(file, target, 'link');
  assert.equal(await realpath(target), await realpath(file));
  assert.equal(await isBound(target), true);
  for (let time = 0; time < 2; time += 1) await beUnbound(target);
  assert.equal(await isBound(target), false);
  assert.equal(await readFile(file, 'utf8'), 'bytes');
});

test('what is there already is left alone', async (t) => {
  const folder = await temporaryFolder(t);
  const target = join(folder, 'taken');
  await writeFile(target, 'somebody else’s');
  await assert.rejects(beBound(join(folder, 'image'), target, 'link'), (error) => isReason(error, 'InUse'));
  assert.equal(await readFile(target, 'utf8'), 'somebody else’s');
});

test('a link stays while another process has its file open for writing, and that process is named', async (t) => {
  const folder = await temporaryFolder(t);
  const [file, target] = [join(folder, 'image'), join(folder, 'volume')];
  await writeFile(file, 'bytes');
  await beBound(file, target, 'link');
  const writer = spawn('sh', ['-c', 'exec 3<>"$1"; echo open; exec sleep 60', 'sh', target], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => writer.kill('SIGKILL'));
  await once(writer.stdout, 'data');
  const busy = (error: Error): boolean => isReason(error, 'InUse') && error.message.includes(`process ${writer.pid} (`);
  await assert.rejects(beUnbound(target), busy);
  assert.equal(await isBound(target), true);
  const ended = once(writer, 'exit');
  writer.kill('SIGKILL');
  await ended;
  // Readers write nothing.
  await using _ = await open(target, 'r');
  await beUnbound(target);
  assert.equal(await isBound(target), false);
});

test('a link to a file that is gone can still be taken away', async (t) => {
  const folder = await temporaryFolder(t);
  await beBound(join(folder, 'gone'), join(folder, 'volume'), 'link');
  await beUnbound(join(folder, 'volume'));
  assert.equal(await isBound(join(folder, 'volume')), false);
});
