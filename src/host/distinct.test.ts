import assert from 'node:assert/strict';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { isReason } from '../model/errors.ts';
import { FILESYSTEMS } from '../model/volume.ts';
import { temporaryDevice } from '../testing/devices.ts';
import { needsRoot } from '../testing/folders.ts';
import { beDistinct } from './distinct.ts';
import { beFormatted } from './format.ts';
import { beAttached, beDetached } from './loop.ts';
import { beMounted, beUnmounted } from './mounts.ts';
import { run } from './run.ts';

const skip = needsRoot;
const MiB = 1n << 20n;

const uuidOf = async (device: string): Promise<string> =>
  (await run('blkid', ['-p', '-o', 'value', '-s', 'UUID', '--', device])).stdout.trim();

for (const filesystem of FILESYSTEMS)
  test(`N-01: a clone of a mounted ${filesystem} gets an identity of its own and mounts beside its source`, { skip }, async (t) => {
    const { device, file, folder } = await temporaryDevice(t, 320n * MiB);
    const [source, target] = [join(folder, 'source'), join(folder, 'clone')];
    await beFormatted(device, filesystem, false);
    await beMounted(device, source, filesystem, false);
    t.after(() => beUnmounted(source));
    await writeFile(join(source, 'kept'), 'here', { flush: true });
    const copy = join(folder, 'copy.img');
    await copyFile(file, copy);
    const { device: clone } = await beAttached(copy);
    t.after(() => beDetached(copy));
    await beDistinct(clone, filesystem);
    assert.notEqual(await uuidOf(clone), await uuidOf(device));
    const first = await uuidOf(clone);
    await beDistinct(clone, filesystem);
    assert.notEqual(await uuidOf(clone), first);
    await beMounted(clone, target, filesystem, false);
    t.after(() => beUnmounted(target));
    await assert.rejects(beDistinct(clone, filesystem), (error) => isReason(error, 'InUse'));
    assert.equal(await readFile(join(target, 'kept'), 'utf8'), 'here');
    await writeFile(join(target, 'own'), 'of the clone', { flush: true });
    await assert.rejects(readFile(join(source, 'own')), /ENOENT/u);
  });
