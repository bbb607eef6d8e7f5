import assert from 'node:assert/strict';
import { open, readFile, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { isReason } from '../model/errors.ts';
import { FILESYSTEMS } from '../model/volume.ts';
import { fakePrograms, temporaryDevice } from '../testing/devices.ts';
import { needsRoot } from '../testing/folders.ts';
import { beFormatted } from './format.ts';
import { beGrown, beGrownUnmounted, mayGrowMountedExt4 } from './grow-filesystem.ts';
import { beAsLargeAsItsFile } from './loop.ts';
import { beMounted, beUnmounted } from './mounts.ts';

const skip = needsRoot;
const MiB = 1n << 20n;

async function shown(path: string): Promise<bigint> {
  const { blocks, bsize } = await statfs(path, { bigint: true });
  return blocks * bsize;
}

async function enlarge(file: string, device: string, size: bigint): Promise<void> {
  await using opened = await open(file, 'r+');
  await opened.truncate(Number(size));
  await beAsLargeAsItsFile(device);
}

for (const filesystem of FILESYSTEMS)
  test(`${filesystem} fills its grown device while it is mounted, and growing again changes nothing`, { skip }, async (t) => {
    const { device, file, folder } = await temporaryDevice(t, 320n * MiB);
    const target = join(folder, 'mnt');
    await beFormatted(device, filesystem, false);
    await assert.rejects(beGrown(device, target, filesystem), (error) => isReason(error, 'NotFound'));
    await beMounted(device, target, filesystem, false);
    await writeFile(join(target, 'kept'), 'here');
    const before = await shown(target);
    await enlarge(file, device, 512n * MiB);
    if (filesystem === 'ext4' && !(await mayGrowMountedExt4())) {
      await assert.rejects(
        beGrown(device, target, filesystem),
        (error: Error) => isReason(error, 'NotPermitted') && /CAP_SYS_RESOURCE/u.test(error.message),
      );
      return beUnmounted(target);
    }
    for (let time = 0; time < 2; time += 1) {
      await beGrown(device, target, filesystem);
      assert.ok((await shown(target)) >= before + 180n * MiB, `${before} grew to ${await shown(target)}`);
    }
    assert.equal(await readFile(join(target, 'kept'), 'utf8'), 'here');
    await beUnmounted(target);
  });

test('a tool that fails is an error, and one that did nothing is no success', { skip }, async (t) => {
  const { device, file, folder } = await temporaryDevice(t, 64n * MiB);
  const target = join(folder, 'mnt');
  await beFormatted(device, 'ext4', false);
  await beMounted(device, target, 'ext4', false);
  await enlarge(file, device, 512n * MiB);
  for (const [script, message] of [
    ['exit 1', /resize2fs .*exit code 1/u],
    ['exit 0', /shows .* of the 512 MiB .* try again/u],
  ] as const) {
    const restore = await fakePrograms(t, { resize2fs: script });
    await assert.rejects(beGrown(device, target, 'ext4'), message);
    restore();
  }
  await beUnmounted(target);
});

test('ext4 that may not grow mounted grows before it is mounted, once', { skip }, async (t) => {
  if (await mayGrowMountedExt4()) return t.skip('this process may grow it mounted');
  const { device, file, folder } = await temporaryDevice(t, 200n * MiB);
  const target = join(folder, 'mnt');
  await beFormatted(device, 'ext4', false);
  await beMounted(device, target, 'ext4', false);
  await writeFile(join(target, 'kept'), 'here');
  const before = await shown(target);
  await beUnmounted(target);
  await enlarge(file, device, 320n * MiB);
  await beGrownUnmounted(device, 'ext4');
  const restore = await fakePrograms(t, { e2fsck: 'exit 8', resize2fs: 'exit 1' });
  await beGrownUnmounted(device, 'ext4');
  restore();
  await beMounted(device, target, 'ext4', false);
  assert.ok((await shown(target)) >= before + 100n * MiB);
  assert.equal(await readFile(join(target, 'kept'), 'utf8'), 'here');
  await beGrown(device, target, 'ext4');
  await beUnmounted(target);
});

test('ext4 with errors that need a person is not grown', { skip }, async (t) => {
  if (await mayGrowMountedExt4()) return t.skip('this process may grow it mounted');
  const { device, file } = await temporaryDevice(t, 64n * MiB);
  await beFormatted(device, 'ext4', false);
  await enlarge(file, device, 320n * MiB);
  const restore = await fakePrograms(t, { e2fsck: 'echo UNEXPECTED INCONSISTENCY; exit 4' });
  await assert.rejects(
    beGrownUnmounted(device, 'ext4'),
    (error: Error) => isReason(error, 'Corrupt') && /UNEXPECTED INCONSISTENCY. Unmount it and run e2fsck -f/u.test(error.message),
  );
  restore();
});
