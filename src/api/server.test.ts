// The server over real sockets: the contract over HTTPS and SQLite, who is let in, and what is answered to requests that are not ours.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { systemClock } from '../model/clock.ts';
import { isReason, type Reason } from '../model/errors.ts';
import { GROUP_VERSION } from '../model/meta.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import { fakeClock, type FakeClock } from '../testing/fake-clock.ts';
import { keptLog } from '../testing/kept-log.ts';
import { memorySettings } from '../testing/memory-settings.ts';
import { openAuthority, requestCertificate, type Authority, type Credentials } from './certificates.ts';
import type { Client } from './client.ts';
import { clientContract } from './contract.ts';
import { isRevoked } from './enrolment.ts';
import { httpClient, type HttpClient } from './http-client.ts';
import { LocalClient } from './local-client.ts';
import { Registry } from './registry.ts';
import { startServer, type RunningServer, type ServerOptions } from './server.ts';
import { openDatabase } from './sqlite-table.ts';
import { MemoryTable } from './table.ts';

const tlsOf = ({ certificate, key }: Credentials, authority: string): NonNullable<ServerOptions['tls']> => ({
  certificate,
  key,
  authority,
});

clientContract('the server over HTTPS and SQLite', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'flock-server-'));
  const database = openDatabase(join(directory, 'flock.db'));
  const authority = await openAuthority(database.settings, systemClock);
  const registry = new Registry({ table: database.table, clock: systemClock, uid: randomUUID });
  const tls = tlsOf(await authority.issueServer(['127.0.0.1']), authority.bundle);
  const server = await startServer({ registry, listen: { host: '127.0.0.1', port: 0 }, tls, clock: systemClock, log: keptLog() });
  const admin = await authority.issueAdmin();
  const client = httpClient({ server: server.address, authority: () => authority.bundle, identity: () => admin });
  const close = async (): Promise<void> => {
    client.close();
    await server.close();
    database.close();
    rmSync(directory, { recursive: true });
  };
  return { client, namespace: 'flock-system', close };
});

interface Secure {
  authority: Authority;
  server: RunningServer;
  registry: Registry;
  local: Client;
  /** A client with this certificate, null: with none. */
  as: (identity: { certificate: string; key: string } | null) => HttpClient;
}

async function secure(t: TestContext, more: Partial<ServerOptions> = {}): Promise<Secure> {
  const authority = await openAuthority(memorySettings(), systemClock);
  const registry = new Registry({ table: new MemoryTable(), clock: systemClock, uid: randomUUID });
  const local = new LocalClient({ registry, clock: systemClock });
  const tls = tlsOf(await authority.issueServer(['127.0.0.1']), authority.bundle);
  const server = await startServer({
    registry,
    listen: { host: '127.0.0.1', port: 0 },
    tls,
    isRevoked: (certificate) => isRevoked(local, certificate),
    clock: systemClock,
    log: keptLog(),
    ...more,
  });
  t.after(() => server.close());
  const as: Secure['as'] = (identity) => {
    const client = httpClient({
      server: server.address,
      authority: () => authority.bundle,
      ...(identity ? { identity: () => identity } : {}),
    });
    t.after(() => client.close());
    return client;
  };
  return { authority, server, registry, local, as };
}

async function nodeIdentity({ authority, local }: Secure, node: string): Promise<{ certificate: string; key: string }> {
  const { metadata } = await local.create(StorageNodes, { apiVersion: GROUP_VERSION, kind: 'StorageNode', metadata: { name: node } });
  const { csr, key } = await requestCertificate();
  return { key, certificate: await authority.issueNode(csr, { node, uid: metadata.uid }) };
}

const volume = (name: string): Volume => ({ apiVersion: GROUP_VERSION, kind: 'Volume', metadata: { name }, spec: { size: '1Gi' } });

const refusedAs =
  (reason: Reason, message: RegExp) =>
  (error: unknown): true => {
    assert.ok(isReason(error, reason), `expected ${reason}, got ${String(error)}`);
    assert.match(error.message, message);
    return true;
  };

describe('who is let in', () => {
  it('is nobody without a certificate', async (t) => {
    const world = await secure(t);
    await assert.rejects(world.as(null).list(Volumes), refusedAs('Unauthorized', /no client certificate was shown/u));
  });

  it('is nobody with another authority’s certificate', async (t) => {
    const world = await secure(t);
    const other = await openAuthority(memorySettings(), systemClock);
    const client = world.as(await other.issueAdmin());
    await assert.rejects(client.list(Volumes), refusedAs('Unauthorized', /certificate/u));
  });

  it('is a node, to read all and to write its own', async (t) => {
    const world = await secure(t);
    await world.local.create(Volumes, volume('db'));
    const client = world.as(await nodeIdentity(world, 'n1'));
    assert.equal((await client.list(Volumes)).items.length, 1);
    const own = { status: { copies: { c1: { node: 'n1', pool: 'local', role: 'active' } } } };
    await client.patch(Volumes, 'db', own, { subresource: 'status' });
    const another = { status: { copies: { c2: { node: 'n2', pool: 'local', role: 'active' } } } };
    await assert.rejects(
      client.patch(Volumes, 'db', another, { subresource: 'status' }),
      refusedAs(
        'Forbidden',
        /volumes\.flock\.dev "db" is forbidden: "flock:node:n1" \(flock:nodes\) may not change status\.copies\.c2: that copy is on node "n2"/u,
      ),
    );
    await assert.rejects(client.delete(Volumes, 'db'), refusedAs('Forbidden', /may not delete it/u));
  });

  it('is no node any more whose StorageNode is gone, or another of the same name', async (t) => {
    const world = await secure(t);
    const client = world.as(await nodeIdentity(world, 'n1'));
    await client.list(Volumes);
    await world.local.delete(StorageNodes, 'n1');
    await assert.rejects(client.list(Volumes), refusedAs('Unauthorized', /flock:node:n1 was revoked/u));
    const again = world.as(await nodeIdentity(world, 'n1'));
    await again.list(Volumes);
    await assert.rejects(client.list(Volumes), refusedAs('Unauthorized', /was revoked/u));
  });

  it('is anybody who asks for health, and for a route that judges for itself', async (t) => {
    const peers: unknown[] = [];
    const route = async ({ body, peer }: { body: unknown; peer: { user: string } | null }): Promise<object> => {
      peers.push(peer?.user ?? null);
      return { echo: body ?? null };
    };
    const world = await secure(t, { routes: { '/enrol': route } });
    const ask = (path: string, init: { method?: string; body?: string } = {}): Promise<unknown> =>
      new Promise((resolve, reject) => {
        const options = { method: init.method ?? 'GET', ca: world.authority.bundle };
        const request = httpsRequest(`${world.server.address}${path}`, options, (response) => {
          response.setEncoding('utf8');
          let text = '';
          response.on('data', (chunk: string) => (text += chunk));
          response.on('end', () => resolve(text));
        });
        request.on('error', reject);
        request.end(init.body);
      });
    for (const path of ['/healthz', '/readyz', '/livez']) assert.equal(await ask(path), 'ok');
    assert.equal(await ask('/enrol', { method: 'POST', body: '{"a":1}' }), '{"echo":{"a":1}}');
    assert.equal(await ask('/enrol'), '{"echo":null}');
    assert.deepEqual(peers, [null, null]);
    assert.match(String(await ask('/version')), /Unauthorized/u);
  });

  it('keeps its connections when the server’s certificate is renewed', async (t) => {
    const world = await secure(t);
    const client = world.as(await world.authority.issueAdmin());
    await client.create(Volumes, volume('a'));
    world.server.renew(tlsOf(await world.authority.issueServer(['127.0.0.1']), world.authority.bundle));
    await client.create(Volumes, volume('b'));
    assert.equal((await world.as(await world.authority.issueAdmin()).list(Volumes)).items.length, 2);
  });

  it('loses its watch with its right', async (t) => {
    const clock = fakeClock(systemClock.now());
    const world = await secure(t, { clock });
    const client = world.as(await nodeIdentity(world, 'n1'));
    await world.local.create(Volumes, volume('db'));
    const seen: string[] = [];
    const watching = (async (): Promise<void> => {
      for await (const { type } of client.watch(Volumes, { resourceVersion: '0' })) {
        seen.push(type);
        await world.local.delete(StorageNodes, 'n1');
      }
    })();
    await eventually(clock, () => seen.length === 1);
    await clock.advance(30_000);
    await watching;
    assert.deepEqual(seen, ['ADDED']);
  });
});

async function eventually(clock: FakeClock, condition: () => boolean): Promise<void> {
  const until = Date.now() + 10_000;
  while (!condition()) {
    assert.ok(Date.now() < until, 'it did not come to be within 10 s');
    await clock.settle();
  }
}

interface Heard {
  code: number;
  headers: { [name: string]: string | string[] | undefined };
  text: string;
  json: { [field: string]: unknown } & { message?: string; reason?: string; items?: unknown[] };
}

interface Plain {
  registry: Registry;
  clock: FakeClock;
  address: string;
  ask: (method: string, path: string, more?: { body?: string; headers?: { [name: string]: string } }) => Promise<Heard>;
}

const VOLUMES = '/apis/flock.dev/v1alpha1/volumes';
const EVERYBODY = { user: 'admin', groups: ['flock:admins'], certificate: null };

async function plain(t: TestContext): Promise<Plain> {
  const clock = fakeClock(systemClock.now());
  const registry = new Registry({ table: new MemoryTable(), clock, uid: randomUUID });
  const server = await startServer({ registry, listen: { host: '127.0.0.1', port: 0 }, everybody: EVERYBODY, clock, log: keptLog() });
  t.after(() => server.close());
  const ask: Plain['ask'] = (method, path, { body, headers = {} } = {}) =>
    new Promise((resolve, reject) => {
      // Without a length a DELETE's body would not be told from the next request.
      const sized = body === undefined ? headers : { ...headers, 'content-length': String(Buffer.byteLength(body)) };
      const asked = httpRequest(`${server.address}${path}`, { method, headers: sized }, (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => (text += chunk));
        response.on('error', reject);
        response.on('end', () => {
          const json = text.startsWith('{') && !text.includes('}\n') ? (JSON.parse(text) as Heard['json']) : {};
          resolve({ code: response.statusCode ?? 0, headers: response.headers, text, json });
        });
      });
      asked.on('error', reject);
      asked.end(body);
    });
  return { registry, clock, address: server.address, ask };
}

const JSON_TYPE = { 'content-type': 'application/json' };
const MERGE = { 'content-type': 'application/merge-patch+json' };
const AS_TABLE = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json' };

describe('a request', () => {
  for (const [what, method, path, more, code, reason] of [
    ['that is no JSON', 'POST', VOLUMES, { body: '{"a":', headers: JSON_TYPE }, 400, 'BadRequest'],
    ['that is no YAML', 'POST', VOLUMES, { body: 'a: [', headers: { 'content-type': 'application/yaml' } }, 400, 'BadRequest'],
    ['that is a list', 'POST', VOLUMES, { body: '[]', headers: JSON_TYPE }, 400, 'BadRequest'],
    ['without a body', 'POST', VOLUMES, {}, 400, 'BadRequest'],
    ['of more than 3 MiB', 'POST', VOLUMES, { body: ' '.repeat(3 * 2 ** 20 + 1), headers: JSON_TYPE }, 413, 'RequestEntityTooLarge'],
    [
      'in protobuf',
      'POST',
      VOLUMES,
      { body: 'x', headers: { 'content-type': 'application/vnd.kubernetes.protobuf' } },
      415,
      'UnsupportedMediaType',
    ],
    [
      'of a JSON patch',
      'PATCH',
      `${VOLUMES}/db`,
      { body: '[]', headers: { 'content-type': 'application/json-patch+json' } },
      415,
      'UnsupportedMediaType',
    ],
    [
      'of a server-side apply',
      'PATCH',
      `${VOLUMES}/db`,
      { body: '{}', headers: { 'content-type': 'application/apply-patch+yaml' } },
      415,
      'UnsupportedMediaType',
    ],
    [
      'for an answer in protobuf alone',
      'GET',
      VOLUMES,
      { headers: { accept: 'application/vnd.kubernetes.protobuf' } },
      406,
      'NotAcceptable',
    ],
    ['for what is not there', 'GET', '/apis/apps/v1/deployments', {}, 404, 'NotFound'],
    ['for a path that cannot be decoded', 'GET', `${VOLUMES}/%ff`, {}, 400, 'BadRequest'],
    ['for a path that climbs', 'GET', `${VOLUMES}/..%2f..%2fx`, {}, 404, 'NotFound'],
    ['to delete everything', 'DELETE', VOLUMES, {}, 405, 'MethodNotAllowed'],
    ['to delete a status', 'DELETE', `${VOLUMES}/db/status`, {}, 405, 'MethodNotAllowed'],
    ['with a limit that is none', 'GET', `${VOLUMES}?limit=many`, {}, 400, 'BadRequest'],
    ['with a dry run that is none', 'POST', `${VOLUMES}?dryRun=Some`, { body: '{}', headers: JSON_TYPE }, 400, 'BadRequest'],
    [
      'with an unknown sort of validation',
      'POST',
      `${VOLUMES}?fieldValidation=Hard`,
      { body: '{}', headers: JSON_TYPE },
      400,
      'BadRequest',
    ],
  ] as [string, string, string, { body?: string; headers?: { [name: string]: string } }, number, string][]) {
    it(`${what} is answered with ${code}`, async (t) => {
      const { ask, registry } = await plain(t);
      registry.create(Volumes, volume('db'));
      const heard = await ask(method, path, more);
      assert.equal(heard.code, code);
      const { kind, status, reason: told, code: inside, message } = heard.json;
      assert.deepEqual({ kind, status, told, inside }, { kind: 'Status', status: 'Failure', told: reason, inside: code });
      assert.ok(message);
    });
  }

  it('may come in chunks without a length, and is cut off when it is too large', async (t) => {
    const { address } = await plain(t);
    const code = await new Promise((resolve, reject) => {
      const asked = httpRequest(`${address}${VOLUMES}`, { method: 'POST', headers: JSON_TYPE }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      asked.on('error', reject);
      for (let megabytes = 0; megabytes < 4; megabytes += 1) asked.write(' '.repeat(2 ** 20));
      asked.end();
    });
    assert.equal(code, 413);
  });

  it('may be YAML', async (t) => {
    const { ask } = await plain(t);
    const body = `apiVersion: ${GROUP_VERSION}\nkind: Volume\nmetadata: {name: db}\nspec: {size: 1Gi}\n`;
    const heard = await ask('POST', `${VOLUMES}?fieldManager=test`, { body, headers: { 'content-type': 'application/yaml' } });
    assert.equal(heard.code, 201);
  });

  it('with fields that nobody knows is warned of, or refused when it asks to be strict', async (t) => {
    const { ask } = await plain(t);
    const body = JSON.stringify({ ...volume('db'), spec: { size: '1Gi', größe: 1 } });
    const strict = await ask('POST', `${VOLUMES}?fieldValidation=Strict`, { body, headers: JSON_TYPE });
    assert.equal(strict.code, 400);
    assert.match(strict.json.message ?? '', /strict decoding error: unknown field "spec.größe"$/u);
    const warned = await ask('POST', VOLUMES, { body, headers: JSON_TYPE });
    assert.deepEqual([warned.code, warned.headers['warning']], [201, '299 - "unknown field \\"spec.gr??e\\""']);
    const ignored = await ask('PATCH', `${VOLUMES}/db?fieldValidation=Ignore`, { body: '{"spec":{"x":1}}', headers: MERGE });
    assert.deepEqual([ignored.code, ignored.headers['warning']], [200, undefined]);
  });

  it('that runs dry changes nothing', async (t) => {
    const { ask, registry } = await plain(t);
    registry.create(Volumes, volume('db'));
    await ask('PATCH', `${VOLUMES}/db?dryRun=All`, { body: '{"spec":{"size":"2Gi"}}', headers: MERGE });
    await ask('DELETE', `${VOLUMES}/db`, { body: '{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}', headers: JSON_TYPE });
    const heard = await ask('DELETE', `${VOLUMES}/db?dryRun=All`);
    assert.equal(heard.code, 200);
    assert.equal(registry.get(Volumes, 'db').spec.size, '1Gi');
  });
});

describe('an answer', () => {
  it('to a delete is the object while it is held, and a Success when nothing is left', async (t) => {
    const { ask, registry } = await plain(t);
    const { metadata } = registry.create(Volumes, { ...volume('db'), metadata: { name: 'db', finalizers: ['flock.dev/x'] } });
    const held = await ask('DELETE', `${VOLUMES}/db`);
    assert.equal(held.json['kind'], 'Volume');
    registry.patch(Volumes, 'db', { metadata: { finalizers: null } });
    registry.create(Volumes, volume('free'));
    const gone = await ask('DELETE', `${VOLUMES}/free`);
    assert.deepEqual([gone.json['kind'], gone.json['status']], ['Status', 'Success']);
    assert.ok(metadata.uid);
  });

  it('can be a table, page by page', async (t) => {
    const { ask, registry } = await plain(t);
    for (const name of ['a', 'b', 'c']) registry.create(Volumes, volume(name));
    const { json } = await ask('GET', `${VOLUMES}?limit=2`, { headers: AS_TABLE });
    assert.equal(json['kind'], 'Table');
    const rows = json['rows'] as { cells: string[] }[];
    assert.deepEqual(
      rows.map(({ cells }) => cells.slice(0, 2)),
      [
        ['a', '1Gi'],
        ['b', '1Gi'],
      ],
    );
    const next = encodeURIComponent(String((json['metadata'] as { continue: string }).continue));
    const rest = await ask('GET', `${VOLUMES}?limit=2&continue=${next}`, { headers: AS_TABLE });
    assert.equal((rest.json['rows'] as unknown[]).length, 1);
  });

  it('lists objects with their kind', async (t) => {
    const { ask, registry } = await plain(t);
    registry.create(Volumes, volume('a'));
    const { json } = await ask('GET', VOLUMES);
    assert.deepEqual([json['kind'], json['apiVersion'], json.items?.length], ['VolumeList', GROUP_VERSION, 1]);
  });

  it('documents all that is served', async (t) => {
    const { ask } = await plain(t);
    const index = (await ask('GET', '/openapi/v3')).json as { paths: { [path: string]: { serverRelativeURL: string } } };
    assert.deepEqual(Object.keys(index.paths).toSorted(), ['api/v1', 'apis/coordination.k8s.io/v1', 'apis/flock.dev/v1alpha1']);
    for (const { serverRelativeURL } of Object.values(index.paths)) {
      assert.equal((await ask('GET', serverRelativeURL)).json['openapi'], '3.0.0');
    }
    for (const path of ['/api', '/apis', '/api/v1', '/apis/flock.dev', '/apis/flock.dev/v1alpha1', '/version']) {
      assert.equal((await ask('GET', path)).code, 200, path);
    }
  });
});

const linesOf = (text: string): { type: string; object: { [field: string]: unknown } }[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as { type: string; object: { [field: string]: unknown } });

describe('a watch over HTTP', () => {
  it('ends after the time that was asked for, with bookmarks on the way', async (t) => {
    const { ask, registry, clock } = await plain(t);
    registry.create(Volumes, volume('db'));
    const heard = ask('GET', `${VOLUMES}?watch=1&resourceVersion=0&allowWatchBookmarks=true&timeoutSeconds=60`);
    await eventually(clock, () => clock.sleepers() === 1);
    await clock.advance(60_000);
    const lines = linesOf((await heard).text);
    assert.deepEqual(
      lines.map(({ type }) => type),
      ['ADDED', 'BOOKMARK', 'BOOKMARK', 'BOOKMARK'],
    );
    assert.deepEqual(lines[1]?.object['metadata'], { resourceVersion: registry.version, creationTimestamp: null });
  });

  it('has no bookmarks for who does not ask for them', async (t) => {
    const { ask, clock } = await plain(t);
    const heard = ask('GET', `${VOLUMES}?watch=true&timeoutSeconds=60`);
    await eventually(clock, () => clock.sleepers() === 1);
    await clock.advance(60_000);
    assert.equal((await heard).text, '');
  });

  it('tells what is there and then that this was all, when it is asked so', async (t) => {
    const { ask, registry, clock } = await plain(t);
    registry.create(Volumes, volume('db'));
    const query = 'watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1';
    const heard = ask('GET', `${VOLUMES}?${query}`);
    await eventually(clock, () => clock.sleepers() === 1);
    await clock.advance(1_000);
    const [added, all] = linesOf((await heard).text);
    assert.equal(added?.type, 'ADDED');
    assert.equal(all?.type, 'BOOKMARK');
    assert.match(JSON.stringify(all.object), /"annotations":\{"k8s\.io\/initial-events-end":"true"\}/u);
  });

  it('comes as rows to who asks for a table', async (t) => {
    const { ask, registry, clock } = await plain(t);
    registry.create(Volumes, volume('db'));
    const heard = ask('GET', `${VOLUMES}?watch=1&timeoutSeconds=1`, { headers: AS_TABLE });
    await eventually(clock, () => clock.sleepers() === 1);
    await clock.advance(1_000);
    const [line] = linesOf((await heard).text);
    assert.deepEqual([line?.type, line?.object['kind']], ['ADDED', 'Table']);
  });

  it('from a version that is too old is told so on the stream', async (t) => {
    const { ask } = await plain(t);
    const heard = await ask('GET', `${VOLUMES}?watch=1&resourceVersion=99`);
    const [line] = linesOf(heard.text);
    assert.deepEqual([heard.code, line?.type, line?.object['code'], line?.object['reason']], [200, 'ERROR', 410, 'Expired']);
  });

  it('stops working for a client that has gone', async (t) => {
    const { address, clock } = await plain(t);
    const client = httpClient({ server: address });
    t.after(() => client.close());
    const end = new AbortController();
    const watching = (async (): Promise<void> => {
      for await (const told of client.watch(Volumes, { resourceVersion: '0', signal: end.signal })) assert.ok(told);
    })();
    await eventually(clock, () => clock.sleepers() === 1);
    end.abort();
    await watching;
    await eventually(clock, () => clock.sleepers() === 0);
  });
});

describe('where a server listens', () => {
  it('is never in the open without TLS', async () => {
    const registry = new Registry({ table: new MemoryTable(), clock: systemClock, uid: randomUUID });
    const options = { registry, listen: { host: '0.0.0.0', port: 0 }, everybody: EVERYBODY, clock: systemClock, log: keptLog() };
    await assert.rejects(startServer(options), refusedAs('Invalid', /without TLS/u));
  });

  it('may be a socket for its owner only, also where a killed server left one', async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'flock-server-'));
    t.after(() => rmSync(directory, { recursive: true }));
    const socket = join(directory, 'api.sock');
    writeFileSync(socket, '');
    const registry = new Registry({ table: new MemoryTable(), clock: systemClock, uid: randomUUID });
    const options = { registry, listen: { socket }, everybody: EVERYBODY, clock: systemClock, log: keptLog() };
    const server = await startServer(options);
    t.after(() => server.close());
    assert.equal(statSync(socket).mode & 0o777, 0o600);
    const client = httpClient({ server: server.address });
    t.after(() => client.close());
    assert.deepEqual((await client.list(Volumes)).items, []);
    await assert.rejects(startServer(options), refusedAs('InUse', /another server answers/u));
  });

  it('is told when it is taken', async (t) => {
    const taken = createServer();
    t.after(() => taken.close());
    const port = await new Promise<number>((resolve) => {
      taken.listen(0, '127.0.0.1', () => resolve((taken.address() as { port: number }).port));
    });
    const registry = new Registry({ table: new MemoryTable(), clock: systemClock, uid: randomUUID });
    const options = { registry, listen: { host: '127.0.0.1', port }, everybody: EVERYBODY, clock: systemClock, log: keptLog() };
    await assert.rejects(startServer(options), refusedAs('Unavailable', /cannot listen/u));
  });
});

const run = promisify(execFile);
const kubectlThere = await run('kubectl', ['version', '--client']).then(
  () => true,
  () => false,
);

describe('kubectl', { skip: kubectlThere ? false : 'needs kubectl on the PATH' }, () => {
  it('gets, applies, explains, patches, describes, waits for and deletes our kinds', async (t) => {
    const { address, registry } = await plain(t);
    const directory = mkdtempSync(join(tmpdir(), 'flock-kubectl-'));
    t.after(() => rmSync(directory, { recursive: true }));
    const kubectl = async (...words: string[]): Promise<string> => {
      const options = { env: { ...process.env, KUBECONFIG: join(directory, 'none'), HOME: directory } };
      return (await run('kubectl', ['--server', address, '--cache-dir', directory, ...words], options)).stdout;
    };
    const file = join(directory, 'db.yaml');
    const applied = (size: string): Promise<string> => {
      writeFileSync(file, `apiVersion: ${GROUP_VERSION}\nkind: Volume\nmetadata: {name: db}\nspec: {size: ${size}}\n`);
      return kubectl('apply', '-f', file);
    };
    assert.match(await applied('1Gi'), /volume\.flock\.dev\/db created/u);
    assert.match(await applied('2Gi'), /configured/u);
    assert.match(await kubectl('get', 'fvol'), /NAME +SIZE +POOL +NODE[^]*db +2Gi/u);
    assert.match(await kubectl('explain', 'volume.spec.size'), /FIELD: size <string>[^]*Grows only/u);
    assert.match(await kubectl('patch', 'volume', 'db', '--type', 'merge', '-p', '{"spec":{"size":"3Gi"}}'), /patched/u);
    await assert.rejects(kubectl('patch', 'volume', 'db', '--type', 'merge', '-p', '{"spec":{"size":"1Gi"}}'), /a volume cannot shrink/u);
    assert.match(await kubectl('describe', 'volume', 'db'), /Size: +3Gi/u);
    assert.match(await kubectl('wait', 'volume/db', '--for=jsonpath={.spec.size}=3Gi', '--timeout=10s'), /condition met/u);
    assert.match(await kubectl('delete', 'volume', 'db'), /deleted/u);
    assert.deepEqual(registry.list(Volumes).items, []);
  });
});
