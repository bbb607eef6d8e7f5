import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, mkdirSync, openSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { afterwards } from '../testing/afterwards.ts';
import { needsRoot, temporaryFilesystem, temporaryFolder } from '../testing/folders.ts';
import { run } from './run.ts';
import { usersOfTree } from './tree-holders.ts';

/** A pool's folder with the tree of one copy in it, and what is beside it. */
async function aTree(t: TestContext): Promise<{ folder: string; tree: string; beside: string; users: () => Promise<string[]> }> {
  const folder = (await temporaryFilesystem(t, { type: 'ext4', size: 64n << 20n })).path;
  const tree = join(folder, 'copy');
  mkdirSync(tree);
  writeFileSync(join(tree, 'file'), 'x');
  const users = async (): Promise<string[]> => {
    const root = openSync(tree, constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      return await usersOfTree({ root, paths: [tree], folder });
    } finally {
      closeSync(root);
    }
  };
  return { folder, tree, beside: await temporaryFolder(t), users };
}

async function started(t: TestContext, command: string, args: readonly string[]): Promise<ChildProcess> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'], cwd: import.meta.dirname });
  afterwards(t, () => child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  return child;
}

/** A second thread does something with the tree, by itself alone; then the first may end. */
const THREADS = `
const { Worker, isMainThread, workerData } = require('node:worker_threads');
const libc = require('koffi').load('libc.so.6');
const unshare = libc.func('int unshare(int)'), chdir = libc.func('int chdir(const char *)'), open = libc.func('int open(const char *, int)');
const [how, tree] = process.argv.slice(isMainThread ? 1 : 2);
if (isMainThread) {
  new Worker(process.env.SCRIPT, { eval: true, argv: process.argv.slice(1) }).once('message', () => {
    require('node:fs').writeSync(1, 'ready');
    if (how === 'leader') libc.func('long syscall(long, long)')(process.arch === 'x64' ? 60 : 93, 0);
  });
} else {
  if (how === 'files') unshare(0x400);
  if (how === 'folder') { unshare(0x200); chdir(tree); }
  else open(tree + '/file', 0);
  require('node:worker_threads').parentPort.postMessage('done');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}
`;

for (const [how, title] of [
  ['files', 'a thread with a descriptor table of its own'],
  ['folder', 'a thread with a working directory of its own'],
  ['leader', 'a thread whose process has lost its first'],
] as const)
  test(`${title} is found`, { skip: needsRoot }, async (t) => {
    const { tree, users } = await aTree(t);
    const child = spawn(process.execPath, ['-e', THREADS, how, tree], {
      stdio: ['ignore', 'pipe', 'inherit'],
      cwd: import.meta.dirname,
      env: { ...process.env, SCRIPT: THREADS },
    });
    afterwards(t, () => child.kill('SIGKILL'));
    await once(child.stdout, 'data');
    const named = new RegExp(`process ${child.pid} .* has it`, 'u');
    assert.match((await users()).join('; '), named);
    child.kill('SIGKILL');
    await once(child, 'exit');
    assert.deepEqual(await users(), []);
  });

test('a loop device is found by its file, whatever path that had where it was made', { skip: needsRoot }, async (t) => {
  const { tree, beside, users } = await aTree(t);
  writeFileSync(join(tree, 'disk'), '');
  truncateSync(join(tree, 'disk'), 1 << 20);
  const script = 'mount --bind "$1" "$2" && losetup --find --show "$2/disk"';
  const { stdout } = await run('unshare', ['--mount', '--propagation', 'private', 'sh', '-c', script, 'sh', tree, beside]);
  const device = stdout.trim();
  afterwards(t, () => run('losetup', ['--detach', device]));
  assert.deepEqual(await users(), [`loop device ${device}`]);
});

for (const gone of [false, true])
  test(
    `an overlay that writes into it is found${gone ? ', also when the path by which it came is gone' : ''}`,
    { skip: needsRoot },
    async (t) => {
      const { tree, beside, users } = await aTree(t);
      const [at, lower, merged] = ['at', 'lower', 'merged'].map((name) => join(beside, name)) as [string, string, string];
      for (const folder of [at, lower, merged, join(tree, 'upper'), join(tree, 'work')]) mkdirSync(folder);
      await run('mount', ['--bind', tree, at]);
      const options = `lowerdir=${lower},upperdir=${at}/upper,workdir=${at}/work`;
      try {
        await run('mount', ['-t', 'overlay', 'overlay', '-o', options, merged]);
        afterwards(t, () => run('umount', [merged]));
      } finally {
        if (gone) await run('umount', [at]);
        else afterwards(t, () => run('umount', [at]));
      }
      assert.match((await users()).join('; '), new RegExp(`an overlay mounted at ${merged} has its workdir in it`, 'u'));
    },
  );

test('a mount is found that the first process of its namespace cannot see from its root', { skip: needsRoot }, async (t) => {
  const { tree, beside, users } = await aTree(t);
  const [at, empty] = [join(beside, 'at'), join(beside, 'empty')];
  for (const folder of [at, empty]) mkdirSync(folder);
  // Node alone needs nothing of its root.
  const chrooted = `const libc = require('koffi').load('libc.so.6');
    const { spawn } = require('node:child_process');
    const child = spawn('sh', ['-c', 'echo ready; exec sleep 60'], { stdio: ['ignore', 'inherit', 'inherit'] });
    child.once('spawn', () => libc.func('int chroot(const char *)')(${JSON.stringify(empty)}));
    process.on('SIGTERM', () => { child.kill('SIGKILL'); process.exit(0); });`;
  const others = `cut -d" " -f5 /proc/self/mountinfo | grep -F /flock- | sort -r | while read -r m; do case "$1" in "$m"|"$m"/*) ;; *) umount -l "$m" ;; esac; done`;
  const script = `${others}; mount --bind "$1" "$2"; exec "$3" -e "$4"`;
  const args = ['--mount', '--propagation', 'private', 'sh', '-c', script, 'sh', tree, at, process.execPath, chrooted];
  const child = await started(t, 'unshare', args);
  assert.match((await users()).join('; '), /mounted at .*\/at for process/u);
  child.kill('SIGTERM');
  await once(child, 'exit');
});

test('processes that each begin the next and end are caught', { skip: needsRoot }, async (t) => {
  const { tree, beside, users } = await aTree(t);
  const flag = join(beside, 'flag');
  writeFileSync(flag, '');
  const chain = `exec 3<"$1/file"; next() { [ -e "$2" ] || exit; sleep 0.005; (next "$1" "$2") & }; echo ready; next "$1" "$2"`;
  const child = spawn('sh', ['-c', chain, 'sh', tree, flag], { stdio: ['ignore', 'pipe', 'inherit'] });
  const over = once(child.stdout, 'close');
  try {
    await once(child.stdout, 'data');
    for (let time = 0; time < 3; time += 1) assert.match((await users()).join('; '), /has it open/u);
  } finally {
    rmSync(flag);
    await over;
  }
  assert.deepEqual(await users(), []);
});
