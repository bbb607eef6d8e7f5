// A process whose log is on a full disk goes on, and logs again when there is room.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, closeSync } from 'node:fs';
import { mkdir, readFile, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { run } from '../host/run.ts';
import { afterwards } from '../testing/afterwards.ts';
import { needsRoot, temporaryFolder } from '../testing/folders.ts';

const CHILD = `
  const { logOutput } = await import(${JSON.stringify(new URL('log-output.ts', import.meta.url).href)});
  const write = logOutput(1);
  for (let line = 0; line < 1000; line += 1) write('x'.repeat(1000) + '\\n');
  process.stderr.write('alive');
  process.stdin.once('data', () => { write('again\\n'); process.exit(0); });
`;

test('a full disk costs lines of the log, not the process', { skip: needsRoot }, async (t) => {
  const folder = join(await temporaryFolder(t), 'small');
  await mkdir(folder);
  await run('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder]);
  afterwards(t, async () => void (await run('umount', [folder])));
  const file = join(folder, 'agent.log');
  const fd = openSync(file, 'a');
  const child = spawn(process.execPath, ['--input-type=module', '-e', CHILD], { stdio: ['pipe', fd, 'pipe'] });
  closeSync(fd);
  const ended = once(child, 'exit');
  const [said] = (await once(child.stderr ?? child, 'data')) as [Buffer];
  assert.equal(said.toString(), 'alive');
  await truncate(file, 0);
  child.stdin?.write('go on');
  assert.equal((await ended)[0], 0);
  const lines = (await readFile(file, 'utf8')).split('\n');
  assert.match(lines[1] ?? '', /"msg":"\d+ lines of this log were lost: its disk was full"/u);
  assert.equal(lines[2], 'again');
});
