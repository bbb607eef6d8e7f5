import assert from 'node:assert/strict';
import { open, readFile, rename, unlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { isReason } from '../model/errors.ts';
import { fakePrograms, temporaryDevice } from '../testing/devices.ts';
import { needsRoot, temporaryFilesystem, temporaryFolder } from '../testing/folders.ts';
import { beUnheld } from './holders.ts';
import { beAsLargeAsItsFile, beAttached, beDetached, loopDevices, loopsOf } from './loop.ts';
import { run } from './run.ts';
import { cloneFile, deviceSize } from './syscalls.ts';

const skip = needsRoot;
const MiB = 1n << 20n;

async function sizeOfDevice(device: string): Promise<bigint> {
  await using opened = await open(device, 'r');
  return deviceSize(opened.fd);
}

test('a file is attached once, with 4096-byte sectors and direct IO, and detached until it is gone', { skip }, async (t) => {
  const { path } = await temporaryFilesystem(t, { type: 'xfs', size: 320n * MiB });
  const file = join(path, 'disk');
  await writeFile(file, Buffer.alloc(Number(4n * MiB)));
  const first = await beAttached(file);
  assert.deepEqual(await beAttached(file), first);
  assert.deepEqual([first.sectorSize, first.direct, first.leaving], [4096, true, false]);
  assert.equal((await readFile(`/sys/class/block/${basename(first.device)}/loop/dio`, 'utf8')).trim(), '1');
  await beDetached(file);
  await beDetached(file);
  assert.deepEqual(await loopsOf(file), []);
});

test('direct IO stays on after the file was reflinked, attached before or after', { skip }, async (t) => {
  const { path } = await temporaryFilesystem(t, { type: 'xfs', size: 320n * MiB });
  const file = join(path, 'disk');
  await writeFile(file, Buffer.alloc(Number(4n * MiB), 1));
  const dio = async (device: string): Promise<string> => (await readFile(`/sys/class/block/${basename(device)}/loop/dio`, 'utf8')).trim();
  const { device } = await beAttached(file);
  await using source = await open(file, 'r');
  await using copy = await open(join(path, 'copy'), 'w');
  await cloneFile(copy.fd, source.fd);
  assert.equal(await dio(device), '1');
  await beDetached(file);
  assert.equal(await dio((await beAttached(file)).device), '1');
  await beDetached(file);
});

test('a file that was renamed is still found attached', { skip }, async (t) => {
  const { file, device } = await temporaryDevice(t, 4n * MiB);
  await rename(file, `${file}2`);
  assert.equal((await loopsOf(`${file}2`))[0]?.device, device);
});

test('a file that was deleted while it was attached is detached by its name, also when another has that name', { skip }, async (t) => {
  for (const again of [false, true]) {
    const { file, device } = await temporaryDevice(t, 4n * MiB);
    await unlink(file);
    if (again) await writeFile(file, Buffer.alloc(Number(4n * MiB)));
    assert.equal((await loopsOf(file))[0]?.device, device);
    await beDetached(file);
    assert.deepEqual(await loopsOf(file), []);
  }
});

test('a device made by hand with other sectors, or twice, is refused with its name', { skip }, async (t) => {
  const folder = await temporaryFolder(t);
  const file = join(folder, 'disk');
  await writeFile(file, Buffer.alloc(Number(4n * MiB)));
  const byHand = (await run('losetup', ['--find', '--show', file])).stdout.trim();
  await assert.rejects(beAttached(file), (error: Error) => isReason(error, 'InUse') && error.message.includes(byHand));
  await run('losetup', ['--find', '--show', file]);
  await assert.rejects(beAttached(file), /attached more than once/u);
  await beDetached(file);
  assert.deepEqual(await loopsOf(file), []);
});

test('a device that goes away while all are listed is not there', async (t) => {
  const row = (name: string, more: object): object => ({
    name,
    'back-ino': 7,
    'back-file': '/x',
    dio: true,
    'log-sec': 4096,
    autoclear: false,
    ...more,
  });
  const rows = [
    row('/dev/loop1', { 'back-maj:min': ' 8:1' }),
    row('/dev/loop2', { 'back-maj:min': null, 'back-file': null, 'back-ino': null }),
  ];
  await fakePrograms(t, { losetup: `cat <<'END'\n${JSON.stringify({ loopdevices: rows })}\nEND` });
  assert.deepEqual(
    (await loopDevices()).map(({ device, filesystem }) => [device, filesystem]),
    [['/dev/loop1', '8:1']],
  );
});

test('whoever has a device open for a moment only does not keep it from being free', { skip }, async (t) => {
  const { device } = await temporaryDevice(t, 4n * MiB);
  const looker = await open(device, 'r');
  let pauses = 0;
  await beUnheld(device, async () => {
    pauses += 1;
    if (pauses === 2) await looker.close();
  });
  assert.equal(pauses, 2);
});

test('a device that is open is not detached, and the holder is named; after it ended it is', { skip }, async (t) => {
  const { file, device } = await temporaryDevice(t, 4n * MiB);
  const holder = await open(device, 'r');
  await assert.rejects(
    beDetached(file),
    (error: Error) => isReason(error, 'InUse') && error.message.includes(`opened by process ${process.pid} (`),
  );
  assert.equal((await loopsOf(file))[0]?.leaving, false);
  await holder.close();
  await beDetached(file);
});

test('a device goes on when its file grows, and shows it when told', { skip }, async (t) => {
  const { file, device } = await temporaryDevice(t, 16n * MiB);
  await using opened = await open(file, 'r+');
  await opened.truncate(Number(32n * MiB));
  assert.equal(await sizeOfDevice(device), 16n * MiB);
  await beAsLargeAsItsFile(device);
  assert.equal(await sizeOfDevice(device), 32n * MiB);
});

test('a losetup that fails, or says it succeeded and did nothing, is an error and leaves nothing', { skip }, async (t) => {
  const file = join(await temporaryFolder(t), 'disk');
  await writeFile(file, Buffer.alloc(Number(MiB)));
  const real = (await run('which', ['losetup'])).stdout.trim();
  for (const [script, message] of [
    ['exit 1', /losetup --find.* failed with exit code 1/u],
    ['exit 0', /reported success, but no loop device has/u],
  ] as const) {
    const restore = await fakePrograms(t, { losetup: `case "$1" in --json) exec ${real} "$@";; *) ${script};; esac` });
    await assert.rejects(beAttached(file), message);
    restore();
    assert.deepEqual(await loopsOf(file), []);
  }
});
