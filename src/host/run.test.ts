import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommandFailed, run } from './run.ts';

const failed = (check: (error: CommandFailed) => void) => (error: unknown) => {
  assert.ok(error instanceof CommandFailed);
  check(error);
  return true;
};

test('gives what a program printed', async () => {
  assert.deepEqual(await run('printf', ['%s', 'a b']), { stdout: 'a b', stderr: '', exitCode: 0 });
});

test('a failed program is an exception that names command, exit code and what it said', async () => {
  await assert.rejects(
    run('ls', ['/nonexistent']),
    failed((error) => {
      assert.equal(error.exitCode, 2);
      assert.equal(error.command, 'ls /nonexistent');
      assert.match(error.message, /`ls \/nonexistent` failed with exit code 2: .*No such file/u);
      assert.equal(error.reason, 'Internal');
    }),
  );
});

test('only the exit codes on the list are an answer', async () => {
  assert.equal((await run('sh', ['-c', 'exit 3'], { allow: [2, 3] })).exitCode, 3);
  await assert.rejects(
    run('sh', ['-c', 'exit 4'], { allow: [2, 3] }),
    failed((error) => assert.equal(error.exitCode, 4)),
  );
});

test('a program that is not there is named', async () => {
  await assert.rejects(
    run('no-such-program', []),
    failed((error) => assert.match(error.message, /no such program on the PATH/u)),
  );
});

test('a program that takes too long is stopped with SIGTERM, and that is no success', async () => {
  await assert.rejects(
    run('sleep', ['60'], { timeout: 50 }),
    failed((error) => assert.match(error.message, /was stopped after 50 ms/u)),
  );
});

test('a program ended by a signal is a failed one', async () => {
  await assert.rejects(
    run('sh', ['-c', 'kill -TERM $$']),
    failed((error) => assert.match(error.message, /ended by SIGTERM/u)),
  );
});

test('no text is ever read by a shell', async () => {
  assert.equal((await run('printf', ['%s', '$(id); `id` > /dev/null'])).stdout, '$(id); `id` > /dev/null');
});
