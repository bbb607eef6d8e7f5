// With programs that stand for LVM's: what is shown is how they run and end, not what they do.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { isReason } from '../model/errors.ts';
import { temporaryFolder } from '../testing/folders.ts';
import { environmentOf, LvmCommands } from './lvm-command.ts';
import { CommandFailed } from './run.ts';

const commands = (): LvmCommands => new LvmCommands(`test-${process.pid}`, 'image');
const isThere = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

async function until(what: () => Promise<boolean>): Promise<void> {
  for (let left = 1200; !(await what()); left -= 1) {
    assert.ok(left > 0, 'it did not come to pass');
    await pause(50);
  }
}

test('gives a program its words as they are, and its answer back', async () => {
  const { run } = commands();
  assert.deepEqual(await run('printf', ['%s|', 'a b', '$HOME', '; exit 3', "'"]), {
    exitCode: 0,
    stdout: "a b|$HOME|; exit 3|'|",
    stderr: '',
  });
  assert.equal((await run('sh', ['-c', 'exit 5'], { allow: [5] })).exitCode, 5);
});

test('says which program failed, how, and what it said', async () => {
  const { run } = commands();
  const failed = (message: RegExp) => (error: Error) => error instanceof CommandFailed && message.test(error.message);
  await assert.rejects(run('sh', ['-c', 'echo no room >&2; exit 5']), failed(/exit code 5: no room$/u));
  await assert.rejects(run('sh', ['-c', 'kill -TERM $$']), failed(/was ended by SIGTERM/u));
  await assert.rejects(run('flock-no-such-program', []), failed(/no program flock-no-such-program on the PATH/u));
});

for (const [tools, machineHasUdev, disabled] of [
  ['image', true, '1'],
  ['image', false, '1'],
  ['host', true, undefined],
  ['host', false, '1'],
] as const)
  test(`${tools === 'host' ? "the machine's" : "the image's"} tools wait for udev only where they share one (${machineHasUdev ? 'it runs' : 'there is none'})`, (t) => {
    const before = process.env['DM_DISABLE_UDEV'];
    t.after(() => (before === undefined ? delete process.env['DM_DISABLE_UDEV'] : (process.env['DM_DISABLE_UDEV'] = before)));
    process.env['DM_DISABLE_UDEV'] = '1';
    assert.equal(environmentOf(tools, machineHasUdev)['DM_DISABLE_UDEV'], disabled);
  });

test('runs each in a session of its own', async () => {
  const { stdout } = await commands().run('cat', ['/proc/self/stat']);
  const [pid, , , , , session] = stdout.split(' ');
  assert.equal(session, pid);
});

test('asks one that takes too long to end, and kills it not; meanwhile the volume group waits, and says for what', async (t) => {
  const folder = await temporaryFolder(t);
  const lvm = commands();
  const script = 'trap "touch $0/asked" TERM; until [ -e "$0/end" ]; do sleep 0.05; done; touch "$0/ended"';
  const late = lvm.run('sh', ['-c', script, folder], { patience: 500 });
  await assert.rejects(late, (error: Error) => isReason(error, 'Unavailable') && /asked to end after 500 ms/u.test(error.message));
  await until(() => isThere(join(folder, 'asked')));
  await assert.rejects(
    lvm.run('true', []),
    (error: Error) => isReason(error, 'Unavailable') && /waits for `sh -c trap.*do not kill it/u.test(error.message),
  );
  assert.equal((await new LvmCommands('another', 'image').run('true', [])).exitCode, 0);
  await writeFile(join(folder, 'end'), '');
  await until(() =>
    lvm.run('true', []).then(
      () => true,
      () => false,
    ),
  );
  assert.ok(await isThere(join(folder, 'ended')));
});

test('outlives a process that is killed, with what it writes; and who comes next waits for its end', async (t) => {
  const folder = await temporaryFolder(t);
  const group = `test-outlives-${process.pid}`;
  const program = `
    import { LvmCommands } from ${JSON.stringify(join(import.meta.dirname, 'lvm-command.ts'))};
    await new LvmCommands(${JSON.stringify(group)}, 'image').run('sh', ['-c',
      'touch "$0/begun"; until [ -e "$0/end" ]; do echo more; sleep 0.05; done; echo and more; touch "$0/ended"', ${JSON.stringify(folder)}]);`;
  const agent = spawn(process.execPath, ['--input-type=module-typescript', '-e', program], { stdio: 'inherit' });
  const exited = once(agent, 'exit');
  await until(() => isThere(join(folder, 'begun')));
  agent.kill('SIGKILL');
  await exited;
  const next = new LvmCommands(group, 'image');
  const canTell = process.getuid?.() === 0 && (await isThere('/sys/fs/cgroup/cgroup.controllers'));
  if (canTell)
    await assert.rejects(
      next.settled(100),
      (error: Error) => isReason(error, 'Unavailable') && /earlier agent do not end/u.test(error.message),
    );
  await writeFile(join(folder, 'end'), '');
  await next.settled();
  await until(() => isThere(join(folder, 'ended')));
});

test("does not wait for the daemon of LVM that an earlier agent's command started", async (t) => {
  const folder = await temporaryFolder(t);
  const group = `test-daemon-${process.pid}`;
  const daemon = join(folder, 'dmeventd');
  await copyFile('/bin/sleep', daemon);
  const { stdout } = await new LvmCommands(group, 'image').run('sh', ['-c', '"$0" 1000 </dev/null >/dev/null 2>&1 & echo $!', daemon]);
  t.after(() => process.kill(Number(stdout), 'SIGKILL'));
  await new LvmCommands(group, 'image').settled(0);
});

test('leaves no cgroup behind', async () => {
  const group = `test-clean-${process.pid}`;
  const lvm = new LvmCommands(group, 'image');
  await Promise.all([1, 2, 3].map(() => lvm.run('true', [])));
  assert.equal(await isThere(`/sys/fs/cgroup/flock-lvm/vg-${group}`), false);
});
