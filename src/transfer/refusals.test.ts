// Who is not served, and how either side says so: one clear reason each.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectPlain } from 'node:net';
import test from 'node:test';
import { connect } from 'node:tls';
import { FlockError, isReason, type Reason } from '../model/errors.ts';
import { aCluster } from '../testing/identities.ts';
import { aRig, fill, hello, MIB, same, SOURCE } from '../testing/transfer-rig.ts';
import { encodeHeader, FRAME, header, HEADER } from './frame.ts';
import { controlFrame } from './messages.ts';
import type { NodeIdentity } from '../api/certificates.ts';
import type { PullOptions } from './transfer.ts';

const SIZE = 4 * MIB;

const REFUSED: { who: string; change: (own: NodeIdentity) => Promise<Partial<PullOptions>>; reason: Reason; says: RegExp }[] = [
  {
    who: 'a node that is not the target of the move',
    change: async () => ({ hello: { ...hello, moveUid: '00000000-0000-4000-8000-000000000000' } }),
    reason: 'NotFound',
    says: /there is no move move-db/u,
  },
  {
    who: 'a target that comes with another epoch',
    change: async () => ({ hello: { ...hello, epoch: 7 } }),
    reason: 'Conflict',
    says: /at epoch 1, not 7/u,
  },
  {
    who: 'a node with the certificate of another cluster',
    change: async (own) => {
      const foreign = await (await aCluster())('node-b');
      return { identity: () => ({ ...foreign, authority: own.authority, cluster: own.cluster }) };
    },
    reason: 'Unauthorized',
    says: /certificate is not valid here/u,
  },
  {
    who: 'a source of another cluster',
    change: async () => {
      const foreign = await (await aCluster())('node-b');
      return { identity: () => foreign };
    },
    reason: 'Unauthorized',
    says: /do not accept each other's certificates/u,
  },
  {
    who: 'a HELLO that is not one',
    change: async () => ({ hello: { ...hello, copy: '../../etc' } }),
    reason: 'Corrupt',
    says: /HELLO does not have the fields/u,
  },
];

for (const { who, change, reason, says } of REFUSED)
  test(`${who} is refused`, async (t) => {
    const rig = await aRig(t, { size: SIZE });
    const { identity } = await rig.options();
    await assert.rejects(rig.pull({}, await change(identity())), (error) => {
      assert.ok(error instanceof FlockError);
      assert.equal(error.reason, reason);
      assert.match(error.message, says);
      return true;
    });
  });

test('a node of the cluster that is not the one the move names is refused by name, at either end', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  const own = (await rig.options()).identity();
  const asked: string[] = [];
  await rig.restartSource({
    authorize: async (_, { node }) => {
      asked.push(node);
      throw new FlockError('Forbidden', `node ${node} is not served`);
    },
  });
  await assert.rejects(rig.pull({}), (error) => isReason(error, 'Forbidden') && /node node-b is not served/u.test(error.message));
  assert.deepEqual(asked, ['node-b']);
  const elsewhere = { source: { host: '127.0.0.1', port: rig.server.port, node: 'node-c' }, identity: () => own };
  await assert.rejects(
    rig.pull({}, elsewhere),
    (error) => isReason(error, 'Unauthorized') && /is of node node-a, not of node node-c/u.test(error.message),
  );
});

test('who shows no certificate gets a reason and nothing else', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  const { authority } = (await rig.options()).identity();
  const socket = connect({ host: '127.0.0.1', port: rig.server.port, ca: authority, checkServerIdentity: () => undefined });
  const received: Buffer[] = [];
  socket.on('data', (chunk) => received.push(chunk));
  await once(socket, 'end');
  socket.destroy();
  const said = Buffer.concat(received);
  assert.equal(said.readUInt8(4), FRAME.ERR);
  assert.match(said.subarray(HEADER).toString(), /Unauthorized.*none was shown/u);
});

test('TLS 1.2 and plain text are not spoken', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  const old = connect({ host: '127.0.0.1', port: rig.server.port, maxVersion: 'TLSv1.2', rejectUnauthorized: false });
  const [error] = (await once(old, 'error').catch((thrown: unknown) => [thrown])) as [Error & { code?: string }];
  assert.match(String(error.code), /PROTOCOL_VERSION/u);
  const plain = connectPlain(rig.server.port, '127.0.0.1');
  plain.on('error', () => undefined);
  plain.resume();
  plain.write('GET / HTTP/1.1\r\n\r\n');
  await once(plain, 'close');
});

const HOSTILE: { what: string; frames: Buffer[] }[] = [
  { what: 'a request before HELLO', frames: [encodeHeader(header(FRAME.READ, { rawLen: 4096 }))] },
  { what: 'a payload above every limit', frames: [encodeHeader(header(FRAME.HELLO, { wireLen: 0xffff_ffff }))] },
  { what: 'a frame of an unknown type', frames: [encodeHeader(header(99 as typeof FRAME.PING))] },
  {
    what: 'a block read before a round',
    frames: [controlFrame(FRAME.HELLO, 0, hello), encodeHeader(header(FRAME.READ, { rawLen: 4096 }))],
  },
  { what: 'a second HELLO', frames: [controlFrame(FRAME.HELLO, 0, hello), controlFrame(FRAME.HELLO, 1, hello)] },
  {
    what: 'a thousand requests at once',
    frames: [controlFrame(FRAME.HELLO, 0, hello), ...Array.from({ length: 1000 }, () => controlFrame(FRAME.DIRTY, 1, {}))],
  },
];
for (const { what, frames } of HOSTILE)
  test(`a node of the cluster that sends ${what} is told so and cut off, and others are served`, async (t) => {
    const rig = await aRig(t, { size: SIZE });
    await fill(rig.source, SOURCE.name, { offset: 0, length: MIB, seed: 1 });
    const own = (await rig.options()).identity();
    const socket = connect({
      host: '127.0.0.1',
      port: rig.server.port,
      ca: own.authority,
      key: own.key,
      cert: own.certificate,
      checkServerIdentity: () => undefined,
    });
    const received: Buffer[] = [];
    socket.on('data', (chunk) => received.push(chunk));
    socket.on('error', () => undefined);
    socket.write(Buffer.concat(frames));
    await once(socket, 'close');
    assert.match(Buffer.concat(received).toString('latin1'), /"reason":"(Corrupt|Forbidden|Conflict)"/u);
    await rig.pull({ round: 0 });
    assert.equal(await same(rig, SIZE), true);
  });

test('a renewed certificate is used from the next connection on, at either end', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  const cluster = await aCluster();
  let [a, b] = [await cluster('node-a'), await cluster('node-b')];
  await rig.restartSource({ identity: () => a });
  await rig.pull({ round: 0 }, { identity: () => b });
  const renewed = await aCluster();
  [a, b] = [await renewed('node-a'), await renewed('node-b')];
  await rig.pull({ round: 1 }, { identity: () => b });
});

test('nothing is left open when the source closes', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  const own = (await rig.options()).identity();
  const idle = connectPlain(rig.server.port, '127.0.0.1');
  idle.on('error', () => undefined);
  idle.resume();
  const greeted = connect({
    host: '127.0.0.1',
    port: rig.server.port,
    ca: own.authority,
    key: own.key,
    cert: own.certificate,
    checkServerIdentity: () => undefined,
  });
  greeted.on('error', () => undefined);
  greeted.resume();
  greeted.write(controlFrame(FRAME.HELLO, 0, hello));
  await once(greeted, 'data');
  const closed = Promise.all([once(idle, 'close'), once(greeted, 'close')]);
  await rig.server.close();
  await closed;
});
