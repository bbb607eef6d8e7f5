// What disks and the machine do to the engine: lost signatures, programs that fail or lie, holders in other mount namespaces, foreign files,
// disks that are not mounted or not the right ones, and disks that are full. Nothing is lost, nothing is made on a guess.
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdir, open, readdir, readFile, rm, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { mountOf, mountsAt } from '../host/mounts.ts';
import { run } from '../host/run.ts';
import { isReason, type Reason } from '../model/errors.ts';
import { copyName } from '../model/label.ts';
import { Moves } from '../model/move.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import { Volumes } from '../model/volume.ts';
import { hashOf, write } from '../testing/content.ts';
import { fakePrograms } from '../testing/devices.ts';
import { startEngine, type Engine } from '../testing/engine.ts';
import { needsRoot, type Test } from '../testing/folders.ts';

const MIB = 1 << 20;
const XFS = { type: 'xfs', size: 1n << 30n } as const;

const refusing =
  (reason: Reason, says: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(isReason(error, reason), String(error));
    assert.match(error.message, says);
    return true;
  };

async function imageOf(engine: Engine, volume: string): Promise<string> {
  const { metadata, spec } = await engine.client.get(Volumes, volume);
  return join(engine.pool(spec.node ?? ''), `${copyName({ volumeUid: metadata.uid, copy: spec.copy ?? '' })}.img`);
}

// ---- never format on a guess -----------------------------------------------------------------------------------------------------

/** Takes the first 128 KiB away, and what was there. */
async function withoutSuperblock(image: string): Promise<Buffer> {
  await using file = await open(image, 'r+');
  const kept = Buffer.alloc(128 << 10);
  await file.read(kept, 0, kept.length, 0);
  await file.write(Buffer.alloc(kept.length), 0, kept.length, 0);
  await file.sync();
  return kept;
}

for (const filesystem of ['ext4', 'xfs'] as const)
  test(
    `a formatted ${filesystem} without its superblock is refused, before and after a move, and never formatted`,
    { skip: needsRoot },
    async (t) => {
      const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: XFS });
      await engine.volume('db', { size: filesystem === 'xfs' ? '300Mi' : '16Mi', pool: 'local', node: 'node-1', filesystem });
      const path = await engine.mount('db');
      await write(join(path, 'content'), { length: MIB, seed: 4 });
      const hash = await hashOf(join(path, 'content'));
      await engine.unmount('db');
      const kept = await withoutSuperblock(await imageOf(engine, 'db'));
      const refused = refusing('Corrupt', /was formatted as \w+ by record, but nothing is found on it: it is not formatted again/u);
      await assert.rejects(engine.mount('db'), refused);
      await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
      await engine.untilPhase('db-1', 'Retaining');
      await assert.rejects(engine.mount('db'), refused);
      const image = await imageOf(engine, 'db');
      await using file = await open(image, 'r+');
      const now = Buffer.alloc(kept.length);
      await file.read(now, 0, now.length, 0);
      assert.ok(now.equals(Buffer.alloc(kept.length)), 'something was written to it');
      await file.write(kept, 0, kept.length, 0);
      await file.sync();
      await engine.mount('db');
      assert.equal(await hashOf(join(path, 'content')), hash);
      await engine.endsClean();
    },
  );

// ---- programs that fail or lie -----------------------------------------------------------------------------------------------------

const FAILING: { program: string; script: string }[] = ['losetup', 'blkid', 'mkfs.ext4', 'mount'].flatMap((program) => [
  { program, script: 'echo broken >&2; exit 1' },
  { program, script: 'exit 0' },
]);

test(
  'a program that fails, or says that it did what it did not, fails the publish and leaves nothing half done',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, { nodes: ['node-1'] });
    for (const [index, { program, script }] of FAILING.entries())
      await t.test(`${program}: ${script}`, async () => {
        const name = `v${index}`;
        await engine.volume(name, { size: '16Mi', pool: 'local' });
        const target = join(engine.folder, `at-${name}`);
        const restore = await fakePrograms(t, { [program]: script });
        await assert.rejects(
          engine.mount(name),
          (error: Error) => error.message.includes(program) || error.message.includes('/dev/loop') || error.message.includes('.img'),
        );
        restore();
        assert.deepEqual(await mountsAt(target), []);
        const { status } = await engine.until(Volumes, name, (volume) => volume.status?.phase === 'Available');
        assert.deepEqual(
          Object.values(status?.copies ?? {}).map(({ published }) => published),
          [[]],
        );
        await engine.mount(name);
        await writeFile(join(target, 'works'), 'now');
        await engine.unmount(name);
      });
    await t.test('umount that fails leaves the volume in use', async () => {
      await engine.volume('last', { size: '16Mi', pool: 'local' });
      const path = await engine.mount('last');
      const restore = await fakePrograms(t, { umount: 'echo broken >&2; exit 1' });
      await assert.rejects(engine.unmount('last'), /umount/u);
      restore();
      assert.equal((await mountsAt(path)).length, 1);
      assert.equal((await engine.until(Volumes, 'last', ({ status }) => status?.phase === 'Published')).status?.phase, 'Published');
    });
    await engine.endsClean();
  },
);

// ---- removal ---------------------------------------------------------------------------------------------------------------------

test(
  'a copy that cannot be removed keeps its record, and goes when it can; foreign files are listed and never touched',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: XFS });
    const foreign = ['pvc-8d1f.img', 'notes.txt', '11111111-2222-4333-8444-555555555555-abc.img'];
    for (const name of foreign) await writeFile(join(engine.pool('node-1'), name), `${name} is not ours`);
    await mkdir(join(engine.pool('node-1'), 'folder'));
    await engine.until(StorageNodes, 'node-1', ({ status }) => status?.pools?.['local']?.foreign?.length === 4);
    await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1' });
    const image = await imageOf(engine, 'db');
    await run('chattr', ['+i', image]);
    t.after(async () => void (await run('chattr', ['-i', image], { allow: [1] })));
    await engine.client.delete(Volumes, 'db');
    const stays = await engine.until(Volumes, 'db', ({ status }) => status?.obstacle !== undefined);
    assert.equal(stays.status?.phase, 'Deleting');
    assert.deepEqual(stays.metadata.finalizers, ['flock.dev/copies']);
    assert.match(stays.status?.obstacle?.message ?? '', /\.img/u);
    await run('chattr', ['-i', image]);
    await engine.untilGone(Volumes, 'db');
    assert.deepEqual((await engine.pools('node-1'))['local']?.foreign?.toSorted(), [...foreign, 'folder'].toSorted());
    for (const name of foreign) assert.equal(await readFile(join(engine.pool('node-1'), name), 'utf8'), `${name} is not ours`);
    await engine.endsClean([...foreign, 'folder']);
  },
);

/** Of the mounts of tests that run beside this one none may live on in the namespace: they would find their devices busy. */
const LET_GO_OF_OTHERS = `cut -d' ' -f5 /proc/self/mountinfo | grep -F /flock- | sort -r | while read -r m; do case "$m" in "$0"*) ;; *) umount -l "$m" ;; esac; done`;

/** A process in a mount namespace of its own, in which what is mounted in `folder` now stays so. */
async function inOwnNamespace(t: Test, folder: string): Promise<ChildProcess> {
  const child = spawn(
    'unshare',
    ['--mount', '--propagation', 'private', 'sh', '-c', `${LET_GO_OF_OTHERS}; echo ready; exec sleep 300`, folder],
    {
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  );
  t.after(async () => void child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  return child;
}

test(
  'a mount that lives on in another namespace is named, keeps the volume from moving and from being removed, until it ends',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: XFS });
    await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1' });
    const path = await engine.mount('db');
    const holder = await inOwnNamespace(t, engine.folder);
    const says = new RegExp(`mounted at .*at-db for process ${holder.pid} \\((sleep|sh|unshare)\\)`, 'u');
    await assert.rejects(engine.unmount('db'), refusing('InUse', says));
    assert.deepEqual(await mountsAt(path), []);
    await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
    const waiting = await engine.untilBlocked('db-1', 'InUse');
    assert.match(waiting.status?.obstacle?.message ?? '', says);
    assert.equal(waiting.status?.phase, 'Fencing');
    await engine.client.delete(Volumes, 'db');
    const stays = await engine.until(Volumes, 'db', ({ status }) => status?.phase === 'Deleting' && status.obstacle?.reason === 'InUse');
    assert.match(stays.status?.obstacle?.message ?? '', says);
    assert.equal((await readdir(engine.pool('node-1'))).filter((name) => name.endsWith('.img')).length, 1);
    holder.kill('SIGKILL');
    await once(holder, 'exit');
    await engine.untilGone(Volumes, 'db');
    await engine.endsClean();
  },
);

test('a volume that is deleted while its old copy is kept goes with both copies, and the room is back', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: XFS });
  await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1', volumeMode: 'Block', retainSource: '24h' });
  await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
  await engine.untilPhase('db-1', 'Retaining');
  const isBooked = (bytes: number) => (node: StorageNode) => node.status?.pools?.['local']?.booked === String(bytes);
  for (const node of ['node-1', 'node-2']) await engine.until(StorageNodes, node, isBooked(16 * MIB));
  await engine.client.delete(Volumes, 'db');
  await engine.untilGone(Volumes, 'db');
  await engine.untilPhase('db-1', 'Done');
  for (const node of ['node-1', 'node-2']) await engine.until(StorageNodes, node, isBooked(0));
  await engine.endsClean();
});

// ---- the previous tenant ---------------------------------------------------------------------------------------------------------

async function holdsPattern(path: string): Promise<boolean> {
  return (await readFile(path)).includes(Buffer.from('secret of the previous tenant'));
}

test('what a previous tenant wrote is in no new block volume, and not on the target of a move', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: { type: 'ext4', size: 64n << 20n } });
  const spec = { size: '32Mi', pool: 'local', volumeMode: 'Block' } as const;
  for (const node of ['node-1', 'node-2']) {
    await engine.volume('old', { ...spec, node });
    const device = await engine.mount('old');
    await using file = await open(device, 'r+');
    await file.write(Buffer.alloc(32 * MIB, 'secret of the previous tenant '), 0, 32 * MIB, 0);
    await file.sync();
    assert.ok(await holdsPattern(device));
    await file.close();
    await engine.unmount('old');
    await engine.client.delete(Volumes, 'old');
    await engine.untilGone(Volumes, 'old');
  }
  await engine.volume('new', { ...spec, node: 'node-1' });
  const device = await engine.mount('new');
  assert.ok(!(await holdsPattern(device)));
  await write(device, { offset: 8 * MIB, length: MIB, seed: 9 });
  const hash = await hashOf(device);
  await engine.unmount('new');
  await engine.createMove('new-1', { volume: 'new', target: 'node-2' });
  await engine.untilPhase('new-1', 'Retaining');
  await engine.mount('new');
  assert.ok(!(await holdsPattern(device)));
  assert.equal(await hashOf(device), hash);
  await engine.endsClean();
});

// ---- disks that are not there, or not the right ones -------------------------------------------------------------------------------

test(
  'a pool whose disk is not mounted after a reboot is refused and never made anew, and comes back with its disk',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, { nodes: ['node-1'], filesystem: XFS });
    await engine.volume('db', { size: '16Mi', pool: 'local' });
    const path = await engine.mount('db');
    await write(join(path, 'content'), { length: MIB, seed: 2 });
    const hash = await hashOf(join(path, 'content'));
    await engine.unmount('db');
    await engine.stopAgent('node-1');
    const { source, target } = await mountOf(engine.pool('node-1'));
    await run('umount', [target]);
    // Makes the empty folder on the disk below, as a careless boot would.
    await engine.startAgent('node-1');
    const lost = await engine.until(Volumes, 'db', ({ status }) => status?.phase === 'Blocked');
    assert.match(
      lost.status?.obstacle?.message ?? '',
      /has no \.flock-pool\.json: this folder on .* is not the pool\. Is its filesystem mounted\?/u,
    );
    await assert.rejects(engine.mount('db'), /is not the pool|no copy/u);
    await engine.createVolume('other', { size: '16Mi', pool: 'local' });
    const waits = await engine.until(Volumes, 'other', ({ status }) => status?.obstacle !== undefined);
    assert.match(waits.status?.obstacle?.message ?? '', /pool local of node node-1: .*Is its filesystem mounted\?/u);
    assert.deepEqual(await readdir(engine.pool('node-1')), []);
    await rm(engine.pool('node-1'), { recursive: true });
    await run('mount', ['-t', 'xfs', source, target]);
    await engine.until(Volumes, 'db', ({ status }) => status?.phase === 'Available');
    await engine.until(Volumes, 'other', ({ status }) => status?.phase === 'Available');
    await engine.mount('db');
    assert.equal(await hashOf(join(path, 'content')), hash);
    await engine.endsClean();
  },
);

test(
  'another disk that is mounted over the pool while the agent runs gets not a byte, even with the marker copied onto it',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, { nodes: ['node-1'], filesystem: XFS });
    await engine.volume('db', { size: '16Mi', pool: 'local' });
    const marker = join(engine.pool('node-1'), '.flock-pool.json');
    const kept = join(engine.folder, 'marker');
    await copyFile(marker, kept);
    await run('mount', ['-t', 'tmpfs', 'other', engine.disk('node-1')]);
    t.after(async () => void (await run('umount', [engine.disk('node-1')], { allow: [1, 32] })));
    await mkdir(engine.pool('node-1'));
    const lost = await engine.until(Volumes, 'db', ({ status }) => status?.phase === 'Blocked');
    assert.match(lost.status?.obstacle?.message ?? '', /is not the pool/u);
    await copyFile(kept, marker);
    await engine.until(
      Volumes,
      'db',
      ({ status }) => status?.obstacle?.message.includes('lies on another filesystem than that pool was made on') === true,
    );
    await assert.rejects(engine.mount('db'));
    await engine.createVolume('other', { size: '16Mi', pool: 'local' });
    await engine.until(Volumes, 'other', ({ status }) => status?.obstacle !== undefined);
    assert.deepEqual(await readdir(engine.pool('node-1')), ['.flock-pool.json']);
    await run('umount', [engine.disk('node-1')]);
    await engine.until(Volumes, 'db', ({ status }) => status?.phase === 'Available');
    await engine.until(Volumes, 'other', ({ status }) => status?.phase === 'Available');
    await engine.mount('db');
    await engine.endsClean();
  },
);

// ---- room ------------------------------------------------------------------------------------------------------------------------

/** Takes all room of the disk but about `left` bytes, outside of the pool. */
async function fill(disk: string, left: bigint): Promise<string> {
  const { bavail, bsize } = await statfs(disk, { bigint: true });
  const filler = join(disk, 'somebody-else');
  await run('fallocate', ['--length', String(bavail * bsize - left), filler]);
  return filler;
}

/** Takes what is left, piece by piece, until nothing is. */
async function fillUp(disk: string): Promise<string> {
  const filler = await fill(disk, 16n << 20n);
  await using file = await open(filler, 'a');
  const piece = Buffer.alloc(64 << 10);
  const written = async (): Promise<boolean> =>
    file
      .appendFile(piece)
      .then(() => file.sync())
      .then(
        () => true,
        () => false,
      );
  while (await written());
  return filler;
}

test('a move to a full node waits before it makes anything, and goes on when room is made', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: { type: 'ext4', size: 128n << 20n } });
  await engine.volume('db', { size: '32Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
  const device = await engine.mount('db');
  await write(device, { length: 2 * MIB, seed: 6 });
  const hash = await hashOf(device);
  await engine.unmount('db');
  const filler = await fill(engine.disk('node-2'), 8n << 20n);
  await engine.stopAgent('node-2');
  await engine.startAgent('node-2');
  await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
  const { status } = await engine.untilBlocked('db-1', 'NoSpace');
  assert.equal(status?.phase, 'Pending');
  assert.match(status?.obstacle?.message ?? '', /pool local of node node-2 has room for .*, 32\.0 MiB are needed/u);
  assert.equal(await hashOf(await engine.mount('db')), hash);
  await engine.unmount('db');
  await rm(filler);
  await engine.untilPhase('db-1', 'Retaining');
  assert.equal(await hashOf(await engine.mount('db')), hash);
  await engine.endsClean();
});

test(
  'room that somebody else takes between the look and the reservation blocks the move until it is back',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: { type: 'ext4', size: 128n << 20n } });
    await engine.volume('db', { size: '32Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
    engine.held.add('order');
    await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
    await engine.untilPhase('db-1', 'Reserving');
    const filler = await fill(engine.disk('node-2'), 8n << 20n);
    await engine.letGo();
    const { status } = await engine.untilBlocked('db-1', 'NoSpace');
    assert.equal(status?.phase, 'Reserving');
    assert.match(status?.obstacle?.message ?? '', /pool local has room for .* and 32\.0 MiB are asked/u);
    await engine.mount('db');
    await engine.unmount('db');
    await rm(filler);
    await engine.untilPhase('db-1', 'Retaining');
    await engine.endsClean();
  },
);

test(
  'a thin target that somebody else fills during the copy blocks the move; the source stays in use, and it goes on when room is made',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, {
      nodes: ['node-1', 'node-2'],
      filesystem: { type: 'xfs', size: 400n << 20n },
      pool: { overcommit: 2, reserve: '1Mi' },
    });
    await engine.volume('db', { size: '48Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
    const device = await engine.mount('db');
    await write(device, { length: 48 * MIB, seed: 6 });
    const hash = await hashOf(device);
    await engine.createMove('db-1', { volume: 'db', target: 'node-2', bandwidth: '8Mi' });
    await engine.until(Moves, 'db-1', ({ status }) => Number(status?.incoming?.bytesDone ?? 0) > 4 * MIB);
    const filler = await fillUp(engine.disk('node-2'));
    const { status } = await engine.untilBlocked('db-1', 'NoSpace');
    assert.equal(status?.phase, 'Syncing');
    assert.equal(await hashOf(device), hash);
    await rm(filler);
    await engine.client.patch(Moves, 'db-1', { spec: { bandwidth: '0' } });
    await engine.untilBlocked('db-1', 'WaitingForUnpublish');
    await engine.unmount('db');
    const moved = await engine.untilPhase('db-1', 'Retaining');
    assert.ok(Number(moved.status?.incoming?.bytesSent) < 1.2 * 48 * MIB, moved.status?.incoming?.bytesSent);
    assert.equal(await hashOf(await engine.mount('db')), hash);
    await engine.endsClean();
  },
);
