import assert from 'node:assert/strict';
import { test } from 'node:test';
import { needsRoot, temporaryFolder } from '../testing/folders.ts';
import { hostAbilities } from './probe.ts';

test('tells what this machine can do', { skip: needsRoot }, async () => {
  const { root, kernel, filesystems, canMount } = await hostAbilities();
  assert.deepEqual([root, canMount], [true, true]);
  assert.match(kernel, /^[0-9]+\./u);
  assert.ok(filesystems.includes('ext4'));
});

test('says in words what is missing, and how to get it', async (t) => {
  const folder = await temporaryFolder(t);
  const before = process.env['PATH'];
  process.env['PATH'] = folder;
  const { filesystems, missing, canMount } = await hostAbilities().finally(() => {
    process.env['PATH'] = before;
  });
  assert.deepEqual([filesystems, canMount], [[], false]);
  const all = missing.join('\n');
  assert.match(all, /no losetup, mount, umount, blkid on the PATH/u);
  assert.match(all, /no xfs volumes: mkfs.xfs, xfs_growfs not on the PATH; on Debian: apt-get install xfsprogs/u);
});
