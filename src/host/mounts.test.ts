import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, open, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { isReason } from '../model/errors.ts';
import { FILESYSTEMS } from '../model/volume.ts';
import { fakePrograms, temporaryDevice } from '../testing/devices.ts';
import { needsRoot, temporaryFolder, type Test } from '../testing/folders.ts';
import { beFormatted } from './format.ts';
import { beUnheld } from './holders.ts';
import { beDetached } from './loop.ts';
import { beBound, beMounted, beUnmounted, isMounted, mountOf, mountsAt } from './mounts.ts';
import { run } from './run.ts';

const skip = needsRoot;
const SIZE = 320n << 20n;

async function formatted(t: Test): Promise<{ device: string; file: string; target: string }> {
  const { device, file, folder } = await temporaryDevice(t, 64n << 20n);
  await beFormatted(device, 'ext4', false);
  return { device, file, target: join(folder, 'a place with\ttabs') };
}

/** A program that has said `ready` and lives until it is ended. */
async function living(t: Test, program: string, args: string[], cwd = '/'): Promise<ChildProcess> {
  const child = spawn(program, args, { cwd, stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => ended(child));
  await once(child.stdout ?? assert.fail(), 'data');
  return child;
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
}

const names = (pid: number | undefined, what: RegExp) => (error: Error) =>
  isReason(error, 'InUse') && what.test(error.message) && error.message.includes(`process ${pid} (`);

for (const filesystem of FILESYSTEMS)
  test(`${filesystem} is mounted without devices and set-uid programs, once, and unmounted until it is gone`, { skip }, async (t) => {
    const { device, folder } = await temporaryDevice(t, SIZE);
    const target = join(folder, 'mnt');
    await beFormatted(device, filesystem, false);
    for (let time = 0; time < 2; time += 1) await beMounted(device, target, filesystem, false);
    const found = await mountsAt(target);
    assert.equal(found.length, 1);
    assert.deepEqual(
      ['nodev', 'nosuid', 'rw'].filter((option) => !found[0]?.options.includes(option)),
      [],
    );
    assert.equal((await mountOf(join(target, 'anything'))).target, target);
    await beUnmounted(target);
    await beUnmounted(target);
    assert.equal(await isMounted(target), false);
    await beMounted(device, target, filesystem, true);
    await assert.rejects(writeFile(join(target, 'f'), ''), /EROFS/u);
    await assert.rejects(beMounted(device, target, filesystem, false), (error) => isReason(error, 'InUse'));
    await beUnmounted(target);
  });

test('mounts that were stacked on one path all go', { skip }, async (t) => {
  const { device, target } = await formatted(t);
  await beMounted(device, target, 'ext4', false);
  await run('mount', ['-t', 'tmpfs', 'tmpfs', target]);
  await run('mount', ['-t', 'tmpfs', 'tmpfs', target]);
  assert.equal((await mountsAt(target)).length, 3);
  await assert.rejects(beMounted(device, target, 'ext4', false), /taken by a mount of tmpfs/u);
  await beUnmounted(target);
  assert.equal(await isMounted(target), false);
});

test('a raw block volume is its device node at the path, and goes with the unmount', { skip }, async (t) => {
  const { device, folder } = await temporaryDevice(t, 16n << 20n);
  const target = join(folder, 'deep', 'block');
  for (let time = 0; time < 2; time += 1) await beBound(device, target);
  assert.equal((await stat(target)).rdev, (await stat(device)).rdev);
  const other = await temporaryDevice(t, 16n << 20n);
  await assert.rejects(beBound(other.device, target), (error) => isReason(error, 'InUse'));
  await beUnmounted(target);
  assert.ok((await stat(target)).isFile());
});

test('a device whose node is bound to a path is not detached, and the path is named', { skip }, async (t) => {
  const { device, file, folder } = await temporaryDevice(t, 16n << 20n);
  const target = join(folder, 'block');
  await beBound(device, target);
  await assert.rejects(beDetached(file), (error: Error) => isReason(error, 'InUse') && error.message.includes(`mounted at ${target}`));
  await beUnmounted(target);
  await beDetached(file);
});

test('a busy mount is not unmounted, and its user is named; after it ended it is', { skip }, async (t) => {
  const { device, target } = await formatted(t);
  await beMounted(device, target, 'ext4', false);
  const child = await living(t, 'sh', ['-c', 'echo ready; read wait'], target);
  await assert.rejects(beUnmounted(target), names(child.pid, /is busy: used by process [0-9]+ \(sh\)/u));
  assert.ok(await isMounted(target));
  await ended(child);
  await beUnmounted(target);
});

test('a user that runs on Node is named by its program and script, for they all call their first thread the same', { skip }, async (t) => {
  const { device, target } = await formatted(t);
  await beMounted(device, target, 'ext4', false);
  const script = join(await temporaryFolder(t), 'ledger.js');
  await writeFile(script, 'console.log("ready"); process.stdin.resume();');
  const child = await living(t, process.execPath, [script, 'a-secret'], target);
  await assert.rejects(beUnmounted(target), names(child.pid, /is busy: used by process [0-9]+ \(node ledger\.js\)\. End/u));
  await ended(child);
  await beUnmounted(target);
});

test(
  'a device mounted in another mount namespace is not detached; the error names the process, and it works after that ended',
  { skip },
  async (t) => {
    const { device, file, target } = await formatted(t);
    await mkdir(target);
    // Of the mounts of tests that run beside this one none may live on in the namespace: they would find their devices busy.
    const others = `cut -d' ' -f5 /proc/self/mountinfo | grep -F /flock- | sort -r | while read -r m; do umount -l "$m"; done`;
    const script = `${others}; mount -t ext4 "$0" "$1" && echo ready && read wait`;
    const child = await living(t, 'unshare', ['--mount', '--propagation', 'private', 'sh', '-c', script, device, target]);
    assert.equal(await isMounted(target), false);
    await assert.rejects(beDetached(file), names(child.pid, /mounted at .*a place with\ttabs for process/u));
    await ended(child);
    await beDetached(file);
  },
);

test('a namespace that takes a mount along for a moment only does not keep its device from being free', { skip }, async (t) => {
  const { device, target } = await formatted(t);
  await beMounted(device, target, 'ext4', false);
  const child = await living(t, 'unshare', ['--mount', '--propagation', 'private', 'sh', '-c', 'echo ready && read wait']);
  await beUnmounted(target);
  let pauses = 0;
  await beUnheld(device, async () => {
    pauses += 1;
    if (pauses === 2) await ended(child);
  });
  assert.ok(pauses >= 2);
});

test('a mount that fails, or says it succeeded and did nothing, is an error and leaves nothing', { skip }, async (t) => {
  const { device, target } = await formatted(t);
  for (const [script, message] of [
    ['echo bad superblock >&2; exit 32', /exit code 32: bad superblock/u],
    ['exit 0', /reported success, but/u],
  ] as const) {
    const restore = await fakePrograms(t, { mount: script });
    await assert.rejects(beMounted(device, target, 'ext4', false), message);
    restore();
    assert.equal(await isMounted(target), false);
  }
  await assert.rejects(beMounted(device, target, 'xfs', false), /mount/u);
  assert.equal(await isMounted(target), false);
});

test('an umount that says it succeeded and did nothing does not end as a success', { skip }, async (t) => {
  const { device, target } = await formatted(t);
  await beMounted(device, target, 'ext4', false);
  const restore = await fakePrograms(t, { umount: 'exit 0' });
  await assert.rejects(beUnmounted(target), /mounted again and again/u);
  restore();
  await beUnmounted(target);
});

test('an open file keeps a mount, and is named too', { skip }, async (t) => {
  const { device, target } = await formatted(t);
  await beMounted(device, target, 'ext4', false);
  const file = await open(join(target, 'f'), 'w');
  await assert.rejects(beUnmounted(target), names(process.pid, /busy/u));
  await file.close();
  await beUnmounted(target);
});
