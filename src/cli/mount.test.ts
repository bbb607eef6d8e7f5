// flockctl volume mount and unmount: what the agent of the volume's node is asked, over a real socket, and who is told to go elsewhere.
import assert from 'node:assert/strict';
import { mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Client } from '../api/client.ts';
import { Volumes } from '../model/volume.ts';
import { flockctl, putNode, putVolume, records } from '../testing/cli.ts';
import { afterwards } from '../testing/afterwards.ts';

interface Asked {
  path: string | undefined;
  body: unknown;
}

interface There {
  client: Client;
  folder: string;
  asked: Asked[];
}

/** Records with volume db on node-1, whose agent answers on a socket with this. */
async function nodeWithAgent(t: TestContext, answer: { status: number; body: string }): Promise<There> {
  const folder = await mkdtemp(join(tmpdir(), 'flock-mount-'));
  afterwards(t, () => rm(folder, { recursive: true, force: true }));
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (part) => (text += part));
    request.on('end', () => {
      asked.push({ path: request.url, body: JSON.parse(text) });
      response.writeHead(answer.status).end(answer.body);
    });
  });
  const socket = join(folder, 'agent.sock');
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  afterwards(t, () => server.close());
  const client = records();
  await putNode(client, 'node-1', { socket });
  await putVolume(client, 'db');
  return { client, folder, asked };
}

test('mount asks the agent of the node, which it names, for the absolute path, and makes nothing itself', async (t) => {
  const { client, folder, asked } = await nodeWithAgent(t, { status: 200, body: '{"device":"/dev/loop7","target":"/srv/db"}' });
  const target = join(folder, 'a', 'b');
  const ran = await flockctl(['volume', 'mount', 'db', `${folder}/a/./b`], { client });
  assert.deepEqual(ran, { code: 0, out: 'volume db (/dev/loop7) is mounted at /srv/db\n', err: '' });
  assert.deepEqual(asked, [{ path: '/v1/publish', body: { node: 'node-1', volume: 'db', target } }]);
  await assert.rejects(stat(target), { code: 'ENOENT' });
});

test('what is handed out as a link is not said to be mounted', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'flock-link-'));
  afterwards(t, () => rm(folder, { recursive: true, force: true }));
  const link = join(folder, 'db');
  await symlink('/nowhere', link);
  const { client } = await nodeWithAgent(t, { status: 200, body: JSON.stringify({ device: '/pool/db', target: link }) });
  assert.equal(
    (await flockctl(['volume', 'mount', 'db', link], { client })).out,
    `volume db (/pool/db) is handed out as a link at ${link}\n`,
  );
});

test('mount --read-only says so', async (t) => {
  const { client, folder, asked } = await nodeWithAgent(t, { status: 200, body: '{"device":"/dev/loop7","target":"/srv/db"}' });
  await flockctl(['volume', 'mount', 'db', folder, '--read-only'], { client });
  assert.deepEqual(asked[0]?.body, { node: 'node-1', volume: 'db', target: folder, readOnly: true });
});

const mountedAt = (client: Client, ...published: string[]): Promise<unknown> =>
  client.patch(Volumes, 'db', { status: { copies: { c1: { published } } } }, { subresource: 'status' });

test('unmount asks for one folder or for all', async (t) => {
  const { client, asked } = await nodeWithAgent(t, { status: 200, body: '{}' });
  await mountedAt(client, '/srv/db', '/srv/other');
  assert.equal((await flockctl(['volume', 'unmount', 'db'], { client })).out, 'volume db is unmounted\n');
  assert.equal((await flockctl(['volume', 'unmount', 'db', '/srv/db'], { client })).out, 'volume db is unmounted from /srv/db\n');
  assert.deepEqual(asked, [
    { path: '/v1/unpublish', body: { node: 'node-1', volume: 'db' } },
    { path: '/v1/unpublish', body: { node: 'node-1', volume: 'db', target: '/srv/db' } },
  ]);
});

test('unmount of a folder that the volume is not mounted at is refused, and the right ones are named', async (t) => {
  const { client, asked } = await nodeWithAgent(t, { status: 200, body: '{}' });
  await mountedAt(client, '/srv/db');
  const wrong = await flockctl(['volume', 'unmount', 'db', '/srv/typo'], { client });
  assert.deepEqual(wrong, { code: 3, out: '', err: 'flockctl: volume db is not mounted at /srv/typo; it is mounted at /srv/db\n' });
  assert.deepEqual(asked, []);
});

test('unmount of what is not mounted says so, and has it looked at all the same', async (t) => {
  const { client, asked } = await nodeWithAgent(t, { status: 200, body: '{}' });
  assert.deepEqual(await flockctl(['volume', 'unmount', 'db'], { client }), { code: 0, out: 'volume db was not mounted\n', err: '' });
  assert.equal(asked.length, 1);
});

const REFUSALS = [
  { body: '{"reason":"InUse","message":"/srv/db is held by postgres (42)"}', status: 409, code: 4, says: /held by postgres \(42\)/u },
  { body: '{"reason":"Corrupt","message":"the probe is blank"}', status: 500, code: 1, says: /the probe is blank/u },
  { body: 'no JSON', status: 502, code: 1, says: /the agent answered 502/u },
];

for (const { body, status, code, says } of REFUSALS)
  test(`what the agent refuses is told with exit code ${code}: ${body}`, async (t) => {
    const { client } = await nodeWithAgent(t, { status, body });
    const ran = await flockctl(['volume', 'unmount', 'db'], { client });
    assert.equal(ran.code, code);
    assert.match(ran.err, says);
  });

test('a volume on another machine is mounted there: the error says where', async () => {
  const client = records();
  await putNode(client, 'node-1', { socket: '/run/flock/of-another-machine.sock' });
  await putVolume(client, 'db');
  const ran = await flockctl(['volume', 'unmount', 'db'], { client });
  assert.equal(ran.code, 4);
  assert.match(ran.err, /on node node-1.*does not run on this machine.*run this command on node node-1/u);
});

test('an agent that has gone is unreachable', async (t) => {
  const { client, folder } = await nodeWithAgent(t, { status: 200, body: '{}' });
  // A socket file without anybody behind it, as a killed agent leaves it.
  const left = join(folder, 'left.sock');
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(left, resolve));
  afterwards(t, () => server.close());
  await putNode(client, 'node-2', { socket: left });
  await putVolume(client, 'web', { spec: { node: 'node-2' } });
  server.on('connection', (socket) => socket.destroy());
  const ran = await flockctl(['volume', 'unmount', 'web'], { client });
  assert.equal(ran.code, 5);
  assert.match(ran.err, /left\.sock does not answer/u);
});

test('a file in the place of the socket is no agent', async (t) => {
  const { client, folder } = await nodeWithAgent(t, { status: 200, body: '{}' });
  await writeFile(join(folder, 'file'), '');
  await putNode(client, 'node-2', { socket: join(folder, 'file') });
  await putVolume(client, 'web', { spec: { node: 'node-2' } });
  assert.equal((await flockctl(['volume', 'unmount', 'web'], { client })).code, 4);
});

test('a volume without a node cannot be mounted yet', async () => {
  const client = records();
  await putVolume(client, 'db');
  const unplaced = { apiVersion: 'flock.dev/v1alpha1', kind: 'Volume', metadata: { name: 'new' }, spec: { size: '1Gi' } };
  await client.create(Volumes, unplaced);
  const ran = await flockctl(['volume', 'mount', 'new', '/nowhere'], { client });
  assert.equal(ran.code, 4);
  assert.match(ran.err, /volume new is on no node yet/u);
});
