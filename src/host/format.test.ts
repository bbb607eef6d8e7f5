import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { test } from 'node:test';
import { isReason, type Reason } from '../model/errors.ts';
import { FILESYSTEMS } from '../model/volume.ts';
import { fakePrograms, temporaryDevice } from '../testing/devices.ts';
import { needsRoot } from '../testing/folders.ts';
import { readWhole } from './direct.ts';
import { dataRanges } from './extents.ts';
import { checkFilesystemSize } from '../decide/filesystem-size.ts';
import { beFormatted } from './format.ts';
import { run } from './run.ts';

const SIZE = 320n << 20n;
const skip = needsRoot;

/** Of all that is not a hole: the rest reads as zeros. */
async function contentOf(path: string): Promise<string> {
  await using file = await open(path, 'r');
  const hash = createHash('sha256');
  for await (const { offset, length } of dataRanges(file.fd, (await file.stat({ bigint: true })).size)) {
    const bytes = Buffer.alloc(Number(length));
    await readWhole(file, bytes, offset);
    hash.update(`${offset} ${length}`).update(bytes);
  }
  return hash.digest('hex');
}

async function signatureOn(device: string): Promise<string> {
  return (await run('blkid', ['-p', '-o', 'value', '-s', 'TYPE', device], { allow: [2] })).stdout.trim();
}

async function wipeStart(device: string, length = 1 << 20): Promise<void> {
  await using file = await open(device, 'r+');
  await file.write(Buffer.alloc(length), 0, length, 0);
  await file.sync();
}

async function rejectsUntouched(file: string, asked: () => Promise<void>, reason: Reason, message: RegExp): Promise<void> {
  const before = await contentOf(file);
  await assert.rejects(asked(), (error: Error) => isReason(error, reason) && message.test(error.message));
  assert.equal(await contentOf(file), before);
}

test('a filesystem is made with the options that were asked for, and with none that are not on the list', { skip }, async (t) => {
  const { device } = await temporaryDevice(t, SIZE);
  await assert.rejects(beFormatted(device, 'ext4', false, '-O encrypt'), (error: Error) => isReason(error, 'Invalid'));
  await beFormatted(device, 'ext4', false, '-N 1024');
  const { stdout } = await run('dumpe2fs', ['-h', device]);
  assert.match(stdout, /^Inode count:\s+1[0-9]{3}$/mu);
});

for (const filesystem of FILESYSTEMS) {
  test(`${filesystem} is made on a device that was never formatted, and found there when it was`, { skip }, async (t) => {
    const { device, file } = await temporaryDevice(t, SIZE);
    await beFormatted(device, filesystem, false);
    assert.equal(await signatureOn(device), filesystem);
    const made = await contentOf(file);
    await beFormatted(device, filesystem, true);
    await beFormatted(device, filesystem, false);
    assert.equal(await contentOf(file), made, 'a crash before the label was written does not make it again');
  });

  test(`${filesystem} that lost its superblock is refused and left as it is, never made again`, { skip }, async (t) => {
    const { device, file } = await temporaryDevice(t, SIZE);
    await beFormatted(device, filesystem, false);
    await wipeStart(device);
    await rejectsUntouched(file, () => beFormatted(device, filesystem, true), 'Corrupt', /nothing is found on it.*not formatted again/u);
  });

  test(`${filesystem} by record, but another on the device: refused and left as it is`, { skip }, async (t) => {
    const { device, file } = await temporaryDevice(t, SIZE);
    const other = filesystem === 'xfs' ? 'ext4' : 'xfs';
    await beFormatted(device, other, false);
    await rejectsUntouched(file, () => beFormatted(device, filesystem, true), 'Corrupt', new RegExp(`holds ${other}`, 'u'));
    await rejectsUntouched(file, () => beFormatted(device, filesystem, false), 'InUse', new RegExp(`holds ${other}`, 'u'));
  });
}

test('somebody else’s filesystem of the same type is not ours', { skip }, async (t) => {
  const { device, file } = await temporaryDevice(t, SIZE);
  await run('mkfs.ext4', ['-q', '-L', 'photos', device]);
  await rejectsUntouched(file, () => beFormatted(device, 'ext4', false), 'InUse', /whose it is/u);
});

test('a partition table is somebody else’s too', { skip }, async (t) => {
  const { device, file } = await temporaryDevice(t, SIZE);
  await using opened = await open(device, 'r+');
  const sector = Buffer.alloc(4096);
  sector.set([0x80, 0, 2, 0, 0x83, 0, 0, 0, 8, 0, 0, 0, 0, 1, 0, 0], 446);
  sector.set([0x55, 0xaa], 510);
  await opened.write(sector, 0, 4096, 0);
  await opened.sync();
  await rejectsUntouched(file, () => beFormatted(device, 'ext4', false), 'InUse', /holds dos/u);
});

test('an xfs whose mkfs was killed is made whole', { skip }, async (t) => {
  const { device } = await temporaryDevice(t, SIZE);
  await beFormatted(device, 'xfs', false);
  await using opened = await open(device, 'r+');
  const block = Buffer.alloc(4096);
  await opened.read(block, 0, 4096, 0);
  block[126] = 1;
  await opened.write(block, 0, 4096, 0);
  await opened.sync();
  await beFormatted(device, 'xfs', false);
  await opened.read(block, 0, 4096, 0);
  assert.equal(block[126], 0);
});

for (const [why, script, message] of [
  ['finds nothing', 'exit 2', /nothing is found on it/u],
  ['cannot decide', 'exit 8', /exit code 8/u],
  ['fails', 'exit 1', /exit code 1/u],
  ['is killed', 'kill -KILL $$', /ended by SIGKILL/u],
] as const)
  test(`a blkid that ${why} never leads to a format of what was formatted`, { skip }, async (t) => {
    const { device, file } = await temporaryDevice(t, SIZE);
    await beFormatted(device, 'ext4', false);
    const before = await contentOf(file);
    await fakePrograms(t, { blkid: script });
    await assert.rejects(beFormatted(device, 'ext4', true), message);
    assert.equal(await contentOf(file), before);
  });

for (const script of ['exit 8', 'exit 1'])
  test(`a blkid that answers ${script} is no leave to format what was not`, { skip }, async (t) => {
    const { device, file } = await temporaryDevice(t, SIZE);
    const before = await contentOf(file);
    await fakePrograms(t, { blkid: script });
    await assert.rejects(beFormatted(device, 'ext4', false), /blkid/u);
    assert.equal(await contentOf(file), before);
  });

test('a failed mkfs is an error, and one that says it succeeded and did nothing too', { skip }, async (t) => {
  const { device } = await temporaryDevice(t, SIZE);
  for (const [script, message] of [
    ['echo no luck >&2; exit 1', /no luck/u],
    ['exit 0', /reported success, but .* holds nothing/u],
  ] as const) {
    const restore = await fakePrograms(t, { 'mkfs.ext4': script });
    await assert.rejects(beFormatted(device, 'ext4', false), message);
    restore();
  }
  await beFormatted(device, 'ext4', false);
});

test('a device that is not there is not an empty one', async () => {
  await assert.rejects(beFormatted('/dev/nonexistent', 'ext4', false), (error) => isReason(error, 'NotFound'));
});

test('a file is no device', { skip }, async (t) => {
  const { file } = await temporaryDevice(t, SIZE);
  await assert.rejects(beFormatted(file, 'ext4', false), (error) => isReason(error, 'NotFound'));
});

test('a size that mkfs would refuse is refused before anything is made', () => {
  checkFilesystemSize('xfs', 300n << 20n);
  assert.throws(() => checkFilesystemSize('xfs', (300n << 20n) - 1n), /at least 300Mi$/u);
  assert.throws(() => checkFilesystemSize('btrfs', 1n << 20n), /at least 128Mi$/u);
  assert.throws(() => checkFilesystemSize('ext4', 4096n), /at least 8Mi$/u);
});
