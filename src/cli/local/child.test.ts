// Processes that are known by id and beginning: a stranger with the same id is never signalled.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { systemClock } from '../../model/clock.ts';
import { allFound, begin, end, found, type Child } from './child.ts';

const WAITS = `process.on('SIGTERM', () => process.exit(0)); console.log('ready'); setInterval(() => {}, 1000);`;
const STAYS = `process.on('SIGTERM', () => console.log('no')); console.log('ready'); setInterval(() => {}, 1000);`;

async function until(so: () => boolean): Promise<void> {
  const signal = AbortSignal.timeout(10_000);
  while (!so()) await systemClock.sleep(5, signal);
}

async function running(t: TestContext, script: string): Promise<{ folder: string; log: string; child: Child }> {
  const folder = mkdtempSync(join(tmpdir(), 'flock-child-'));
  const log = join(folder, 'log');
  const child = begin({ running: folder, name: 'one', log, words: ['-e', script] });
  t.after(() => {
    if (found(folder, 'one')) process.kill(child.pid, 'SIGKILL');
    rmSync(folder, { recursive: true });
  });
  await until(() => readFileSync(log, 'utf8').includes('ready'));
  return { folder, log, child };
}

test('one that was begun is found, ends in order, and is forgotten', async (t) => {
  const { folder, child } = await running(t, WAITS);
  assert.deepEqual(found(folder, 'one'), child);
  assert.deepEqual(allFound(folder), [child]);
  await end(folder, 'one', systemClock);
  assert.equal(found(folder, 'one'), null);
  assert.deepEqual(allFound(folder), []);
});

test('one that does not end when it is asked is made to', async (t) => {
  const { folder, log } = await running(t, STAYS);
  let elapsed = 0;
  // Time passes only in sleeps, and only after the refusal was written.
  const clock = {
    ...systemClock,
    monotonic: () => elapsed,
    sleep: async (ms: number) => {
      if (readFileSync(log, 'utf8').includes('no')) elapsed += 10_000;
      await systemClock.sleep(ms);
    },
  };
  await end(folder, 'one', clock);
  assert.equal(found(folder, 'one'), null);
});

test('one that was killed is not found any more, and ending it is no error', async (t) => {
  const { folder, child } = await running(t, WAITS);
  process.kill(child.pid, 'SIGKILL');
  await until(() => found(folder, 'one') === null);
  await end(folder, 'one', systemClock);
});

for (const [what, kept] of [
  ['another beginning', { began: '1' }],
  ['another boot', { boot: 'another' }],
] as const)
  test(`a process with the same id and ${what} is a stranger`, async (t) => {
    const { folder, child } = await running(t, WAITS);
    const stranger = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
    t.after(() => stranger.kill('SIGKILL'));
    await end(folder, 'one', systemClock);
    const sample = begin({ running: folder, name: 'sample', log: join(folder, 'sample'), words: ['-e', WAITS] });
    const text = JSON.parse(readFileSync(join(folder, 'sample.json'), 'utf8')) as object;
    writeFileSync(join(folder, 'two.json'), JSON.stringify({ ...text, ...kept, pid: stranger.pid }));
    assert.equal(found(folder, 'two'), null);
    await end(folder, 'two', systemClock);
    assert.equal(stranger.exitCode, null);
    assert.equal(stranger.signalCode, null);
    await end(folder, 'sample', systemClock);
    assert.notEqual(sample.pid, child.pid);
  });

test('what is no record of a process is nobody', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'flock-child-'));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'torn.json'), '{"pid":');
  assert.equal(found(folder, 'torn'), null);
  assert.equal(found(folder, 'missing'), null);
  assert.deepEqual(allFound(join(folder, 'no-folder')), []);
});

test('a tied one ends when whoever began it is killed', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'flock-child-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const log = join(folder, 'log');
  const child = join(import.meta.dirname, 'child.ts');
  const tied = `import { whenUntied } from ${JSON.stringify(child)}; whenUntied(() => process.exit(0)); console.log('ready'); setInterval(() => {}, 1000);`;
  const order = { running: folder, name: 'one', log, words: ['--input-type=module', '-e', tied], tied: true };
  const script = `import { begin } from ${JSON.stringify(child)}; begin(${JSON.stringify(order)}); setInterval(() => {}, 1000);`;
  const starter = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'ignore', 'inherit'] });
  t.after(() => {
    starter.kill('SIGKILL');
    const left = found(folder, 'one');
    if (left) process.kill(left.pid, 'SIGKILL');
  });
  await until(() => existsSync(log) && readFileSync(log, 'utf8').includes('ready'));
  assert.ok(found(folder, 'one'));
  starter.kill('SIGKILL');
  await until(() => found(folder, 'one') === null);
});
