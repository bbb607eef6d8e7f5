// What the pools of a local cluster may still take, against what the disk of this machine has.
import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../../testing/folders.ts';
import { judged, roomFindings } from './room.ts';

const GIB = 2n ** 30n;
for (const [what, wanted, free, state] of [
  ['room for all', GIB, GIB, 'ok'],
  ['room for a part', 10n * GIB, 2n * GIB, 'note'],
  ['room for next to nothing', 30n * GIB, 2n * GIB, 'wrong'],
  ['no room', GIB, 0n, 'wrong'],
  ['nothing that may come', 0n, 0n, 'ok'],
] as const)
  test(`${what} is ${state}`, () => assert.equal(judged('/srv', wanted, free).state, state));

test('what a sparse file does not have on the disk yet is what it may still take', async (t) => {
  const folder = await temporaryFolder(t);
  const disk = join(folder, 'pool.xfs');
  await using file = await open(disk, 'w');
  await file.truncate(Number(15n << 40n));
  assert.deepEqual(roomFindings(folder, []), []);
  const [found] = roomFindings(folder, [disk, join(folder, 'not-there')]);
  assert.equal(found?.state, 'wrong');
  assert.match(found.text, /may still take 15.0 TiB, its filesystem has .* free: when that is full, writes to the volumes fail/u);
});
