// Files that are nearly all hole, and reads that bring less than a file has: what was not read is never taken for zeros.
import assert from 'node:assert/strict';
import { closeSync, openSync, readSync, statSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { isReason } from '../../model/errors.ts';
import { statOf } from '../../host/tree-calls.ts';
import { needsRoot, temporaryFilesystem, temporaryFolder } from '../../testing/folders.ts';
import { aTreeRig, fence } from '../../testing/trees.ts';
import { filled, readSmall, sumsOf } from './content.ts';
import { LARGEST_FILE, LARGEST_LEAF, leafOf } from './sums.ts';

const TIB = 2 ** 40;

/** A sparse file with `x` at some places. */
function sparse(path: string, size: number, at: readonly number[]): void {
  writeFileSync(path, '');
  truncateSync(path, size);
  const fd = openSync(path, 'r+');
  for (const offset of at) writeSync(fd, 'x', offset);
  closeSync(fd);
}

function byteAt(path: string, offset: number): string {
  const fd = openSync(path, 'r');
  const byte = Buffer.alloc(1);
  readSync(fd, byte, 0, 1, offset);
  closeSync(fd);
  return byte.toString();
}

test('no leaf is larger than what is read at once, whatever the size of a file', () => {
  for (const size of [0, 1, 2 ** 34, 2 ** 34 + 1, 2 ** 38 + 1, LARGEST_FILE, 70 * TIB, Number.MAX_SAFE_INTEGER])
    assert.ok(leafOf(size) <= LARGEST_LEAF, `${size} bytes`);
});

test('a sparse file of the largest size arrives with what it holds, and costs only that', { skip: needsRoot }, async (t) => {
  const source = (await temporaryFilesystem(t, { type: 'xfs', size: 400n << 20n })).path;
  const target = (await temporaryFilesystem(t, { type: 'xfs', size: 400n << 20n })).path;
  const rig = await aTreeRig(t, { source, target });
  const places = [0, 3 * TIB + 4097, LARGEST_FILE - 1];
  sparse(join(rig.from, 'sparse'), LARGEST_FILE, places);
  const first = await rig.pull({ round: 0 });
  assert.ok(first.dirty !== null && first.dirty < 2n ** 32n, `${first.dirty} bytes to be read again`);
  const fd = openSync(join(rig.from, 'sparse'), 'r+');
  writeSync(fd, 'x', 2 * TIB);
  closeSync(fd);
  fence(rig);
  await rig.pull({ round: 1, final: true });
  const there = join(rig.to, 'sparse');
  assert.equal(statSync(there).size, LARGEST_FILE);
  assert.deepEqual(
    [...places, 2 * TIB, TIB].map((at) => byteAt(there, at)),
    ['x', 'x', 'x', 'x', '\0'],
  );
});

test('a file beyond that is refused by name, whether anybody may write or not', { skip: needsRoot }, async (t) => {
  const source = (await temporaryFilesystem(t, { type: 'xfs', size: 400n << 20n })).path;
  const rig = await aTreeRig(t, { source, target: await temporaryFolder(t) });
  const refused = (error: unknown): boolean => isReason(error, 'Unsupported') && /"huge" has [0-9]+ bytes.*4 TiB/u.test(error.message);
  for (const size of [LARGEST_FILE + 1, 70 * TIB, 1024 * TIB]) {
    sparse(join(rig.from, 'huge'), size, [0]);
    await assert.rejects(rig.pull({ round: 0 }), refused);
  }
  fence(rig);
  await assert.rejects(rig.pull({ round: 0, final: true }), refused);
});

test('a read that brings nothing of a file that is as long as it was is an error, and no zeros', async () => {
  // The kernel says 4096 bytes of it, and gives fewer.
  const fd = openSync('/sys/kernel/mm/transparent_hugepage/enabled', 'r');
  try {
    const { size } = statOf(fd);
    const buffer = Buffer.alloc(size);
    for (const short of ['zeros', 'refuse'] as const) {
      assert.throws(() => readSmall(fd, size, short), /brought nothing at byte/u);
      await assert.rejects(filled(fd, { buffer, offset: 0, short }), /brought nothing at byte/u);
    }
  } finally {
    closeSync(fd);
  }
});

test('a file that became shorter is zeros where it ended, unless nobody may write it', async (t) => {
  const path = join(await temporaryFolder(t), 'file');
  writeFileSync(path, Buffer.alloc(100_000, 'x'));
  const fd = openSync(path, 'r');
  try {
    const rest = (await filled(fd, { buffer: Buffer.alloc(200_000), offset: 0, short: 'zeros' })).subarray(100_000);
    assert.ok(rest.equals(Buffer.alloc(100_000)));
    await assert.rejects(sumsOf(fd, { size: 200_000, short: 'refuse' }), /became shorter/u);
    truncateSync(path, 0);
    await assert.rejects(sumsOf(fd, { size: 200_000, short: 'refuse' }), /became shorter/u);
  } finally {
    closeSync(fd);
  }
});
