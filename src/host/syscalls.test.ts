import assert from 'node:assert/strict';
import { once } from 'node:events';
import { open, readFile, writeFile } from 'node:fs/promises';
import { createServer, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { isReason } from '../model/errors.ts';
import { temporaryDevice } from '../testing/devices.ts';
import { needsRoot, temporaryFilesystem, temporaryFolder } from '../testing/folders.ts';
import { alignedBuffer, giveBack, isAligned } from './aligned.ts';
import { openDirect, readWhole, writeWhole } from './direct.ts';
import { dataRanges, mappedExtents } from './extents.ts';
import { beAbsent, tryLockFile, writeAtomically } from './files.ts';
import * as syscalls from './syscalls.ts';

const MiB = 1 << 20;

test('buffers for direct IO begin at a page, also small ones and those used again', () => {
  for (const size of [4096, 8192, MiB]) {
    const buffer = alignedBuffer(size);
    assert.equal(buffer.length, size);
    assert.ok(isAligned(buffer));
    giveBack(buffer);
    assert.equal(alignedBuffer(size), buffer);
  }
});

test('finds data and holes, and says when there is no more', async (t) => {
  const path = join(await temporaryFolder(t), 'f');
  await using file = await open(path, 'w+');
  await file.truncate(4 * MiB);
  await file.write(Buffer.alloc(65536, 1), 0, 65536, MiB);
  await file.sync();
  const found = [];
  for await (const range of dataRanges(file.fd, BigInt(4 * MiB))) found.push(range);
  assert.deepEqual(found, [{ offset: BigInt(MiB), length: 65536n }]);
  assert.equal(await syscalls.seek(file.fd, BigInt(2 * MiB), syscalls.SEEK_DATA), null);
});

test('a file of thousands of extents is told whole, page by page', async (t) => {
  const path = join(await temporaryFolder(t), 'f');
  await using file = await open(path, 'w+');
  const block = Buffer.alloc(4096, 1);
  const count = 1500;
  for (let index = 0; index < count; index += 1) await file.write(block, 0, 4096, index * 16384);
  let found = 0;
  for await (const page of mappedExtents(file.fd, count * 16384))
    for (const extent of page) {
      assert.equal(extent.logical, found * 16384);
      assert.equal(extent.length, 4096);
      found += 1;
    }
  assert.equal(found, count);
});

test('a failed call is a FlockError with the name of its cause', async (t) => {
  const path = join(await temporaryFolder(t), 'f');
  await using file = await open(path, 'w+');
  await assert.rejects(syscalls.fallocate(file.fd, 0, { offset: 0n, length: 0n }), /EINVAL/u);
  assert.throws(() => syscalls.deviceSize(file.fd), /ENOTTY/u);
  await using other = await open('/dev/null', 'r');
  await assert.rejects(syscalls.cloneFile(file.fd, other.fd), (error) => isReason(error, 'Unsupported', 'Internal'));
});

test('many calls at once each get their own error', async (t) => {
  const path = join(await temporaryFolder(t), 'f');
  await using file = await open(path, 'w+');
  const calls = Array.from({ length: 60 }, (_, index) => syscalls.fallocate(index % 2 ? 999_999 : file.fd, 0, { offset: 0n, length: 0n }));
  const answers = await Promise.allSettled(calls);
  answers.forEach((answer, index) => assert.match(String((answer as PromiseRejectedResult).reason), index % 2 ? /EBADF/u : /EINVAL/u));
});

test('a lock keeps others out until it is released, also when its file was removed meanwhile', async (t) => {
  const path = join(await temporaryFolder(t), 'lock');
  const first = await tryLockFile(path, 'exclusive');
  assert.ok(first);
  assert.equal(await tryLockFile(path, 'exclusive'), null);
  assert.equal(await tryLockFile(path, 'shared'), null);
  await beAbsent(path);
  const second = await tryLockFile(path, 'shared');
  const third = await tryLockFile(path, 'shared');
  assert.ok(second && third);
  assert.equal(await tryLockFile(path, 'exclusive'), null);
  await Promise.all([first.release(), second.release(), third.release()]);
  await (await tryLockFile(path, 'exclusive'))?.release();
});

test('a file is replaced whole, over a left-over of a crash too', async (t) => {
  const path = join(await temporaryFolder(t), 'f');
  await writeFile(`${path}.new`, 'half of a longer text');
  await writeAtomically(path, 'one');
  await writeAtomically(path, 'two');
  assert.equal(await readFile(path, 'utf8'), 'two');
});

test('direct IO writes and reads, and a read beyond the end is an error', async (t) => {
  const path = join(await temporaryFolder(t), 'f');
  await writeFile(path, Buffer.alloc(MiB));
  const { file, direct } = await openDirect(path, 'write');
  await using _ = file;
  assert.equal(typeof direct, 'boolean');
  const buffer = alignedBuffer(8192).fill(5);
  await writeWhole(file, buffer, 4096n);
  const back = alignedBuffer(8192).fill(0);
  await readWhole(file, back, 4096n);
  assert.ok(back.equals(buffer));
  await assert.rejects(readWhole(file, back, BigInt(MiB - 4096)), /the file ends after 4096/u);
});

test('a device tells its size and sectors, and is zeroed and discarded', { skip: needsRoot }, async (t) => {
  const { device } = await temporaryDevice(t, 16n << 20n);
  await using file = await open(device, 'r+');
  assert.equal(syscalls.deviceSize(file.fd), 16n << 20n);
  assert.equal(syscalls.sectorSize(file.fd), 4096);
  const range = { offset: 8n << 20n, length: 1n << 20n };
  await syscalls.clearDevice(file.fd, 'zero', range);
  await syscalls.clearDevice(file.fd, 'discard', range);
  await assert.rejects(syscalls.clearDevice(file.fd, 'zero', { offset: 1n, length: 1n }), /EINVAL/u);
});

test('the rate of a socket can be limited, changed and freed', async (t) => {
  const server = createServer((socket) => socket.resume());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address() as { port: number };
  const socket = connect(address.port, '127.0.0.1');
  t.after(() => {
    socket.destroy();
    server.close();
  });
  await once(socket, 'connect');
  const { fd } = (socket as Socket & { _handle: { fd: number } })._handle;
  for (const rate of [1_000_000, 50_000_000_000, 1, null]) syscalls.setPacing(fd, rate);
  assert.throws(() => syscalls.setPacing(999_999, 1), /EBADF/u);
});

test('a filesystem tells its UUID, the same for each file on it', { skip: needsRoot }, async (t) => {
  const one = await temporaryFilesystem(t, { type: 'ext4', size: 16n << 20n });
  const other = await temporaryFilesystem(t, { type: 'ext4', size: 16n << 20n });
  const uuids = [];
  for (const { path } of [one, one, other]) {
    await using folder = await open(path, 'r');
    uuids.push(syscalls.filesystemUuid(folder.fd));
  }
  assert.equal(uuids[0], uuids[1]);
  if (uuids[0] !== null) assert.notEqual(uuids[0], uuids[2]);
});
