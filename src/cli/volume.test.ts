// flockctl volume: what it writes into the records, what it shows, and what it waits for.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'yaml';
import type { Client } from '../api/client.ts';
import { eventRecorder } from '../api/event-recorder.ts';
import { states } from './follow.ts';
import { systemClock } from '../model/clock.ts';
import type { Stored } from '../model/meta.ts';
import { Snapshots } from '../model/snapshot.ts';
import { Volumes, VOLUME_FINALIZER, type Volume, type VolumeStatus } from '../model/volume.ts';
import { flockctl, pool, putMove, putNode, putVolume, records, start, whenWritten } from '../testing/cli.ts';
import { keptLog } from '../testing/kept-log.ts';

async function cluster(): Promise<Client> {
  const client = records();
  await putNode(client, 'node-1');
  await putNode(client, 'node-2');
  return client;
}

/** The record once it is as asked. */
async function volumeWhen(client: Client, name: string, judge: (volume: Stored<Volume> | null) => boolean): Promise<void> {
  const signal = AbortSignal.timeout(10_000);
  // A volume that is not there yet ends the states: look again.
  while (!signal.aborted)
    for await (const volume of states({ client, kind: Volumes, clock: systemClock, signal }, name)) if (judge(volume)) return;
  assert.fail('it did not come about');
}

const setStatus = (client: Client, name: string, status: VolumeStatus): Promise<Stored<Volume>> =>
  client.patch(Volumes, name, { status }, { subresource: 'status' });

test('create writes what was asked and waits until the volume is available, telling each obstacle once', async () => {
  const client = await cluster();
  const running = start(
    [
      'volume',
      'create',
      'db',
      '--size',
      '2Gi',
      '--pool',
      'local',
      '--node',
      'node-1',
      '--filesystem',
      'xfs',
      '--retain',
      '1h',
      '--pause',
      '5s',
      '--limit',
      '200M',
    ],
    { client },
  );
  await volumeWhen(client, 'db', (volume) => volume !== null);
  const obstacle = { reason: 'NodeNotReady', message: 'the agent of node node-1 does not answer' };
  await setStatus(client, 'db', { phase: 'Pending', obstacle });
  await whenWritten(running, 'waiting: NodeNotReady: the agent of node node-1 does not answer\n');
  await setStatus(client, 'db', { phase: 'Blocked', obstacle });
  await client.patch(Volumes, 'db', { spec: { node: 'node-1', copy: 'c1', epoch: 1 } });
  await client.patch(Volumes, 'db', { status: { phase: 'Available', obstacle: null } }, { subresource: 'status' });
  const ran = await running.done;
  assert.deepEqual(ran, {
    code: 0,
    out: 'volume db is available on node node-1: 2Gi in pool local\n',
    err: 'waiting: NodeNotReady: the agent of node node-1 does not answer\n',
  });
  const { spec } = await client.get(Volumes, 'db');
  assert.deepEqual(spec, {
    size: '2Gi',
    pool: 'local',
    node: 'node-1',
    volumeMode: 'Filesystem',
    filesystem: 'xfs',
    allowedPause: '5s',
    retainSource: '1h',
    transferBandwidth: '200M',
    copy: 'c1',
    epoch: 1,
  });
});

test('create --block asks for a raw device', async () => {
  const client = await cluster();
  assert.equal((await flockctl(['volume', 'create', 'raw', '--size', '512Mi', '--block', '--no-wait'], { client })).code, 0);
  assert.equal((await client.get(Volumes, 'raw')).spec.volumeMode, 'Block');
});

test('Ctrl-C while create waits leaves the volume and says how to go on', async () => {
  const client = await cluster();
  const running = start(['volume', 'create', 'db', '--size', '2Gi'], { client });
  await volumeWhen(client, 'db', (volume) => volume !== null);
  running.interrupt();
  const ran = await running.done;
  assert.equal(ran.code, 130);
  assert.match(ran.err, /volume db is still being made; flockctl volume show db --watch, or flockctl volume delete db/u);
  assert.equal((await client.get(Volumes, 'db')).metadata.deletionTimestamp, undefined);
});

test('create fails when somebody deletes the volume meanwhile', async () => {
  const client = await cluster();
  const running = start(['volume', 'create', 'db', '--size', '2Gi'], { client });
  await volumeWhen(client, 'db', (volume) => volume !== null);
  await client.delete(Volumes, 'db');
  assert.equal((await running.done).code, 3);
});

test('list shows where each volume is, in every format', async () => {
  const client = await cluster();
  const copies = { c1: { node: 'node-1', pool: 'local', role: 'active' as const, published: ['/srv/db'] } };
  await putVolume(client, 'db', { status: { phase: 'Published', copies } });
  await putVolume(client, 'web');
  const show = async (format: string): Promise<string> => (await flockctl(['volume', 'list', '-o', format], { client })).out;
  assert.match(
    await show('table'),
    /^NAME +SIZE +POOL +NODE +PHASE +OBSTACLE +MOUNTED AT +AGE\ndb +2Gi +local +node-1 +Published +- +\/srv\/db +\d+s\nweb /u,
  );
  assert.equal(await show('name'), 'volume.flock.dev/db\nvolume.flock.dev/web\n');
  const names = (list: { items: Volume[] }): string[] => list.items.map((volume) => volume.metadata.name);
  assert.deepEqual(names(JSON.parse(await show('json'))), ['db', 'web']);
  assert.deepEqual(names(parse(await show('yaml'))), ['db', 'web']);
});

test('an empty list says how to make one, and stays empty for programs', async () => {
  const client = await cluster();
  assert.deepEqual(await flockctl(['volume', 'list'], { client }), {
    code: 0,
    out: '',
    err: 'no volumes; flockctl volume create makes one\n',
  });
  assert.deepEqual(JSON.parse((await flockctl(['volume', 'list', '-o', 'json'], { client })).out).items, []);
});

test('list --watch shows changes until Ctrl-C', async () => {
  const client = await cluster();
  await putVolume(client, 'db');
  const running = start(['volume', 'list', '--watch'], { client });
  await whenWritten(running, 'Available');
  await setStatus(client, 'db', { phase: 'Published' });
  await whenWritten(running, 'Published');
  await putVolume(client, 'a-longer-name');
  await whenWritten(running, 'a-longer-name');
  running.interrupt();
  const ran = await running.done;
  assert.equal(ran.code, 0);
  const lines = ran.out.trimEnd().split('\n');
  assert.match(lines[0] ?? '', /^NAME/u);
  assert.match(lines[1] ?? '', /^db .*Available/u);
  assert.match(lines[2] ?? '', /^db .*Published/u);
  assert.match(lines.at(-1) ?? '', /^a-longer-name .*Available/u);
});

test('show tells of one volume and its copies', async () => {
  const client = await cluster();
  await putVolume(client, 'db', { status: { obstacle: { reason: 'RecordBehind', message: 'records were rolled back' } } });
  const { out } = await flockctl(['volume', 'show', 'db'], { client });
  assert.match(out, /^Name: +db$/mu);
  assert.match(out, /^Obstacle: +RecordBehind: records were rolled back$/mu);
  assert.match(out, /^Node: +node-1$/mu);
  assert.match(out, /^Copies:\n.*\n {2}c1 +node-1 +active +2\.00 GiB +4\.00 KiB/mu);
  assert.equal((parse((await flockctl(['volume', 'show', 'db', '-o', 'yaml'], { client })).out) as Volume).metadata.name, 'db');
});

test('a volume that is a directory has no filesystem of its own, and what nobody counts is no 0', async () => {
  const client = await directories();
  await client.patch(Volumes, 'db', { status: { copies: { c1: { allocated: null } } } }, { subresource: 'status' });
  const { out } = await flockctl(['volume', 'show', 'db'], { client });
  assert.match(out, /^Content: +a directory of its pool's filesystem$/mu);
  assert.match(out, /^ {2}c1 +node-1 +active +2\.00 GiB +- +-$/mu);
  assert.match(
    (await flockctl(['explain', 'volume', 'db'], { client })).out,
    /volume db: 2\.00 GiB, a directory of its pool's filesystem, Available/u,
  );
});

test('a record cannot write on the terminal of who looks at it', async () => {
  const client = await cluster();
  await putVolume(client, 'db', { status: { obstacle: { reason: 'X', message: 'a\u001B]0;title\u0007b\nc' } } });
  const { out } = await flockctl(['volume', 'show', 'db'], { client });
  assert.match(out, /^Obstacle: +X: a \]0;title b c$/mu);
});

test('show tells what happened to the volume, as its recorder wrote it', async () => {
  const client = await cluster();
  const volume = await putVolume(client, 'db');
  const recorder = eventRecorder({ client, component: 'flock-agent', instance: 'node-1', clock: systemClock, log: keptLog() });
  recorder.record(volume, 'Warning', 'GrowFailed', 'pool local is full');
  await recorder.flush();
  const { out } = await flockctl(['volume', 'show', 'db'], { client });
  assert.match(out, /Events:\n  .* ago +Warning +GrowFailed +pool local is full\n/u);
});

test('grow asks for the size and waits until the volume has it', async () => {
  const client = await cluster();
  const { spec } = await putVolume(client, 'db');
  const running = start(['volume', 'grow', 'db', '4Gi'], { client });
  await volumeWhen(client, 'db', (volume) => volume?.spec.size === '4Gi');
  await setStatus(client, 'db', { obstacle: { reason: 'NodeNotReady', message: 'nobody answers' } });
  await whenWritten(running, 'waiting: NodeNotReady: nobody answers');
  const copy = { node: 'node-1', pool: 'local', role: 'active', size: String(4n * 2n ** 30n), published: ['/srv/db'] } as const;
  await setStatus(client, 'db', { copies: { [spec.copy ?? '']: { ...copy, published: [...copy.published] } } });
  assert.deepEqual((await running.done).out, 'volume db is 4.00 GiB large\n');
});

/** A volume where no snapshot can be taken. */
async function directories(): Promise<Client> {
  const client = records();
  await putNode(client, 'node-1', { pools: { local: pool({ type: 'directory', points: false }) } });
  await putVolume(client, 'db');
  return client;
}

for (const words of [
  ['snapshot', 'create', 's1', '--volume', 'db'],
  ['snapshot', 'create', 's1', '--volume', 'db', '--no-wait'],
  ['volume', 'clone', 'copy', '--from', 'db'],
])
  test(`${words.join(' ')} is refused at once where no snapshot can be taken, and nothing is written`, async () => {
    const client = await directories();
    const { code, err } = await flockctl(words, { client });
    assert.equal(code, 4, err);
    assert.match(err, /pool local of node node-1 cannot keep points in time: .*; nothing was made/u);
    const { items } = await client.list(Snapshots);
    assert.deepEqual([items, (await client.list(Volumes)).items.map(({ metadata }) => metadata.name)], [[], ['db']]);
  });

for (const [what, size, written, shown] of [
  ['a round size', String(2n * 2n ** 30n), '2Gi', '2Gi'],
  ['an odd size', '1000001536', '1000001536', '954 MiB'],
] as const)
  test(`a clone of ${what} is shown as people read sizes`, async () => {
    const client = await cluster();
    await putVolume(client, 'db', { status: { copies: { c1: { node: 'node-1', pool: 'local', role: 'active', size } } } });
    await flockctl(['volume', 'clone', 'copy', '--from', 'db', '--no-wait'], { client });
    assert.equal((await client.get(Volumes, 'copy')).spec.size, written);
    assert.match((await flockctl(['volume', 'list'], { client })).out, new RegExp(`^copy +${shown} `, 'mu'));
  });

test('where room is short, what moves keep there is told with the way to have it sooner', async () => {
  const client = records();
  await putNode(client, 'node-1', { pools: { local: pool({ free: String(2n ** 30n), unit: '4096' }) } });
  const old = { node: 'node-1', pool: 'local', role: 'stale', size: String(3n * 2n ** 30n) } as const;
  const { metadata } = await putVolume(client, 'web', { spec: { node: 'node-2', copy: 'c2' }, status: { copies: { c1: old } } });
  const kept = {
    phase: 'Retaining',
    volumeUid: metadata.uid,
    source: { node: 'node-1', copy: 'c1' },
    committedAt: '2026-01-01T00:00:00Z',
  } as const;
  await putMove(client, 'web-x', { volume: 'web', target: 'node-2' }, kept);
  const says = /node node-1 keeps 3\.00 GiB of old copies there, which end sooner by: flockctl move release web-x/u;
  assert.match((await flockctl(['volume', 'create', 'big', '--size', '2Gi'], { client })).err, says);
  await putVolume(client, 'db');
  assert.match((await flockctl(['volume', 'grow', 'db', '9Gi'], { client })).err, says);
});

test('delete waits until the volume is gone', async () => {
  const client = await cluster();
  await putVolume(client, 'db');
  await client.patch(Volumes, 'db', { metadata: { finalizers: [VOLUME_FINALIZER] } });
  const running = start(['volume', 'delete', 'db'], { client });
  await volumeWhen(client, 'db', (volume) => volume?.metadata.deletionTimestamp !== undefined);
  await client.patch(Volumes, 'db', { metadata: { finalizers: null } });
  assert.deepEqual(await running.done, { code: 0, out: 'volume db is deleted\n', err: '' });
});

test('delete refuses a volume that is mounted and says where', async () => {
  const client = await cluster();
  await putVolume(client, 'db', { status: { copies: { c1: { node: 'node-1', pool: 'local', role: 'active', published: ['/srv/db'] } } } });
  const ran = await flockctl(['volume', 'delete', 'db'], { client });
  assert.equal(ran.code, 4);
  assert.match(ran.err, /mounted at \/srv\/db on node node-1; unmount it first: flockctl volume unmount db/u);
  assert.equal((await client.get(Volumes, 'db')).metadata.deletionTimestamp, undefined);
});
