// The counts that CI believes: what passed, failed and was skipped, and when a skip fails the run.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';

function run(t: TestContext, body: string, environment: { [name: string]: string } = {}): { status: number | null; lines: string[] } {
  const directory = mkdtempSync(join(tmpdir(), 'flock-reporter-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const file = join(directory, 'one.test.mjs');
  writeFileSync(file, `import { test, suite } from 'node:test';\n${body}\n`);
  // Without this the inner run takes itself for a part of the outer one.
  const { NODE_TEST_CONTEXT: _, CI: __, FLOCK_NO_SKIP: ___, ...inherited } = process.env;
  const reporter = join(import.meta.dirname, 'test-reporter.ts');
  const ran = spawnSync(process.execPath, ['--test', `--test-reporter=${reporter}`, file], {
    encoding: 'utf8',
    env: { ...inherited, ...environment },
  });
  return { status: ran.status, lines: ran.stdout.trimEnd().split('\n') };
}

const PASSES = `test('good', () => {});`;
const FAILS = `test('bad', () => { throw new Error('the cause'); });`;
const SKIPS = `test('later', { skip: 'needs root: cannot mount' }, () => {});`;
const PARENT = `suite('all', () => { test('a', () => {}); test('b', () => { throw new Error('in b'); }); });`;

const CASES = [
  { what: 'a pass', body: PASSES, status: 0, last: '1 passed, 0 failed, 0 skipped' },
  { what: 'a failure', body: PASSES + FAILS, status: 1, last: '1 passed, 1 failed, 0 skipped' },
  { what: 'a skip', body: PASSES + SKIPS, status: 0, last: '1 passed, 0 failed, 1 skipped' },
  { what: 'a failure in a suite, once', body: PARENT, status: 1, last: '1 passed, 1 failed, 0 skipped' },
  { what: 'a file that cannot be loaded', body: `throw new Error('at load');`, status: 1, last: '0 passed, 1 failed, 0 skipped' },
  { what: 'a file without a test', body: '', status: 1, last: '0 passed, 1 failed, 0 skipped' },
];

for (const { what, body, status, last } of CASES)
  test(`counts ${what}`, (t) => {
    const ran = run(t, body);
    assert.equal(ran.lines.at(-1), last);
    assert.equal(ran.status, status);
  });

test('tells the cause of a failure and the reason of a skip', (t) => {
  const { lines } = run(t, FAILS + SKIPS);
  assert.match(lines.join('\n'), /FAILED bad.*\n.*the cause/u);
  assert.match(lines.join('\n'), /skipped later: needs root: cannot mount/u);
});

for (const environment of [{ CI: 'true' }, { FLOCK_NO_SKIP: '1' }])
  test(`as root a skip fails the run with ${JSON.stringify(environment)}`, (t) => {
    if (process.getuid?.() !== 0) return t.skip('needs root: as another user skips are allowed');
    const ran = run(t, PASSES + SKIPS, environment);
    assert.equal(ran.status, 1);
    assert.equal(ran.lines.at(-1), '1 passed, 1 failed, 1 skipped');
  });
