// Where volumes may be mounted, on real disks: one path for one volume, one way of use at a time, and no path that leads elsewhere.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, stat, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { loopDevices } from '../host/loop.ts';
import { beMounted, beUnmounted, mountsAt } from '../host/mounts.ts';
import { run } from '../host/run.ts';
import { systemClock } from '../model/clock.ts';
import { FlockError } from '../model/errors.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import { BentClient } from '../testing/bent-client.ts';
import { flockctl } from '../testing/cli.ts';
import { startEngine, type Engine } from '../testing/engine.ts';
import { needsRoot, type Test } from '../testing/folders.ts';
import { recordFindings } from './doctor.ts';

const POOL = { nodes: ['node-1'], filesystem: { type: 'xfs', size: 2n ** 30n } } as const;

test('two volumes that are to be at one path at once: one gets it, the other is told who has it', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, POOL);
  for (const name of ['one', 'two']) await engine.volume(name, { size: '32Mi', pool: 'local', node: 'node-1', filesystem: 'ext4' });
  const agent = await engine.agent('node-1');
  const target = join(engine.folder, 'target');
  for (let round = 0; round < 5; round += 1) {
    const tried = await Promise.allSettled(['one', 'two'].map((volume) => agent.publish({ volume, target })));
    assert.deepEqual(tried.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
    assert.equal((await mountsAt(target)).length, 1);
    for (const volume of ['one', 'two']) await agent.unpublish({ volume });
    assert.equal((await mountsAt(target)).length, 0);
  }
});

test(
  'a volume that is mounted one way is not mounted another way beside it, and nothing is left of the attempt',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, POOL);
    await engine.volume('db', { size: '32Mi', pool: 'local', node: 'node-1', filesystem: 'ext4' });
    await engine.volume('raw', { size: '16Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
    const agent = await engine.agent('node-1');
    const [first, second] = [join(engine.folder, 'first'), join(engine.folder, 'second')];
    for (const readOnly of [true, false]) {
      await agent.publish({ volume: 'db', target: first, readOnly });
      await assert.rejects(agent.publish({ volume: 'db', target: second, readOnly: !readOnly }), {
        reason: 'InUse',
        message: new RegExp(`mounted ${readOnly ? 'read-only' : 'writable'} at ${first}; unmount it there first`, 'u'),
      });
      assert.equal((await mountsAt(second)).length, 0);
      await agent.unpublish({ volume: 'db' });
    }
    await assert.rejects(agent.publish({ volume: 'raw', target: second, readOnly: true }), { reason: 'Unsupported' });
  },
);

test(
  'a mount point that is a link, or can never be, is refused at once; its folder is called by its real name',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, POOL);
    await engine.volume('db', { size: '32Mi', pool: 'local', node: 'node-1', filesystem: 'ext4' });
    const agent = await engine.agent('node-1');
    const real = join(engine.folder, 'real');
    await mkdir(real);
    await symlink(real, join(engine.folder, 'link'));
    await assert.rejects(agent.publish({ volume: 'db', target: join(engine.folder, 'link') }), {
      reason: 'Invalid',
      message: /is a symbolic link/u,
    });
    await assert.rejects(agent.publish({ volume: 'db', target: '/proc/self/ns/x' }), {
      reason: 'Invalid',
      message: /no folder can be made/u,
    });
    const { target } = await agent.publish({ volume: 'db', target: join(engine.folder, 'link', 'db') });
    assert.equal(target, join(real, 'db'));
    await agent.unpublish({ volume: 'db', target: join(engine.folder, 'link', 'db') });
    assert.equal((await mountsAt(target)).length, 0);
  },
);

const publishedAt = ({ spec, status }: Volume): string[] | undefined => status?.copies?.[spec.copy ?? '']?.published;
const publishedNow = async (engine: Engine): Promise<string[] | undefined> => publishedAt(await engine.client.get(Volumes, 'db'));
const devicesOf = async (engine: Engine): Promise<string[]> =>
  (await loopDevices()).filter(({ file }) => file.startsWith(engine.pool('node-1'))).map(({ device }) => device);

test('once a mount or unmount returns, the record says so', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, POOL);
  await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1', filesystem: 'ext4' });
  for (let round = 0; round < 3; round += 1) {
    const path = await engine.mount('db');
    assert.deepEqual(await publishedNow(engine), [path]);
    await engine.unmount('db');
    assert.deepEqual(await publishedNow(engine), []);
  }
});

test('an unmount returns also when its record cannot be written, which follows later', { skip: needsRoot }, async (t) => {
  let isAway = false;
  const beforePatch = (): void => {
    if (isAway) throw new FlockError('Unavailable', 'the server is away');
  };
  const engine = await startEngine(t, { ...POOL, agent: (_node, client) => ({ client: new BentClient(client, { beforePatch }) }) });
  await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1', filesystem: 'ext4' });
  const path = await engine.mount('db');
  isAway = true;
  await engine.unmount('db');
  assert.deepEqual(await publishedNow(engine), [path]);
  isAway = false;
  await engine.until(Volumes, 'db', (volume) => publishedAt(volume)?.length === 0);
});

test('a volume that a person unmounted without a word is free again, and an event says so', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { ...POOL, nodes: ['node-1', 'node-2'] });
  await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1', filesystem: 'ext4' });
  const path = await engine.mount('db');
  await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
  await engine.untilBlocked('db-1', 'WaitingForUnpublish');
  await run('umount', [path]);
  await engine.untilPhase('db-1', 'Retaining');
  await engine.untilTold(
    'db',
    ({ reason, message }) => reason === 'UnmountedByOthers' && message.includes(`not mounted at ${path} on node node-1`),
  );
  assert.equal(await engine.mount('db'), path);
  await engine.endsClean();
});

/** A program with its working folder there. */
async function userOf(t: Test, path: string): Promise<{ pid: number | undefined; end: () => Promise<void> }> {
  const child = spawn('sh', ['-c', 'echo ready; read wait'], { cwd: path, stdio: ['pipe', 'pipe', 'inherit'] });
  const end = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, 'exit');
    child.kill('SIGKILL');
    await exit;
  };
  t.after(end);
  await once(child.stdout, 'data');
  return { pid: child.pid, end };
}

/** The agent looked again at what is mounted. */
async function looked(engine: Engine): Promise<void> {
  const looks = (): number => engine.log.lines.filter(({ message }) => message.includes('is still in use')).length;
  const before = looks();
  while (looks() < before + 2) await new Promise((resolve) => setTimeout(resolve, 50));
}

test('a volume that was unmounted lazily stays in use as long as somebody uses it, and he is named', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, POOL);
  await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1', filesystem: 'ext4' });
  const path = await engine.mount('db');
  const first = await userOf(t, path);
  await run('umount', ['--lazy', path]);
  await looked(engine);
  assert.deepEqual(await publishedNow(engine), [path]);
  await first.end();
  await engine.until(Volumes, 'db', (volume) => publishedAt(volume)?.length === 0);
  await engine.mount('db');
  const second = await userOf(t, path);
  await run('umount', ['--lazy', path]);
  await assert.rejects(engine.unmount('db'), {
    reason: 'InUse',
    message: new RegExp(`its filesystem is not mounted any more, but still used by process ${second.pid} \\(sh\\)`, 'u'),
  });
  assert.equal((await devicesOf(engine)).length, 1);
  await second.end();
  await engine.endsClean();
});

test('a mount that was moved elsewhere keeps the volume in use', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, POOL);
  await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1', filesystem: 'ext4' });
  const path = await engine.mount('db');
  const elsewhere = join(engine.folder, 'elsewhere');
  const [device = ''] = await devicesOf(engine);
  await beMounted(device, elsewhere, 'ext4', false);
  await run('umount', [path]);
  await looked(engine);
  assert.deepEqual(await publishedNow(engine), [path]);
  await beUnmounted(elsewhere);
  await engine.until(Volumes, 'db', (volume) => publishedAt(volume)?.length === 0);
  await engine.endsClean();
});

test('flockctl that reaches the agent of another node by an equal path is refused, and nothing is done', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { ...POOL, nodes: ['node-1', 'node-2'] });
  await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1', filesystem: 'ext4' });
  const path = await engine.mount('db');
  const socket = join(engine.folder, 'node-2', 'agent.sock');
  const read = (kind: { kind: string }, object: object): never =>
    (kind.kind === 'StorageNode' ? { ...object, status: { ...(object as { status?: object }).status, socket } } : object) as never;
  const client = new BentClient(engine.client, { read });
  const other = join(engine.folder, 'other');
  for (const words of [
    ['unmount', 'db'],
    ['mount', 'db', other],
  ]) {
    const { code, err } = await flockctl(['volume', ...words], { client });
    assert.equal(code, 4);
    assert.match(
      err,
      /this machine is node node-2, and volume db is on node node-1: nothing was done. Run .* on the machine of node node-1/u,
    );
  }
  await assert.rejects(stat(other), { code: 'ENOENT' });
  assert.equal((await mountsAt(path)).length, 1);
});

test(
  'a copy whose record is gone is reported by its node, and doctor and node show name it with the way out',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, POOL);
    const { metadata, spec } = await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1', filesystem: 'ext4' });
    const name = `${metadata.uid}-${spec.copy}`;
    await engine.client.patch(Volumes, 'db', { metadata: { finalizers: [] } });
    await engine.client.delete(Volumes, 'db');
    const orphaned = (at: object | undefined) => at !== undefined;
    const { status } = await engine.until(StorageNodes, 'node-1', (node) => orphaned(node.status?.pools?.['local']?.orphaned));
    assert.deepEqual(status?.pools?.['local']?.orphaned, { [name]: 'db' });
    const shown = await flockctl(['node', 'show', 'node-1'], { client: engine.client });
    assert.match(shown.out, new RegExp(`Copies without a volume.*\n +local: ${name} \\(of db\\)`, 'u'));
    const found = (await recordFindings(engine.client, systemClock)).find(({ text }) => text.includes('without a volume'));
    assert.equal(found?.state, 'note');
    assert.match(
      found.text,
      /^pool local of node node-1 holds 1 copy without a volume \(of db\).*flockctl node show node-1.*restore .* or remove/u,
    );
  },
);

test('an agent that cannot open its socket ends, and its node is not taken for alive', async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1'] });
  await engine.stopAgent('node-1');
  await assert.rejects(engine.startAgent('node-1', { socket: `/tmp/${'x'.repeat(200)}` }), /EINVAL|ENAMETOOLONG/u);
  const readiness = ({ status }: StorageNode): string | undefined => status?.conditions?.find(({ type }) => type === 'Ready')?.status;
  assert.equal(readiness(await engine.client.get(StorageNodes, 'node-1')), 'False');
  await engine.startAgent('node-1');
  await engine.until(StorageNodes, 'node-1', (node) => readiness(node) === 'True');
});
