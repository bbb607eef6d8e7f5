// flockctl move: what it orders, how it follows, and how each end shows.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from '../api/client.ts';
import { listAll } from '../api/list-all.ts';
import type { Stored } from '../model/meta.ts';
import { Moves, type Move, type MoveStatus } from '../model/move.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import { objectName } from '../model/names.ts';
import { Volumes } from '../model/volume.ts';
import { flockctl, putMove, putNode, putVolume, records, start, whenWritten, type Invocation } from '../testing/cli.ts';

const GIB = 2 ** 30;

async function cluster(volume = 'db'): Promise<Client> {
  const client = records();
  await putNode(client, 'node-1');
  await putNode(client, 'node-2');
  await putVolume(client, volume);
  return client;
}

async function onlyMove(client: Client): Promise<Stored<Move>> {
  const { items } = await listAll(client, Moves);
  assert.equal(items.length, 1);
  return items[0] as Stored<Move>;
}

/** A running `move db --to node-2 --wait`, and its Move. */
async function following(
  client: Client,
  more: { terminal?: boolean; env?: { [name: string]: string } } = {},
): Promise<{ running: Invocation; move: string }> {
  const running = start(['move', 'db', '--to', 'node-2', '--wait'], { client, ...more });
  await whenWritten(running, 'waiting to begin');
  return { running, move: (await onlyMove(client)).metadata.name };
}

const setStatus = (client: Client, name: string, status: MoveStatus): Promise<Stored<Move>> =>
  client.patch(Moves, name, { status }, { subresource: 'status' });

test('a move is ordered with what was asked, under a name made of the volume', async () => {
  const client = await cluster();
  const ran = await flockctl(['move', 'db', '--to', 'node-2', '--limit', '200M', '--pause', '5s', '--stall', 'cutover'], { client });
  assert.equal(ran.code, 0, ran.err);
  const move = await onlyMove(client);
  assert.match(move.metadata.name, /^db-[a-z0-9]{5}$/u);
  assert.equal(ran.out, `move ${move.metadata.name} started; flockctl move show ${move.metadata.name} --watch follows it\n`);
  assert.deepEqual(move.spec, { volume: 'db', target: 'node-2', bandwidth: '200M', allowedPause: '5s', stallPolicy: 'CutOver' });
});

test('the longest name of a volume still gives a name of a move', async () => {
  const volume = `${'a'.repeat(246)}.${'b'.repeat(6)}`;
  const client = await cluster(volume);
  assert.equal((await flockctl(['move', volume, '--to', 'node-2'], { client })).code, 0);
  const { name } = (await onlyMove(client)).metadata;
  assert.equal(objectName(name), name);
});

test('a volume that is called like a command can be moved', async () => {
  const client = await cluster('list');
  assert.equal((await flockctl(['move', 'start', 'list', '--to', 'node-2'], { client })).code, 0);
  assert.equal((await onlyMove(client)).spec.volume, 'list');
});

test('a second move of a volume is refused while one goes on, and allowed while the old copy is only retained', async () => {
  const client = await cluster();
  await putMove(client, 'db-aaaaa', { volume: 'db', target: 'node-2' }, { phase: 'Syncing' });
  const refused = await flockctl(['move', 'db', '--to', 'node-2'], { client });
  assert.equal(refused.code, 4);
  assert.match(refused.err, /being moved to node node-2 already \(move db-aaaaa, Syncing\).*flockctl move cancel db-aaaaa ends it/u);
  await setStatus(client, 'db-aaaaa', { phase: 'Retaining' });
  assert.equal((await flockctl(['move', 'db', '--to', 'node-2'], { client })).code, 0);
});

test('a move whose source or target gives way to others says so when it is shown', async () => {
  const client = await cluster();
  await putMove(client, 'db-aaaaa', { volume: 'db', target: 'node-2' }, { phase: 'Syncing', source: { node: 'node-1', copy: 'a1' } });
  assert.doesNotMatch((await flockctl(['move', 'show', 'db-aaaaa'], { client })).out, /Held back/u);
  const message = 'others on node node-1 wait for its disks';
  const conditions = [
    { type: 'CopyingHeldBack', status: 'True', reason: 'DiskPressure', message, lastTransitionTime: '2026-01-01T00:00:00Z' },
  ];
  await client.patch(StorageNodes, 'node-1', { status: { conditions } } as Partial<StorageNode>, { subresource: 'status' });
  assert.match((await flockctl(['move', 'show', 'db-aaaaa'], { client })).out, /Held back:? +others on node node-1 wait for its disks/u);
});

test('--wait tells progress, waits for the volume to be unmounted, and ends with what it cost', async () => {
  const client = await cluster();
  const { running, move } = await following(client);
  await setStatus(client, move, {
    phase: 'Syncing',
    round: 0,
    incoming: { bytesDone: String(GIB / 2), bytesTotal: String(2 * GIB), rate: 300 * 2 ** 20, etaSeconds: 5 },
  });
  await whenWritten(running, 'Syncing: copying (round 0, everything), 512 MiB of 2.00 GiB, 300 MiB/s, 5s left\n');
  await setStatus(client, move, {
    phase: 'ReadyToCutOver',
    obstacle: { reason: 'WaitingForUnpublish', message: 'ready: unmount the volume at /srv/db on node node-1' },
  });
  await whenWritten(running, 'waiting: WaitingForUnpublish: ready: unmount the volume at /srv/db on node node-1\n');
  await client.patch(Moves, move, { status: { phase: 'FinalDelta', round: 1, obstacle: null } }, { subresource: 'status' });
  await whenWritten(running, 'FinalDelta');
  await setStatus(client, move, {
    phase: 'Retaining',
    pauseMs: 180,
    incoming: {
      rounds: [String(2 * GIB), '4096'],
      roundCount: 2,
      bytesSent: String(2 * GIB),
      allocated: String(2 * GIB),
      bytesResumed: String(GIB),
    },
  });
  const ran = await running.done;
  assert.equal(ran.code, 0, ran.err);
  assert.equal(ran.err, `move ${move} started\n`);
  assert.match(
    ran.out,
    /volume db is on node node-2 now: 2 rounds, 2\.00 GiB sent, 2\.00 GiB allocated, 1\.00 GiB resumed, pause 180 ms\n$/u,
  );
});

const ENDS: { phase: MoveStatus['phase']; ending?: MoveStatus['ending']; code: number; says: RegExp }[] = [
  { phase: 'Published', code: 0, says: /is on node node-2 now/u },
  { phase: 'Done', code: 0, says: /is on node node-2 now/u },
  {
    phase: 'Failed',
    ending: { phase: 'Failed', reason: 'Stalled', message: 'the rest would take too long' },
    code: 1,
    says: /failed: Stalled: the rest would take too long/u,
  },
  { phase: 'Cancelled', code: 1, says: /was cancelled/u },
];

for (const { phase, ending, code, says } of ENDS)
  test(`--wait ends with ${code} when the move is ${phase}`, async () => {
    const client = await cluster();
    const { running, move } = await following(client);
    await setStatus(client, move, { ...(phase === undefined ? {} : { phase }), ...(ending === undefined ? {} : { ending }) });
    const ran = await running.done;
    assert.equal(ran.code, code);
    assert.match(ran.out + ran.err, says);
  });

test('Ctrl-C leaves the move running and says how to go on', async () => {
  const client = await cluster();
  const { running, move } = await following(client);
  running.interrupt();
  const ran = await running.done;
  assert.equal(ran.code, 130);
  assert.match(
    ran.err,
    new RegExp(`move ${move} goes on without you; flockctl move show ${move} --watch shows it, flockctl move cancel ${move} ends it`, 'u'),
  );
  assert.equal((await client.get(Moves, move)).spec.cancel, undefined);
});

test('--wait fails when the move goes away', async () => {
  const client = await cluster();
  const { running, move } = await following(client);
  await client.delete(Moves, move);
  assert.equal((await running.done).code, 3);
});

test('on a terminal one line is redrawn with a bar and colours, and is gone at the end', async () => {
  const client = await cluster();
  const { running, move } = await following(client, { terminal: true });
  await setStatus(client, move, { phase: 'Syncing', round: 0, incoming: { bytesDone: '50', bytesTotal: '200' } });
  await whenWritten(running, '[######..................]  25 % \u001B[1mSyncing\u001B[0m: copying');
  await setStatus(client, move, { phase: 'Retaining' });
  const { out } = await running.done;
  assert.ok(out.includes('\r\u001B[Kvolume db is on node node-2 now'));
});

test('NO_COLOR takes the colours, not the bar', async () => {
  const client = await cluster();
  const { running, move } = await following(client, { terminal: true, env: { NO_COLOR: '1' } });
  await setStatus(client, move, { phase: 'Syncing', round: 0, incoming: { bytesDone: '50', bytesTotal: '200' } });
  await whenWritten(running, ' 25 % Syncing: copying');
  await setStatus(client, move, { phase: 'Done' });
  assert.equal((await running.done).code, 0);
});

test('show takes the name of the move or of its volume, and tells what it waits for', async () => {
  const client = await cluster();
  await putMove(client, 'db-old', { volume: 'db', target: 'node-2' }, { phase: 'Done' });
  await putMove(
    client,
    'db-new',
    { volume: 'db', target: 'node-2' },
    { phase: 'Pending', obstacle: { reason: 'NoSpace', message: 'too small' } },
  );
  for (const name of ['db', 'db-new']) {
    const { out } = await flockctl(['move', 'show', name], { client });
    assert.match(out, /^Name: +db-new$/mu);
    assert.match(out, /^Obstacle: +NoSpace: too small$/mu);
  }
  assert.equal((JSON.parse((await flockctl(['move', 'show', 'db-old', '-o', 'json'], { client })).out) as Move).metadata.name, 'db-old');
});

test('show --watch follows a move to its end', async () => {
  const client = await cluster();
  await putMove(client, 'db-new', { volume: 'db', target: 'node-2' }, { phase: 'Syncing' });
  const running = start(['move', 'show', 'db', '--watch'], { client });
  await whenWritten(running, 'Syncing');
  await setStatus(client, 'db-new', { phase: 'Done' });
  assert.equal((await running.done).code, 0);
});

test('list shows the moves with what they do', async () => {
  const client = await cluster();
  const incoming = { bytesDone: '1048576', bytesLeft: '3145728', rate: 1048576, etaSeconds: 3 };
  await putMove(
    client,
    'db-new',
    { volume: 'db', target: 'node-2' },
    { phase: 'Syncing', round: 2, source: { node: 'node-1', copy: 'c1' }, incoming },
  );
  const { out } = await flockctl(['move', 'list'], { client });
  assert.match(out, /^db-new +db +node-1 +node-2 +Syncing +2 +1\.00 MiB +3\.00 MiB +1\.00 MiB\/s +3s +- /mu);
});

for (const [phase, reason, shown] of [
  ['Cancelled', 'CancelAsked', '-'],
  ['Cancelling', 'CancelAsked', 'CancelAsked'],
  ['Cancelled', 'VolumeDeleted', 'VolumeDeleted'],
  ['Failed', 'Stalled', 'Stalled'],
] as const)
  test(`the obstacle in the list of a move that is ${phase} for ${reason} is ${shown}`, async () => {
    const client = records();
    await putMove(
      client,
      'm',
      { volume: 'db', target: 'node-2' },
      { phase, obstacle: { reason, message: 'why', since: '2026-01-01T00:00:00Z' } },
    );
    const [, row = ''] = (await flockctl(['move', 'list'], { client })).out.split('\n');
    assert.equal(row.trim().split(/ {2,}/u).at(-2), shown);
  });

test('cancel asks the move to end', async () => {
  const client = await cluster();
  await putMove(client, 'db-new', { volume: 'db', target: 'node-2' }, { phase: 'Syncing' });
  assert.equal((await flockctl(['move', 'cancel', 'db'], { client })).code, 0);
  assert.equal((await client.get(Moves, 'db-new')).spec.cancel, true);
});

for (const phase of ['Committed', 'Activating', 'Retaining', 'Done', 'Failed'] as const)
  test(`cancel is refused when the move is ${phase}`, async () => {
    const client = await cluster();
    await putMove(client, 'db-new', { volume: 'db', target: 'node-2' }, { phase, source: { node: 'node-1', copy: 'c1' } });
    const ran = await flockctl(['move', 'cancel', 'db-new'], { client });
    assert.equal(ran.code, 4);
    assert.equal((await client.get(Moves, 'db-new')).spec.cancel, undefined);
  });

test('a cancel that is refused because of the commit says how to move back', async () => {
  const client = await cluster();
  await putMove(client, 'db-new', { volume: 'db', target: 'node-2' }, { phase: 'Retaining', source: { node: 'node-1', copy: 'c1' } });
  assert.match((await flockctl(['move', 'cancel', 'db-new'], { client })).err, /to bring it back, move it: flockctl move db --to node-1/u);
});

const RETAINING = { phase: 'Retaining', source: { node: 'node-1', copy: 'c0' } } as const;

for (const [what, state, says] of [
  ['that was compared', 'Passed', /the old copy of volume db on node node-1 \(2\.00 GiB\) is let go now/u],
  ['that is being compared', 'Running', /is let go once it was compared with the new one/u],
] as const)
  test(`release ends the keeping of an old copy ${what}, in the move's own record`, async () => {
    const client = await cluster();
    const copies = { c0: { node: 'node-1', pool: 'local', role: 'stale', size: String(2n ** 31n) } } as const;
    await client.patch(Volumes, 'db', { status: { copies } }, { subresource: 'status' });
    await putMove(client, 'db-new', { volume: 'db', target: 'node-2' }, { ...RETAINING, incoming: { scrub: { state } } });
    const ran = await flockctl(['move', 'release', 'db'], { client });
    assert.equal(ran.code, 0, ran.err);
    assert.match(ran.out, says);
    assert.equal((await client.get(Moves, 'db-new')).spec.retainSource, '0s');
    assert.equal((await client.get(Volumes, 'db')).spec.retainSource, undefined);
  });

for (const [what, status, says] of [
  ['keeps nothing', { phase: 'Syncing' }, /keeps no old copy \(Syncing\)/u],
  [
    'found that the copies differ',
    { ...RETAINING, incoming: { scrub: { state: 'Failed', message: 'they differ' } } },
    /is not let go: its comparison with the new one failed \(they differ\)/u,
  ],
] as const)
  test(`release is refused when the move ${what}`, async () => {
    const client = await cluster();
    await putMove(client, 'db-new', { volume: 'db', target: 'node-2' }, status);
    const ran = await flockctl(['move', 'release', 'db-new'], { client });
    assert.equal(ran.code, 4);
    assert.match(ran.err, says);
    assert.equal((await client.get(Moves, 'db-new')).spec.retainSource, undefined);
  });

test('limit changes what a running move may use', async () => {
  const client = await cluster();
  await putMove(client, 'db-new', { volume: 'db', target: 'node-2', bandwidth: '10M' }, { phase: 'Syncing' });
  assert.equal((await flockctl(['move', 'limit', 'db', '100M'], { client })).out, 'move db-new is limited to 100M bytes a second now\n');
  assert.equal((await client.get(Moves, 'db-new')).spec.bandwidth, '100M');
  assert.equal((await flockctl(['move', 'limit', 'db', '0'], { client })).out, 'move db-new has no limit now\n');
  await setStatus(client, 'db-new', { phase: 'Done' });
  assert.equal((await flockctl(['move', 'limit', 'db', '1M'], { client })).code, 4);
});
