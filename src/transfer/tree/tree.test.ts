import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
  closeSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FORMATS, makeNodeAt, O_PATH, openAt, setAttributeOf, setModifiedAt, withOpen } from '../../host/tree-calls.ts';
import { run } from '../../host/run.ts';
import { needsRoot, temporaryFilesystem } from '../../testing/folders.ts';
import { pseudoRandom } from '../../testing/transfer-rig.ts';
import { aTreeRig, fence, toldTree, type TreeRig } from '../../testing/trees.ts';

const MIB = 1024 * 1024;

function bytes(length: number, seed: number): Buffer {
  const buffer = Buffer.alloc(Math.ceil(length / 4) * 4);
  pseudoRandom(buffer, seed);
  return buffer.subarray(0, length);
}

/** One of everything. */
function plant(root: string): void {
  const at = (name: string): string => join(root, name);
  const raw = (name: Buffer): Buffer => Buffer.concat([Buffer.from(`${root}/`), name]);
  mkdirSync(at('a/b/c'), { recursive: true });
  for (let index = 0; index < 40; index += 1) writeFileSync(at(`a/small-${index}`), bytes(index * 37, index));
  writeFileSync(at('a/b/large'), bytes(3 * MIB + 17, 7));
  writeFileSync(at('a/b/exact'), bytes(65536, 8));
  writeFileSync(at('a/b/zeros'), Buffer.alloc(200_000));
  writeFileSync(at('a/b/c/empty'), '');
  writeFileSync(at('a.b'), 'sorts between');
  writeFileSync(at('sparse'), 'begin');
  truncateSync(at('sparse'), 20 * MIB);
  const fd = openSync(at('sparse'), 'r+');
  writeSync(fd, 'middle', 9 * MIB + 5);
  closeSync(fd);
  symlinkSync('/etc/passwd', at('absolute'));
  symlinkSync('nowhere/at all', at('dangling'));
  symlinkSync(Buffer.from([0x2e, 0xff, 0x0a]), at('odd link'));
  linkSync(at('a/b/large'), at('a/second name'));
  linkSync(at('a/b/large'), at('zz third name'));
  // A link itself may have several names too.
  linkSync(at('dangling'), at('a/dangling as well'));
  writeFileSync(raw(Buffer.from([0xff, 0x0a, 0x80])), 'no text');
  writeFileSync(raw(Buffer.alloc(255, 'n')), 'long');
  chmodSync(at('a/small-1'), 0o4750);
  chownSync(at('a/small-1'), 999, 998);
  chmodSync(at('a/small-1'), 0o4750);
  chownSync(at('a/b'), 12345, 54321);
  chmodSync(at('a/b/c'), 0o1777);
  utimesSync(at('a/small-2'), 1, 1);
  const dir = openSync(root, 'r');
  makeNodeAt(dir, 'fifo', { format: FORMATS.fifo, rdev: { major: 0, minor: 0 } });
  makeNodeAt(dir, 'socket', { format: FORMATS.socket, rdev: { major: 0, minor: 0 } });
  makeNodeAt(dir, 'device', { format: FORMATS.char, rdev: { major: 1, minor: 3 } });
  makeNodeAt(dir, 'disk', { format: FORMATS.block, rdev: { major: 7, minor: 70_000 } });
  setModifiedAt(dir, 'dangling', { s: -1_000_000, ns: 123_456_789 });
  for (const [name, attribute, value] of [
    ['a.b', 'user.comment', Buffer.from([0, 1, 2])],
    ['a.b', 'trusted.mine', Buffer.alloc(0)],
    // An ACL: owner rw, user 77 r, group r, mask r, others nothing.
    [
      'sparse',
      'system.posix_acl_access',
      Buffer.from('0200000001000600ffffffff020004004d00000004000400ffffffff10000400ffffffff20000000ffffffff', 'hex'),
    ],
    [
      'a',
      'system.posix_acl_default',
      Buffer.from('0200000001000700ffffffff020005004d00000004000500ffffffff10000500ffffffff20000000ffffffff', 'hex'),
    ],
    ['a.b', 'security.capability', Buffer.from('0100000200040000000000000000000000000000', 'hex')],
    ['absolute', 'trusted.of a link', Buffer.from('x')],
  ] as const)
    withOpen(openAt(dir, name, O_PATH), (opened) => setAttributeOf(opened, attribute, value));
  closeSync(dir);
}

async function isSame(rig: TreeRig): Promise<void> {
  assert.deepEqual(toldTree(rig.to), toldTree(rig.from));
}

for (const type of ['xfs', 'btrfs', 'ext4'] as const)
  test(`everything that a tree can hold arrives as it was, from ${type} to ext4`, { skip: needsRoot }, async (t) => {
    const source = (await temporaryFilesystem(t, { type, size: BigInt(400 * MIB) })).path;
    const target = (await temporaryFilesystem(t, { type: 'ext4', size: BigInt(400 * MIB) })).path;
    const rig = await aTreeRig(t, { source, target });
    plant(rig.from);
    fence(rig);
    const report = await rig.pull({ final: true });
    await isSame(rig);
    assert.equal(report.verified?.root, report.root);
    assert.ok(lstatSync(join(rig.to, 'sparse')).blocks * 512 < MIB, 'holes are holes');
    assert.ok(lstatSync(join(rig.to, 'a/b/zeros')).blocks * 512 < MIB);
  });

test('rounds send what changed and nothing else, and the last one proves all of it', { skip: needsRoot }, async (t) => {
  const rig = await aTreeRig(t);
  plant(rig.from);
  writeFileSync(join(rig.from, 'huge'), bytes(64 * MIB, 3));
  const first = await rig.pull({ round: 0 });
  await isSame(rig);
  assert.ok(first.bytesSent > BigInt(64 * MIB));
  const fd = openSync(join(rig.from, 'huge'), 'r+');
  for (const at of [5, 30, 31]) writeSync(fd, bytes(100, at), 0, 100, at * MIB);
  closeSync(fd);
  writeFileSync(join(rig.from, 'huge'), 'appended', { flag: 'a' });
  rmSync(join(rig.from, 'a/small-3'));
  rmSync(join(rig.from, 'absolute'));
  mkdirSync(join(rig.from, 'absolute/now/a directory'), { recursive: true });
  rmSync(join(rig.from, 'a/b/c'), { recursive: true });
  writeFileSync(join(rig.from, 'a/b/c'), 'a file now');
  rmSync(join(rig.from, 'zz third name'));
  writeFileSync(join(rig.from, 'zz third name'), 'on its own');
  const second = await rig.pull({ round: 1 });
  await isSame(rig);
  assert.ok(second.bytesSent < BigInt(MIB), `${second.bytesSent} bytes`);
  assert.equal(second.root, null, 'nothing is concluded while somebody may write');
  chmodSync(join(rig.from, 'huge'), 0o600);
  fence(rig);
  const last = await rig.pull({ round: 2, final: true });
  await isSame(rig);
  assert.ok(last.bytesSent < BigInt(200_000), `${last.bytesSent} bytes`);
  assert.match(last.verified?.root ?? '', /^[0-9a-f]{64}$/u);
  assert.deepEqual(await rig.pull({ round: 2, final: true }), last, 'a round that is complete is reported again');
});

test('a file that got smaller, larger and holed ends as it is', { skip: needsRoot }, async (t) => {
  const rig = await aTreeRig(t);
  const file = join(rig.from, 'file');
  writeFileSync(file, bytes(5 * MIB, 1));
  await rig.pull({ round: 0 });
  truncateSync(file, 100_001);
  await rig.pull({ round: 1 });
  await isSame(rig);
  truncateSync(file, 7 * MIB);
  await rig.pull({ round: 2 });
  await isSame(rig);
  await run('fallocate', ['--punch-hole', '--offset', '0', '--length', '65536', file]);
  await rig.pull({ round: 3 });
  await isSame(rig);
  assert.ok(statSync(join(rig.to, 'file')).blocks * 512 <= 65536, 'of two leaves one is a hole');
});

test('a link out of the volume is never followed: what it leads to is neither read nor written', { skip: needsRoot }, async (t) => {
  const rig = await aTreeRig(t);
  const outside = join(rig.from, '..', 'outside');
  mkdirSync(outside);
  writeFileSync(join(outside, 'secret'), 'secret');
  mkdirSync(join(rig.from, 'dir'));
  writeFileSync(join(rig.from, 'dir/file'), 'ours');
  await rig.pull({ round: 0 });
  // The target's own directory was swapped for a link, which no application of ours does.
  rmSync(join(rig.to, 'dir'), { recursive: true });
  symlinkSync(outside, join(rig.to, 'dir'));
  writeFileSync(join(rig.from, 'dir/secret'), 'overwritten');
  await rig.pull({ round: 1 });
  await isSame(rig);
  rmSync(join(rig.from, 'dir'), { recursive: true });
  symlinkSync(outside, join(rig.from, 'dir'));
  fence(rig);
  await rig.pull({ round: 2, final: true });
  await isSame(rig);
  assert.ok(existsSync(join(outside, 'secret')));
  assert.equal((await run('cat', [join(outside, 'secret')])).stdout, 'secret');
});

test('another filesystem mounted within the volume is told, and not carried', { skip: needsRoot }, async (t) => {
  const rig = await aTreeRig(t);
  const { path } = await temporaryFilesystem(t, { type: 'ext4', size: BigInt(64 * MIB) });
  mkdirSync(join(rig.from, 'mounted here'));
  await run('mount', ['--bind', path, join(rig.from, 'mounted here')]);
  await assert.rejects(rig.pull({ round: 0 }), /"mounted here" is another filesystem/u);
  await run('umount', [join(rig.from, 'mounted here')]);
});
