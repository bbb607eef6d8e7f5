import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { FlockError, type Reason } from '../model/errors.ts';
import { GROUP_VERSION, type Stored } from '../model/meta.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import { Events, Leases } from '../model/system.ts';
import { fakeClock } from '../testing/fake-clock.ts';
import type { WatchEvent } from './client.ts';
import { httpClient, type ConnectionConfig } from './http-client.ts';
import { unreachable } from './http-errors.ts';
import { listAll } from './list-all.ts';

interface Request {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  body: string;
}

type Answerer = (request: Request, response: ServerResponse) => void;

const answerWith = (response: ServerResponse, code: number, body: unknown): void => {
  response.writeHead(code, { 'content-type': 'application/json' });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
};

async function listening(server: Server, t: TestContext, listen: { port: number; host: string } | { path: string }): Promise<void> {
  await new Promise<void>((resolve) => server.listen(listen, resolve));
  t.after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
}

/** A server that answers as the test says, on the loopback, and remembers what it was asked. */
async function serving(t: TestContext, answer: Answerer, config: Partial<ConnectionConfig> = {}) {
  const requests: Request[] = [];
  const server = createServer((incoming, response) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => {
      const request = {
        method: incoming.method ?? '',
        url: incoming.url ?? '',
        headers: incoming.headers,
        body: Buffer.concat(chunks).toString(),
      };
      requests.push(request);
      answer(request, response);
    });
  });
  await listening(server, t, { port: 0, host: '127.0.0.1' });
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = httpClient({ server: address, ...config });
  t.after(() => client.close());
  return { requests, server, address, client };
}

const node: Stored<StorageNode> = {
  apiVersion: GROUP_VERSION,
  kind: 'StorageNode',
  metadata: { name: 'node-1', uid: 'u', resourceVersion: '5', creationTimestamp: '2026-01-01T00:00:00Z' },
};

const status = (code: number, reason: string, message = 'said so'): object => ({
  kind: 'Status',
  status: 'Failure',
  code,
  reason,
  message,
  details: { name: 'node-1' },
});

test('each verb asks as Kubernetes expects it', async (t) => {
  const { client, requests } = await serving(t, (_, response) => answerWith(response, 200, node));
  const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'l', namespace: 'flock-system' }, spec: {} };
  await client.get(StorageNodes, 'node-1');
  await client.create(StorageNodes, { apiVersion: GROUP_VERSION, kind: 'StorageNode', metadata: { name: 'node-1' } });
  await client.replace(StorageNodes, node, 'status');
  await client.patch(StorageNodes, 'node-1', { status: null }, { subresource: 'status' });
  await client.create(Leases, lease);
  await client.patch(Leases, 'l', { spec: { holderIdentity: 'a' } }, { namespace: 'flock-system' });
  await client.list(Events, { fieldSelector: 'involvedObject.name=db', labelSelector: 'a=b,c in (d,e)', limit: 7 });
  await client.list(Events, { namespace: 'default' });
  assert.deepEqual(
    requests.map(({ method, url }) => `${method} ${url}`),
    [
      'GET /apis/flock.dev/v1alpha1/storagenodes/node-1',
      'POST /apis/flock.dev/v1alpha1/storagenodes',
      'PUT /apis/flock.dev/v1alpha1/storagenodes/node-1/status',
      'PATCH /apis/flock.dev/v1alpha1/storagenodes/node-1/status',
      'POST /apis/coordination.k8s.io/v1/namespaces/flock-system/leases',
      'PATCH /apis/coordination.k8s.io/v1/namespaces/flock-system/leases/l',
      'GET /api/v1/events?labelSelector=a%3Db%2Cc+in+%28d%2Ce%29&fieldSelector=involvedObject.name%3Ddb&limit=7',
      'GET /api/v1/namespaces/default/events',
    ],
  );
  assert.equal(requests[3]?.headers['content-type'], 'application/merge-patch+json');
  assert.equal(requests[3].body, '{"status":null}');
});

test('a delete carries its preconditions, and gives the object also when the server only says Success', async (t) => {
  const { client, requests } = await serving(t, ({ method }, response) =>
    answerWith(response, 200, method === 'DELETE' ? { kind: 'Status', status: 'Success', details: { name: 'node-1' } } : node),
  );
  const gone = await client.delete(StorageNodes, 'node-1', { uid: 'u', resourceVersion: '5' });
  assert.equal(gone.metadata.name, 'node-1');
  assert.deepEqual(JSON.parse(requests.at(-1)?.body ?? '').preconditions, { uid: 'u', resourceVersion: '5' });
});

test("items of Kubernetes' own lists, which do not say what they are, get their kind", async (t) => {
  const { client } = await serving(t, (_, response) =>
    answerWith(response, 200, { items: [{ metadata: { name: 'e' } }], metadata: { resourceVersion: '9' } }),
  );
  const { items, resourceVersion } = await client.list(Events);
  assert.deepEqual([items[0]?.apiVersion, items[0]?.kind, resourceVersion], ['v1', 'Event', '9']);
});

test('a name that would be another path is refused before anybody is asked', async (t) => {
  const { client, requests } = await serving(t, (_, response) => answerWith(response, 200, node));
  for (const name of ['', '.', '..', 'a/b', '../volumes/db', 'a%2fb', 'a\0']) {
    await assert.rejects(client.get(StorageNodes, name), { reason: 'Invalid' }, JSON.stringify(name));
  }
  await assert.rejects(client.get(Leases, 'l'), { reason: 'Invalid', message: /namespace/u });
  assert.equal(requests.length, 0);
  await client.get(StorageNodes, 'a?watch=true#ü').catch(() => {});
  assert.equal(requests[0]?.url, '/apis/flock.dev/v1alpha1/storagenodes/a%3Fwatch%3Dtrue%23%C3%BC');
});

const REFUSALS: [number, object | string, Reason, RegExp][] = [
  [404, status(404, 'NotFound'), 'NotFound', /^said so$/u],
  [404, '404 page not found', 'NotFound', /does not serve storagenodes\.flock\.dev: install/u],
  [409, status(409, 'AlreadyExists'), 'AlreadyExists', /^said so$/u],
  [409, status(409, 'Conflict'), 'Conflict', /^said so$/u],
  [410, status(410, 'Expired'), 'Expired', /^said so$/u],
  [410, status(410, 'Gone'), 'Expired', /^said so$/u],
  [422, status(422, 'Invalid'), 'Invalid', /^said so$/u],
  [400, status(400, 'BadRequest'), 'Invalid', /^said so$/u],
  [401, status(401, 'Unauthorized'), 'Unauthorized', /http:.* does not accept this client's certificate or token: said so/u],
  [403, status(403, 'Forbidden'), 'Forbidden', /^said so$/u],
  [413, 'too large', 'Invalid', /413/u],
  [429, status(429, 'TooManyRequests'), 'Unavailable', /http:.* cannot answer now: said so; try again later/u],
  [500, status(500, 'InternalError'), 'Unavailable', /said so/u],
  [503, 'upstream', 'Unavailable', /HTTP status 503/u],
  [507, status(507, 'InsufficientStorage'), 'NoSpace', /^said so$/u],
  [200, '<html>', 'Unavailable', /answered without JSON/u],
];

for (const [code, body, reason, message] of REFUSALS) {
  const told = typeof body === 'string' ? body : (body as { reason: string }).reason;
  test(`answer ${code} ${told} is ${reason}`, async (t) => {
    const { client } = await serving(t, (_, response) => answerWith(response, code, body));
    await assert.rejects(client.get(StorageNodes, 'node-1'), { reason, message });
  });
}

test('where nobody listens, the error names the server and the way out', async () => {
  const closed = createTcpServer();
  await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve));
  const { port } = closed.address() as AddressInfo;
  await new Promise((resolve) => closed.close(resolve));
  const message = `no server answers at https://127.0.0.1:${port}: is it running? (flockctl up, or --server)`;
  await assert.rejects(httpClient({ server: `https://127.0.0.1:${port}` }).get(StorageNodes, 'node-1'), { reason: 'Unavailable', message });
  await assert.rejects(httpClient({ server: `unix:${tmpdir()}/no-such-socket` }).get(StorageNodes, 'n'), {
    reason: 'Unavailable',
    message: /no server answers at unix:/u,
  });
  for (const server of ['nonsense', 'ftp://host', '']) assert.throws(() => httpClient({ server }), { reason: 'Invalid' }, server);
});

test('a server that does not answer in time is Unavailable, by the clock that was given', async (t) => {
  const clock = fakeClock();
  const { client, requests } = await serving(t, () => {}, { clock });
  const asked = client.get(StorageNodes, 'node-1');
  asked.catch(() => {});
  while (requests.length === 0) await clock.settle();
  await clock.advance(30_000);
  await assert.rejects(asked, { reason: 'Unavailable', message: /did not answer within 30 s/u });
  assert.equal(clock.sleepers(), 0);
});

test('connections are kept; one that the server closed meanwhile is replaced for a reader, and reported to a writer', async (t) => {
  let connections = 0;
  const sockets: Socket[] = [];
  let breakNext = false;
  const { client, server } = await serving(t, (_, response) => {
    if (breakNext) {
      breakNext = false;
      response.socket?.resetAndDestroy();
    } else answerWith(response, 200, node);
  });
  server.on('connection', (socket) => {
    connections += 1;
    sockets.push(socket);
  });
  for (let n = 0; n < 5; n += 1) await client.get(StorageNodes, 'node-1');
  assert.equal(connections, 1);
  breakNext = true;
  await client.get(StorageNodes, 'node-1');
  assert.equal(connections, 2);
  breakNext = true;
  await assert.rejects(client.patch(StorageNodes, 'node-1', {}), { reason: 'Unavailable', message: /connection to http:.* failed/u });
  assert.equal(sockets[1]?.destroyed, true);
});

test('an object above 3 MiB is not sent', async (t) => {
  const { client, requests } = await serving(t, (_, response) => answerWith(response, 200, node));
  await assert.rejects(client.patch(StorageNodes, 'node-1', { spec: 'x'.repeat(4 << 20) }), {
    reason: 'Invalid',
    message: /at most 3145728/u,
  });
  assert.equal(requests.length, 0);
});

test('a server on a unix socket, and a token that is asked for again at each request', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'flock-http-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const seen: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    seen.push(request.headers.authorization);
    answerWith(response, 200, node);
  });
  await listening(server, t, { path: join(folder, 's') });
  let token = 'first';
  const client = httpClient({ server: `unix:${join(folder, 's')}`, token: () => token });
  t.after(() => client.close());
  await client.get(StorageNodes, 'node-1');
  token = 'second';
  await client.get(StorageNodes, 'node-1');
  assert.deepEqual(seen, ['Bearer first', 'Bearer second']);
});

test('listAll goes through the pages, and begins anew when the server forgot where it was', async (t) => {
  let forget = false;
  const { client } = await serving(t, ({ url }, response) => {
    const query = new URL(url, 'http://x').searchParams;
    const from = Number(query.get('continue') ?? 0);
    const limit = Number(query.get('limit') ?? 100);
    if (forget && from > 0) return answerWith(response, 410, status(410, 'Expired'));
    const names = ['a', 'b', 'c', 'd', 'e'].slice(from, from + limit);
    const more = from + limit < 5 ? { continue: String(from + limit) } : {};
    answerWith(response, 200, { items: names.map((name) => ({ metadata: { name } })), metadata: { resourceVersion: '9', ...more } });
  });
  for (forget of [false, true]) {
    const { items, resourceVersion } = await listAll(client, StorageNodes, { limit: 2 });
    assert.deepEqual([items.map(({ metadata }) => metadata.name).join(''), resourceVersion], ['abcde', '9']);
  }
});

/** Resolves once the server has no connection left. */
function noConnection(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void =>
      void server.getConnections((_, count) => {
        if (count === 0) resolve();
        else setImmediate(look);
      });
    look();
  });
}

const told = <T extends StorageNode>(event: WatchEvent<T>): string =>
  event.type === 'BOOKMARK' ? `BOOKMARK ${event.resourceVersion}` : `${event.type} ${event.object.metadata.name}`;

const line = (type: string, name: string): string =>
  `${JSON.stringify({ type, object: { ...node, metadata: { ...node.metadata, name } } })}\n`;

test('a watch gives each event, however the bytes were cut, and ends when the server ends it', async (t) => {
  const bytes = Buffer.from(`${line('ADDED', 'é')}${line('MODIFIED', 'b')}${line('BOOKMARK', '')}${line('DELETED', 'c')}`);
  const { client, requests } = await serving(t, (_, response) => {
    response.writeHead(200).flushHeaders();
    const send = (from: number): void => {
      if (from >= bytes.length) response.end();
      else response.write(bytes.subarray(from, from + 7), () => send(from + 7));
    };
    send(0);
  });
  const events: string[] = [];
  for await (const event of client.watch(StorageNodes, { resourceVersion: '4', labelSelector: 'a=b' })) events.push(told(event));
  assert.deepEqual(events, ['ADDED é', 'MODIFIED b', 'BOOKMARK 5', 'DELETED c']);
  assert.equal(
    requests[0]?.url,
    '/apis/flock.dev/v1alpha1/storagenodes?watch=true&allowWatchBookmarks=true&resourceVersion=4&labelSelector=a%3Db',
  );
});

test('a watch from a version too old throws Expired, whether the answer or the stream says so', async (t) => {
  for (const [code, body] of [
    [410, JSON.stringify(status(410, 'Expired'))],
    [200, `${JSON.stringify({ type: 'ERROR', object: status(410, 'Expired') })}\n`],
  ] as const) {
    const { client } = await serving(t, (_, response) => answerWith(response, code, body));
    await assert.rejects(
      async () => {
        for await (const event of client.watch(StorageNodes, { resourceVersion: '4' })) assert.fail(told(event));
      },
      { reason: 'Expired' },
    );
  }
});

test('a watch ends with its signal, at once and without an error', async (t) => {
  const { client, server } = await serving(t, (_, response) => response.writeHead(200).write(line('ADDED', 'a')));
  const stop = new AbortController();
  const events: string[] = [];
  for await (const event of client.watch(StorageNodes, { resourceVersion: '4', signal: stop.signal })) {
    events.push(told(event));
    setImmediate(() => stop.abort());
  }
  assert.deepEqual(events, ['ADDED a']);
  for await (const event of client.watch(StorageNodes, { resourceVersion: '4', signal: stop.signal })) assert.fail(told(event));
  await noConnection(server);
});

test('leaving a watch early closes its connection', async (t) => {
  const { client, server } = await serving(t, (_, response) => response.writeHead(200).write(line('ADDED', 'a')));
  for await (const event of client.watch(StorageNodes, { resourceVersion: '4' })) {
    assert.equal(told(event), 'ADDED a');
    break;
  }
  await noConnection(server);
});

test('a watch without a byte for a minute ends by itself; any byte keeps it', async (t) => {
  const clock = fakeClock();
  let write = (_: string): void => {};
  const { client } = await serving(
    t,
    (_, response) => {
      response.writeHead(200).flushHeaders();
      write = (text) => void response.write(text);
    },
    { clock },
  );
  const events: string[] = [];
  let ended = false;
  const watching = (async () => {
    for await (const event of client.watch(StorageNodes, { resourceVersion: '4' })) events.push(told(event));
    ended = true;
  })();
  while (clock.sleepers() !== 1 || events.length === 0) {
    if (events.length === 0) write(line('ADDED', 'a'));
    await clock.settle();
  }
  await clock.advance(59_000);
  const before = events.length;
  write(line('ADDED', 'b'));
  while (events.length === before) await clock.settle();
  await clock.advance(59_000);
  assert.equal(ended, false);
  await clock.advance(1_000);
  await watching;
  assert.equal(ended, true);
});

test('a watch whose connection breaks throws Unavailable', async (t) => {
  const { client } = await serving(t, (_, response) => {
    response.writeHead(200).write(line('ADDED', 'a'), () => response.socket?.resetAndDestroy());
  });
  await assert.rejects(
    async () => {
      for await (const event of client.watch(StorageNodes, { resourceVersion: '4' })) told(event);
    },
    (error) => error instanceof FlockError && error.reason === 'Unavailable',
  );
});

test('what answers but does not speak HTTP is Unavailable', async (t) => {
  const server = createTcpServer((socket) => void socket.resume().end('SSH-2.0-x\r\n'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => new Promise((resolve) => server.close(resolve)));
  const { port } = server.address() as AddressInfo;
  await assert.rejects(httpClient({ server: `http://127.0.0.1:${port}` }).get(StorageNodes, 'n'), { reason: 'Unavailable' });
});

test('what a TLS or network error means', () => {
  const cases: [string, Reason, RegExp][] = [
    ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'Unauthorized', /refused this client's certificate \(unknown ca\)/u],
    ['ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED', 'Unauthorized', /\(certificate expired\)/u],
    ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'Unauthorized', /\(certificate required\)/u],
    ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', 'Unavailable', /connection to https:\/\/s failed/u],
    ['SELF_SIGNED_CERT_IN_CHAIN', 'Unauthorized', /not of the authority/u],
    ['CERT_HAS_EXPIRED', 'Unauthorized', /clocks/u],
    ['ENOTFOUND', 'Unavailable', /cannot be resolved/u],
    ['EHOSTUNREACH', 'Unavailable', /no server answers/u],
    ['EPIPE', 'Unavailable', /try again later/u],
  ];
  for (const [code, reason, message] of cases) {
    const error = unreachable('https://s', Object.assign(new Error(code), { code }));
    assert.equal(error.reason, reason, code);
    assert.match(error.message, message);
  }
});

test('it knows its own address once the server answered', async (t) => {
  const { client } = await serving(t, (_request, response) => answerWith(response, 200, { items: [], metadata: {} }));
  assert.equal(client.localAddress(), null);
  await client.list(StorageNodes);
  assert.equal(client.localAddress(), '127.0.0.1');
});
