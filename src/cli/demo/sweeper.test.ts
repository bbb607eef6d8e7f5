// Whoever clears up after a demo: it waits for its end, however that comes, and then nothing of it is left.
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { temporaryFolder } from '../../testing/folders.ts';
import { begin, found } from '../local/child.ts';
import { demoPlaces } from './places.ts';

const SWEEPER = join(import.meta.dirname, 'sweeper.ts');
const STAYS = `process.on('SIGTERM', () => process.exit(0)); setInterval(() => {}, 1000);`;

async function aDemo(t: TestContext): Promise<{ folder: string; running: string }> {
  const folder = join(await temporaryFolder(t), 'demo');
  const { running, output } = demoPlaces(folder);
  mkdirSync(running, { recursive: true });
  writeFileSync(join(folder, 'anything'), 'left');
  const { pid } = begin({ running, name: 'application', log: output, words: ['-e', STAYS] });
  t.after(() => {
    if (found(running, 'application')) process.kill(pid, 'SIGKILL');
  });
  return { folder, running };
}

function aSweeper(t: TestContext, folder: string): ChildProcess {
  const sweeper = spawn(process.execPath, [SWEEPER, folder], { stdio: ['pipe', 'ignore', 'inherit'] });
  t.after(() => sweeper.kill('SIGKILL'));
  return sweeper;
}

test('when the demo lets go, its application ends and its folder goes', async (t) => {
  const { folder, running } = await aDemo(t);
  const sweeper = aSweeper(t, folder);
  sweeper.stdin?.end();
  assert.deepEqual(await once(sweeper, 'exit'), [0, null]);
  assert.equal(found(running, 'application'), null);
  assert.equal(existsSync(folder), false);
});

test('when the demo is killed, the same happens without it', async (t) => {
  const { folder, running } = await aDemo(t);
  const script = `
    const { spawn } = require('node:child_process');
    const sweeper = spawn(process.execPath, ${JSON.stringify([SWEEPER, folder])}, { stdio: ['pipe', 'ignore', 'inherit'], detached: true });
    console.log(sweeper.pid);
    setInterval(() => {}, 1000);`;
  const demo = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => demo.kill('SIGKILL'));
  const [pid] = (await once(demo.stdout, 'data')) as [Buffer];
  assert.ok(found(running, 'application'));
  demo.kill('SIGKILL');
  while (existsSync(`/proc/${String(pid).trim()}`)) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal(found(running, 'application'), null);
  assert.equal(existsSync(folder), false);
});

test('no signal keeps it from its work', async (t) => {
  const { folder } = await aDemo(t);
  const sweeper = aSweeper(t, folder);
  await untilItTakesSignals(sweeper);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) sweeper.kill(signal);
  sweeper.stdin?.end();
  assert.deepEqual(await once(sweeper, 'exit'), [0, null]);
  assert.equal(existsSync(folder), false);
});

/** The kernel says which signals a process has taken. */
async function untilItTakesSignals({ pid }: ChildProcess): Promise<void> {
  const caught = (): bigint => BigInt(`0x${/^SigCgt:\s*([0-9a-f]+)/mu.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '0'}`);
  const all = (1n << 0n) | (1n << 1n) | (1n << 14n);
  while ((caught() & all) !== all) await new Promise((resolve) => setTimeout(resolve, 10));
}
