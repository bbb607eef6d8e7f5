// What is refused, on every way in: records, the agents' local sockets, and the wire between agents. Each refusal is one clear reason, and
// nothing on any disk changes.
import assert from 'node:assert/strict';
import { mkdir, readdir, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from 'node:tls';
import { FlockError, isReason, type Reason } from '../model/errors.ts';
import { Moves, type MoveStatus } from '../model/move.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { Volumes } from '../model/volume.ts';
import { systemClock } from '../model/clock.ts';
import { encodeHeader, FRAME, header } from '../transfer/frame.ts';
import { SourceLink } from '../transfer/source-link.ts';
import type { NodeIdentity } from '../api/certificates.ts';
import type { Hello } from '../transfer/transfer.ts';
import { startEngine, type Engine } from '../testing/engine.ts';
import { needsRoot, temporaryFolder, type Test } from '../testing/folders.ts';
import { aCluster } from '../testing/identities.ts';

const XFS = { type: 'xfs', size: 2n ** 30n } as const;

const HOSTILE = [
  '..',
  '../x',
  'a/b',
  '/',
  '.',
  'a\nb',
  'a\0b',
  '%2e%2e',
  'ä',
  'a'.repeat(300),
  'A',
  '-a',
  '',
  ' ',
  '$(reboot)',
  'a;b',
  '\u202E',
];

async function everyFile(engine: Engine): Promise<string[]> {
  const folders = ['node-1', 'node-2'].flatMap((node) => [engine.pool(node), join(engine.folder, node)]);
  return (await Promise.all(folders.map((folder) => readdir(folder, { recursive: true })))).flat().toSorted();
}

const saying = (of: { obstacle?: { message: string } } | undefined): string => of?.obstacle?.message ?? '';

const isInvalid = (error: unknown): boolean => {
  assert.ok(isReason(error, 'Invalid', 'NotFound'), String(error));
  assert.ok(error.message.length < 2000, 'what was sent is not sent back again and again');
  return true;
};

test('hostile names are refused on every entry, and nothing on any disk changes', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: XFS });
  await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
  const agent = await engine.agent('node-1');
  const before = await everyFile(engine);
  const target = join(engine.folder, 'never');
  for (const name of HOSTILE)
    await t.test(JSON.stringify(name).slice(0, 40), async () => {
      const spec = { size: '16Mi', pool: 'local', volumeMode: 'Block' } as const;
      await assert.rejects(engine.createVolume(name, spec), isInvalid);
      await assert.rejects(engine.createVolume('ok', { ...spec, pool: name }), isInvalid);
      await assert.rejects(engine.createVolume('ok', { ...spec, node: name }), isInvalid);
      await assert.rejects(engine.createVolume('ok', { ...spec, copy: name, epoch: 1 }), isInvalid);
      await assert.rejects(engine.createMove(name, { volume: 'db', target: 'node-2' }), isInvalid);
      await assert.rejects(engine.createMove('ok', { volume: name, target: 'node-2' }), isInvalid);
      await assert.rejects(engine.createMove('ok', { volume: 'db', target: name }), isInvalid);
      await assert.rejects(engine.client.delete(Volumes, name), isInvalid);
      await assert.rejects(agent.publish({ volume: name, target }), isInvalid);
      await assert.rejects(agent.unpublish({ volume: name }), isInvalid);
    });
  for (const path of ['relative', '', 'a/../b', '\0', `/a\0b`, `/${'a'.repeat(5000)}`])
    await t.test(`a mount point ${JSON.stringify(path).slice(0, 30)}`, () =>
      assert.rejects(agent.publish({ volume: 'db', target: path }), (error) => isReason(error, 'Invalid')),
    );
  await assert.rejects(
    agent.publish({ volume: 'db', target: 7 as unknown as string }),
    (error: Error) => isReason(error, 'Invalid') && /needs "target" as a text/u.test(error.message),
  );
  assert.deepEqual(await everyFile(engine), before);
  await engine.endsClean();
});

test('a status from elsewhere with hostile ids reaches no path', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: XFS });
  await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
  await writeFile(join(engine.disk('node-1'), 'victim.img'), 'not ours');
  for (const id of ['../victim', '../../victim', 'A', 'a.b'])
    await engine.client
      .patch(Volumes, 'db', { status: { copies: { [id]: { node: 'node-1', pool: 'local', role: 'ordered' } } } }, { subresource: 'status' })
      .catch((error: unknown) => assert.ok(isReason(error, 'Invalid')));
  await engine.client.delete(Volumes, 'db');
  await engine.untilGone(Volumes, 'db');
  assert.ok((await readdir(engine.disk('node-1'))).includes('victim.img'));
  await engine.endsClean();
});

// ---- what a first run gets wrong: the exact words ------------------------------------------------------------------------------

test('orders that cannot be carried out say exactly why, and go on by themselves when it can', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: { type: 'ext4', size: 256n << 20n } });
  const WRONG: { name: string; spec: object; reason: string; says: string | RegExp }[] = [
    {
      name: 'no-pool',
      spec: { pool: 'fast' },
      reason: 'NoNode',
      says: 'no node can take it: each of node-1, node-2 has no pool "fast"; it has local',
    },
    {
      name: 'no-node',
      spec: { node: 'node-9' },
      reason: 'UnknownNode',
      says: 'there is no node "node-9"; flockctl node list shows the nodes',
    },
    {
      name: 'too-large',
      spec: { size: '10Gi', node: 'node-2' },
      reason: 'NoSpace',
      says: /^pool local of node node-2 has room for 2\d\d MiB, 10\.0 GiB are needed; free some, or choose another node$/u,
    },
  ];
  for (const { name, spec, reason, says } of WRONG)
    await t.test(name, async () => {
      await engine.createVolume(name, { size: '16Mi', pool: 'local', volumeMode: 'Block', ...spec });
      const refused = await engine.until(Volumes, name, ({ status }) => status?.obstacle !== undefined);
      assert.equal(refused.status?.phase, 'Pending');
      assert.equal(refused.status?.obstacle?.reason, reason);
      const message = refused.status?.obstacle?.message ?? '';
      if (typeof says === 'string') assert.equal(message, says);
      else assert.match(message, says);
      await engine.untilTold(name, (event) => event.type === 'Warning' && event.reason === reason);
    });
  await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
  await t.test('a move to where it is', async () => {
    await engine.createMove('same', { volume: 'db', target: 'node-1' });
    const { status } = await engine.untilPhase('same', 'Failed');
    assert.deepEqual([status?.obstacle?.reason, status?.obstacle?.message], ['TargetIsSource', 'volume db is on node node-1 already']);
  });
  await t.test('a move to a node that is not there', async () => {
    await engine.createMove('nowhere', { volume: 'db', target: 'node-9' });
    const { status } = await engine.untilBlocked('nowhere', 'UnknownNode');
    assert.equal(status?.obstacle?.message, 'there is no node "node-9"; flockctl node list shows the nodes');
    await engine.client.patch(Moves, 'nowhere', { spec: { cancel: true } });
    await engine.untilPhase('nowhere', 'Cancelled');
  });
  await t.test('a move of a volume that is not there', async () => {
    await engine.createMove('nothing', { volume: 'nothing', target: 'node-2' });
    const { status } = await engine.untilBlocked('nothing', 'VolumeNotFound');
    assert.equal(status?.obstacle?.message, 'there is no volume "nothing"; flockctl volume list shows the volumes');
    await engine.client.patch(Moves, 'nothing', { spec: { cancel: true } });
    await engine.untilPhase('nothing', 'Cancelled');
  });
  await t.test('a move to a node whose agent was stopped waits for it', async () => {
    await engine.stopAgent('node-2');
    await engine.createMove('later', { volume: 'db', target: 'node-2' });
    const { status } = await engine.untilBlocked('later', 'NodeNotReady');
    assert.equal(status?.obstacle?.message, 'the agent of node node-2 does not answer; start it, or choose another node');
    await engine.startAgent('node-2');
    await engine.untilPhase('later', 'Retaining');
  });
  await engine.endsClean();
});

test(
  'a pool that cannot be is reported by its node, and by the volume that waits for it, with the way out',
  { skip: needsRoot },
  async (t) => {
    const pools = [
      { name: 'local', type: 'image', path: '/nowhere/flock-pool' },
      { name: 'later', type: 'lvm', volumeGroup: 'not-here' },
    ] as const;
    const engine = await startEngine(t, { nodes: ['node-1'], agent: () => ({ pools: [...pools] }) });
    const { local, later } = await engine.pools('node-1');
    assert.equal(local?.healthy, false);
    assert.match(saying(local), /the pool's folder \/nowhere\/flock-pool cannot be made .*: mount its filesystem or correct its path/u);
    assert.match(saying(later), /no program lvm on the PATH|no volume group not-here on this node/u);
    const { status } = await engine.client.get(StorageNodes, 'node-1');
    assert.equal(status?.conditions?.find(({ type }) => type === 'Ready')?.reason, 'PoolsUnhealthy');
    await engine.createVolume('db', { size: '16Mi', pool: 'local' });
    const refused = await engine.until(Volumes, 'db', (volume) => volume.status?.obstacle !== undefined);
    assert.match(saying(refused.status), /pool local of node node-1: the pool's folder \/nowhere\/flock-pool/u);
    await assert.rejects(readdir('/nowhere'));
    await engine.endsClean();
  },
);

/** A PATH with these programs and no others, until the test ends. */
async function onlyPrograms(t: Test, programs: readonly string[]): Promise<void> {
  const folder = await temporaryFolder(t);
  const before = process.env['PATH'] ?? '';
  for (const program of programs) {
    const places = before.split(':').map((place) => join(place, program));
    const there = await Promise.all(
      places.map((place) =>
        stat(place).then(
          () => true,
          () => false,
        ),
      ),
    );
    await symlink(places[there.indexOf(true)] ?? program, join(folder, program));
  }
  process.env['PATH'] = folder;
  t.after(async () => void (process.env['PATH'] = before));
}

test('a node without the tools of a filesystem takes no volume of it, and the volume says so', { skip: needsRoot }, async (t) => {
  await onlyPrograms(t, ['losetup', 'mount', 'umount', 'blkid', 'mkfs.ext4', 'resize2fs']);
  const engine = await startEngine(t, { nodes: ['node-1'] });
  assert.deepEqual((await engine.client.get(StorageNodes, 'node-1')).status?.filesystems, ['ext4']);
  await engine.createVolume('db', { size: '300Mi', pool: 'local', filesystem: 'xfs' });
  const refused = await engine.until(Volumes, 'db', ({ status }) => status?.obstacle !== undefined);
  assert.equal(saying(refused.status), 'no node can take it: node node-1 cannot mount xfs: its kernel or its tools lack it');
  await engine.volume('other', { size: '16Mi', pool: 'local', filesystem: 'ext4' });
  await engine.mount('other');
  await engine.endsClean();
});

// ---- who is served over the wire -----------------------------------------------------------------------------------------------

interface Wire {
  engine: Engine;
  hello: Hello;
  address: { host: string; port: number };
}

/** A move from node-1 to node-2 that stands still while it is served. */
async function served(engine: Engine): Promise<Wire> {
  await engine.volume('db', { size: '16Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
  engine.held.add('fence');
  await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
  const { metadata, status } = await engine.untilPhase('db-1', 'Syncing');
  await engine.until(Moves, 'db-1', (move) => move.status?.incoming?.completeRound === 0);
  const { source, epoch = 0, volumeUid = '' } = status as MoveStatus;
  const about = { move: 'db-1', moveUid: metadata.uid, volumeUid, copy: source?.copy ?? '', epoch };
  return { engine, address: await listenerOf(engine, 'node-1'), hello: { protocol: 1, purpose: 'round', ...about } };
}

async function listenerOf(engine: Engine, node: string): Promise<Wire['address']> {
  const { status } = await engine.until(StorageNodes, node, (record) => record.status?.transfer !== undefined);
  const { address: host = '', port = 0 } = status?.transfer ?? {};
  return { host, port };
}

async function dial({ address, hello }: Wire, identity: NodeIdentity, change: Partial<Hello> = {}): Promise<void> {
  const link = await SourceLink.dial({
    source: { ...address, node: 'node-1' },
    identity: () => identity,
    hello: { ...hello, ...change },
    limit: () => null,
    signal: new AbortController().signal,
    clock: systemClock,
  });
  await link.close();
}

const refusing =
  (reason: Reason, says: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof FlockError, String(error));
    assert.equal(error.reason, reason, error.message);
    assert.match(error.message, says);
    return true;
  };

const refusalsIn = (engine: Engine, from: number): string[] =>
  engine.log.lines.slice(from).flatMap(({ level, message }) => (level === 'warn' && message.startsWith('refused') ? [message] : []));

test(
  'only the node that the move names is served, and each other one is told one reason, which is logged',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, { nodes: ['node-1', 'node-2', 'node-3'], filesystem: XFS });
    const wire = await served(engine);
    const own = await engine.identity('node-2');
    const foreign = await (await aCluster())('node-2');
    const other = '00000000-0000-4000-8000-000000000000';
    const CASES: { who: string; identity: NodeIdentity; change?: Partial<Hello>; reason: Reason; says: RegExp }[] = [
      {
        who: 'the certificate of another authority',
        identity: { ...foreign, authority: own.authority, cluster: own.cluster },
        reason: 'Unauthorized',
        says: /certificate is not valid here/u,
      },
      {
        who: 'a node that is not the target',
        identity: await engine.identity('node-3'),
        reason: 'Forbidden',
        says: /node node-3 is not served for move "db-1": its target is node node-2/u,
      },
      {
        who: 'the wrong volume',
        identity: own,
        change: { volumeUid: other },
        reason: 'Forbidden',
        says: /it is about another volume or copy/u,
      },
      { who: 'the wrong copy', identity: own, change: { copy: 'abc' }, reason: 'Forbidden', says: /it is about another volume or copy/u },
      { who: 'a move that is not there', identity: own, change: { move: 'db-2' }, reason: 'NotFound', says: /there is no move "db-2"/u },
      { who: 'a move made anew', identity: own, change: { moveUid: other }, reason: 'Forbidden', says: /made anew since/u },
      { who: 'another epoch', identity: own, change: { epoch: 9 }, reason: 'Forbidden', says: /it is at epoch 1, not 9/u },
      {
        who: 'a scrub before the commit',
        identity: own,
        change: { purpose: 'scrub' },
        reason: 'Forbidden',
        says: /in phase Syncing nothing is copied/u,
      },
      { who: 'hostile ids', identity: own, change: { copy: '../x' }, reason: 'Corrupt', says: /HELLO does not have the fields/u },
      { who: 'a hostile name', identity: own, change: { move: '../../etc' }, reason: 'Corrupt', says: /HELLO does not have the fields/u },
      {
        who: 'a certificate of an earlier record of the node',
        identity: own,
        reason: 'Forbidden',
        says: /node node-2 was removed from this cluster|certificate .* revoked/u,
      },
    ];
    await dial(wire, own);
    for (const { who, identity, change, reason, says } of CASES)
      await t.test(who, async () => {
        if (who.startsWith('a certificate of an earlier')) await revoke(engine, 'node-2');
        const from = engine.log.lines.length;
        await assert.rejects(dial(wire, identity, change), refusing(reason, says));
        const [logged, ...more] = refusalsIn(engine, from);
        assert.match(logged ?? '', says);
        assert.deepEqual(more, []);
      });
    await t.test('no certificate at all', async () => {
      const from = engine.log.lines.length;
      assert.match(await withoutCertificate(wire, own.authority), /a certificate is needed, and none was shown/u);
      assert.equal(refusalsIn(engine, from).length, 1);
    });
    await engine.startAgent('node-2');
    await engine.letGo();
    await engine.untilPhase('db-1', 'Retaining');
    await engine.endsClean();
  },
);

test('a finished move is served no more, and an idle node listens nowhere', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: XFS });
  const wire = await served(engine);
  await engine.client.patch(Moves, 'db-1', { spec: { cancel: true } });
  await engine.untilPhase('db-1', 'Cancelled');
  await engine.until(StorageNodes, 'node-1', ({ status }) => status?.transfer === undefined);
  await assert.rejects(dial(wire, await engine.identity('node-2')), refusing('Unavailable', /ECONNREFUSED/u));
  await engine.letGo();
  // Another move of the same volume opens the listener: the finished one is refused by its record.
  engine.held.add('fence');
  await engine.createMove('db-2', { volume: 'db', target: 'node-2' });
  await engine.untilPhase('db-2', 'Syncing');
  const again = { ...wire, address: await listenerOf(engine, 'node-1') };
  await assert.rejects(dial(again, await engine.identity('node-2')), refusing('Forbidden', /in phase Cancelled nothing is copied/u));
  await engine.letGo();
  await engine.untilPhase('db-2', 'Retaining');
  await engine.endsClean();
});

/** Its record is deleted; its agent stays away. */
async function revoke(engine: Engine, node: string): Promise<void> {
  await engine.stopAgent(node);
  await engine.client.delete(StorageNodes, node);
}

/** What the source says to whom shows none. */
function withoutCertificate({ address, hello }: Wire, authority: string): Promise<string> {
  return new Promise((resolve) => {
    const text: Buffer[] = [];
    const socket = connect({ ...address, ca: authority, minVersion: 'TLSv1.3', checkServerIdentity: () => undefined });
    const payload = Buffer.from(JSON.stringify(hello));
    const frame = { ...header(FRAME.HELLO), wireLen: payload.length, rawLen: payload.length };
    socket.on('secureConnect', () => socket.write(Buffer.concat([encodeHeader(frame), payload])));
    socket.on('data', (piece: Buffer) => text.push(piece));
    socket.on('error', (error) => resolve(error.message));
    socket.on('close', () => resolve(Buffer.concat(text).toString('latin1')));
  });
}

test('a request that is no JSON, too large or for nothing there is answered and changes nothing', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1'] });
  await mkdir(join(engine.folder, 'x'), { recursive: true });
  const agent = await engine.agent('node-1');
  await assert.rejects(
    agent.publish({ volume: 'nothing', target: join(engine.folder, 'x', 'y') }),
    refusing('NotFound', /there is no such volume/u),
  );
  await assert.rejects(
    agent.publish({ volume: 'a', target: `/${'a'.repeat(70_000)}` }),
    refusing('Invalid', /the request is larger than 65536 bytes/u),
  );
  assert.deepEqual(await readdir(join(engine.folder, 'x')), []);
  await engine.endsClean();
});
