import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { systemClock, type Clock } from '../model/clock.ts';
import { GROUP_VERSION } from '../model/meta.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { testRecords, testServer } from '../testing/enrolment-server.ts';
import { fakeClock } from '../testing/fake-clock.ts';
import { keptLog } from '../testing/kept-log.ts';
import { memorySettings } from '../testing/memory-settings.ts';
import {
  certificatesIn,
  fingerprintOf,
  openAuthority,
  renewIn,
  type NodeIdentity,
  requestCertificate,
  type Authority,
  type Credentials,
} from './certificates.ts';
import type { Client } from './client.ts';
import { enrolmentRoutes, invite, isRevoked, readInvitation } from './enrolment.ts';
import { connectTo } from './http-connection.ts';
import { httpClient, type HttpClient } from './http-client.ts';
import { enrolHost, keepRenewed, readIdentity, writeIdentity } from './node-identity.ts';
import { certificateOf, nodeOf } from './peer.ts';

interface Cluster {
  authority: Authority;
  records: Client;
  server: string;
}

async function clusterOf(t: TestContext, clock: Clock = systemClock): Promise<Cluster> {
  const authority = await openAuthority(memorySettings(), clock);
  const records = testRecords(systemClock);
  return { authority, records: records.client, server: await testServer(t, authority, records) };
}

function clientOf(t: TestContext, server: string, identity: Credentials): HttpClient {
  const client = httpClient({ server, identity: () => identity, authority: () => identity.authority });
  t.after(() => client.close());
  return client;
}

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'flock-enrol-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The authority, but for what `instead` gives. */
function altered(authority: Authority, instead: (name: string | symbol) => unknown): Authority {
  return new Proxy(authority, {
    get: (target, name) => {
      const other = instead(name);
      if (other !== undefined) return other;
      const own: unknown = Reflect.get(target, name, target);
      return typeof own === 'function' ? own.bind(target) : own;
    },
  });
}

const storageNode = (name: string) => ({ apiVersion: GROUP_VERSION, kind: 'StorageNode', metadata: { name } });

test('a host with an invitation becomes a node: its StorageNode is there, and it is known to the server', async (t) => {
  const { authority, records, server } = await clusterOf(t);
  const identity = await enrolHost({ server, token: invite(authority), node: 'node-1' });
  const { uid } = (await records.get(StorageNodes, 'node-1')).metadata;
  assert.deepEqual(nodeOf(identity.certificate), { cluster: authority.cluster, node: 'node-1', uid });
  assert.equal(identity.cluster, authority.cluster);
  assert.equal(identity.authority, authority.bundle);
  const patched = await clientOf(t, server, identity).patch(
    StorageNodes,
    'node-1',
    { status: { kernel: '6.1' } },
    { subresource: 'status' },
  );
  assert.equal(patched.status?.kernel, '6.1');
});

test('the secret of an invitation is not kept, and its authority is in it', async () => {
  const settings = memorySettings();
  const authority = await openAuthority(settings, systemClock);
  const token = invite(authority, { node: 'node-1' });
  const { secret, fingerprints } = readInvitation(token);
  assert.equal(Buffer.from(secret, 'base64url').length, 32);
  assert.deepEqual(fingerprints, certificatesIn(authority.bundle).map(fingerprintOf));
  for (const name of settings.names('')) assert.ok(!`${name} ${settings.get(name)}`.includes(secret));
  for (const text of ['', 'flock-invite', 'flock-invite.x.y', token.slice(0, -1), `${token}.`, token.replace('flock', 'other')]) {
    assert.throws(() => readInvitation(text), { reason: 'Invalid', message: /not an invitation/u }, text);
  }
});

test('an invitation that was used, is over, or was never made is refused, each in its own words', async (t) => {
  const clock = fakeClock(Date.now());
  const { authority, server } = await clusterOf(t, clock);
  const used = invite(authority);
  await enrolHost({ server, token: used, node: 'node-1' });
  const late = invite(authority);
  await clock.advance(3_600_000);
  const unknown = ['flock-invite', 'A'.repeat(43), ...authority.fingerprints].join('.');
  const cases: [string, RegExp][] = [
    [used, /used already, by node node-1: make a new one with: flockctl server invite --node node-1/u],
    [late, /expired at .*: make a new one/u],
    [unknown, /not known here: make a new one/u],
  ];
  for (const [token, message] of cases)
    await assert.rejects(enrolHost({ server, token, node: 'node-2' }), { reason: 'Forbidden', message });
  await clock.advance(8 * 24 * 3_600_000);
  invite(authority);
  await assert.rejects(enrolHost({ server, token: used, node: 'node-2' }), { reason: 'Forbidden', message: /not known here/u });
});

test('of two hosts that come with one invitation at once, one is enrolled', async (t) => {
  const { authority, records, server } = await clusterOf(t);
  const token = invite(authority);
  const results = await Promise.allSettled(['node-1', 'node-2', 'node-3'].map((node) => enrolHost({ server, token, node })));
  const refused = results.flatMap((result) => (result.status === 'rejected' ? [(result.reason as Error).message] : []));
  assert.equal(refused.length, 2);
  for (const message of refused) assert.match(message, /used already/u);
  assert.equal((await records.list(StorageNodes)).items.length, 1);
});

test('an invitation for one node is for no other; refused, it is still good', async (t) => {
  const { authority, server } = await clusterOf(t);
  const token = invite(authority, { node: 'node-1' });
  const message = /is for node node-1, not for node-2: make a new one with: flockctl server invite --node node-2/u;
  await assert.rejects(enrolHost({ server, token, node: 'node-2' }), { reason: 'Forbidden', message });
  await assert.rejects(enrolHost({ server, token, node: '../etc' }), { reason: 'Invalid', message: /node name/u });
  assert.equal((await enrolHost({ server, token, node: 'node-1' })).node, 'node-1');
  assert.throws(() => invite(authority, { node: 'a/b' }), { reason: 'Invalid' });
});

test('the name of a node that is there can be taken only with an invitation by name', async (t) => {
  const { authority, records, server } = await clusterOf(t);
  const { uid } = (await records.create(StorageNodes, storageNode('node-1'))).metadata;
  const token = invite(authority);
  await assert.rejects(enrolHost({ server, token, node: 'node-1' }), {
    reason: 'AlreadyExists',
    message: /flockctl server invite --node node-1/u,
  });
  const named = await enrolHost({ server, token: invite(authority, { node: 'node-1' }), node: 'node-1' });
  assert.equal(nodeOf(named.certificate).uid, uid);
  assert.equal((await enrolHost({ server, token, node: 'node-2' })).node, 'node-2');
});

test('a server that the invitation does not vouch for is sent nothing', async (t) => {
  const { authority } = await clusterOf(t);
  const other = await clusterOf(t);
  const token = invite(authority);
  const message = /is not the server that made this invitation/u;
  await assert.rejects(enrolHost({ server: other.server, token, node: 'node-1' }), { reason: 'Unauthorized', message });
  await assert.rejects(enrolHost({ server: 'http://127.0.0.1:1', token, node: 'node-1' }), {
    reason: 'Invalid',
    message: /over https only/u,
  });
  assert.equal((await other.records.list(StorageNodes)).items.length, 0);
});

test('one that shows the right authority but cannot prove it is not trusted', async (t) => {
  const { authority } = await clusterOf(t);
  const liar = await openAuthority(memorySettings(), systemClock);
  const lies = altered(liar, (name) => (name === 'bundle' ? `${authority.bundle}\n${liar.bundle}` : undefined));
  const records = testRecords(systemClock);
  const server = await testServer(t, lies, records);
  await assert.rejects(enrolHost({ server, token: invite(authority), node: 'node-1' }), {
    reason: 'Unauthorized',
    message: /is not trusted/u,
  });
});

test('deleting the StorageNode revokes its certificates, for ever, also when its name enrols again', async (t) => {
  const { authority, records, server } = await clusterOf(t);
  const first = await enrolHost({ server, token: invite(authority), node: 'node-1' });
  const old = clientOf(t, server, first);
  await old.get(StorageNodes, 'node-1');
  await records.delete(StorageNodes, 'node-1');
  assert.equal(await isRevoked(records, first.certificate), true);
  await assert.rejects(old.get(StorageNodes, 'node-1'), {
    reason: 'Unauthorized',
    message: /was revoked, for the node's record was deleted: enrol it again/u,
  });
  await assert.rejects(old.create(StorageNodes, storageNode('node-1')), { reason: 'Unauthorized' });
  const second = await enrolHost({ server, token: invite(authority), node: 'node-1' });
  await clientOf(t, server, second).get(StorageNodes, 'node-1');
  await assert.rejects(old.get(StorageNodes, 'node-1'), { reason: 'Unauthorized', message: /revoked/u });
  const renewal = connectTo({ server, identity: () => first, authority: () => first.authority });
  t.after(() => renewal.close());
  const { csr } = await requestCertificate();
  await assert.rejects(renewal.demand({ method: 'POST', path: '/renew', body: { csr } }), {
    reason: 'Forbidden',
    message: /node-1 was removed/u,
  });
  const admin = await authority.issueAdmin();
  assert.deepEqual([await isRevoked(records, second.certificate), await isRevoked(records, admin.certificate)], [false, false]);
});

test('renewals are for nodes of this cluster that show a valid certificate, invitations by request for admins', async () => {
  const authority = await openAuthority(memorySettings(), systemClock);
  const other = await openAuthority(memorySettings(), systemClock);
  const { client } = testRecords(systemClock);
  const routes = enrolmentRoutes(authority, client);
  const { csr } = await requestCertificate();
  const { uid } = (await client.create(StorageNodes, storageNode('node-1'))).metadata;
  const peer = async (from: Authority) => ({
    user: 'flock:node:node-1',
    groups: ['flock:nodes'],
    certificate: await from.issueNode(csr, { node: 'node-1', uid }),
  });
  const admin = { user: 'admin', groups: ['flock:admins'], certificate: (await authority.issueAdmin()).certificate };
  const own = await peer(authority);
  const renewed = (await routes['/renew']?.({ body: { csr }, peer: own })) as { certificate: string };
  assert.equal(nodeOf(renewed.certificate).uid, uid);
  const foreign = await peer(other);
  const refusals: [string, unknown, typeof own | null, string, RegExp][] = [
    ['/renew', { csr }, null, 'Unauthorized', /enrol this host again/u],
    ['/renew', { csr }, foreign, 'Unauthorized', /of this authority/u],
    ['/renew', { csr }, admin, 'Unauthorized', /not a node's/u],
    ['/renew', {}, own, 'Invalid', /no text csr/u],
    ['/enrol', null, null, 'Invalid', /no text token/u],
    ['/enrol', { token: invite(authority), csr: 'x', node: 'node-9' }, null, 'Invalid', /certificate request/u],
    ['/invite', {}, null, 'Forbidden', /only an admin/u],
    ['/invite', {}, own, 'Forbidden', /only an admin/u],
  ];
  for (const [path, body, who, reason, message] of refusals) {
    await assert.rejects(async () => routes[path]?.({ body, peer: who }), { reason, message }, `${path} ${reason}`);
  }
  const invited = (await routes['/invite']?.({ body: { node: 'node-1' }, peer: admin })) as { token?: string } | undefined;
  assert.equal(readInvitation(invited?.token ?? '').secret.length, 43);
});

test('an identity is written whole, for its owner only, and one that cannot be used says so', async (t) => {
  const { authority, server } = await clusterOf(t);
  const file = join(folderOf(t), 'identity.json');
  await assert.rejects(readIdentity(file), { reason: 'NotFound', message: /enrol this host first/u });
  const identity = await enrolHost({ server, token: invite(authority), node: 'node-1' });
  writeFileSync(`${file}.new`, 'left by a crash', { mode: 0o644 });
  await writeIdentity(file, identity);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.equal(existsSync(`${file}.new`), false);
  assert.deepEqual(await readIdentity(file), identity);
  const { key } = await requestCertificate();
  for (const text of [
    '',
    '{}',
    '[]',
    JSON.stringify({ ...identity, key }),
    JSON.stringify({ ...identity, node: 'node-2' }),
    readFileSync(file, 'utf8').slice(0, 900),
  ]) {
    writeFileSync(file, text);
    await assert.rejects(readIdentity(file), { reason: 'Corrupt', message: /cannot be used: enrol this host again/u });
  }
});

test('a node renews at two thirds of the life of its certificate, with a new key, and uses the new one at once', async (t) => {
  const clock = fakeClock(Date.now());
  const { authority, server } = await clusterOf(t, clock);
  const file = join(folderOf(t), 'identity.json');
  await writeIdentity(file, await enrolHost({ server, token: invite(authority), node: 'node-1' }));
  const stop = new AbortController();
  const kept = await keepRenewed(file, { server, clock, random: () => 0.5, log: keptLog(), signal: stop.signal });
  const first = kept.current();
  await clock.advance(renewIn(first.certificate, clock) - 1);
  assert.equal(kept.current(), first);
  await clock.advance(1);
  await eventually(clock, () => kept.current() !== first);
  const second = kept.current();
  assert.notEqual(second.key, first.key);
  assert.ok(certificateOf(second.certificate).validToDate > certificateOf(first.certificate).validToDate);
  stop.abort();
  await kept.done;
  assert.deepEqual(await readIdentity(file), second);
});

/** Lets real IO go on while the fake clock stands still. */
async function eventually(clock: ReturnType<typeof fakeClock>, holds: () => boolean): Promise<void> {
  for (let turns = 0; !holds(); turns += 1) {
    assert.ok(turns < 100_000, 'it never came');
    await clock.settle();
  }
}

test('a node that was off for longer than its certificate lived comes back by itself, unless it was removed or long forgotten', async (t) => {
  const DAY = 24 * 3_600_000;
  const settings = memorySettings();
  const longAgo = await openAuthority(settings, fakeClock(Date.now() - 100 * DAY));
  const lately = await openAuthority(settings, fakeClock(Date.now() - 3 * DAY));
  const authority = await openAuthority(settings, systemClock);
  const stranger = await openAuthority(memorySettings(), fakeClock(Date.now() - 3 * DAY));
  const records = testRecords(systemClock);
  const server = await testServer(t, authority, records);
  const { uid } = (await records.client.create(StorageNodes, storageNode('node-1'))).metadata;
  const identityFrom = async (issuer: Authority, of: string): Promise<NodeIdentity> => {
    const { key, csr } = await requestCertificate();
    const certificate = await issuer.issueNode(csr, { node: 'node-1', uid: of });
    return { cluster: issuer.cluster, node: 'node-1', key, certificate, authority: authority.bundle };
  };
  const file = join(folderOf(t), 'identity.json');
  const expired = await identityFrom(lately, uid);
  await writeIdentity(file, expired);
  const stop = new AbortController();
  const kept = await keepRenewed(file, { server, clock: systemClock, random: Math.random, log: keptLog(), signal: stop.signal });
  stop.abort();
  await kept.done;
  assert.ok(certificateOf(kept.current().certificate).validToDate.getTime() > Date.now());
  assert.equal(nodeOf(kept.current().certificate).uid, uid);
  const refused: [string, NodeIdentity, RegExp][] = [
    ['long ago', await identityFrom(longAgo, uid), /has expired long ago, .*enrol it again/u],
    ['another node of that name', await identityFrom(lately, randomUUID()), /its certificate is revoked/u],
    ['another authority', await identityFrom(stranger, uid), /of this authority/u],
  ];
  for (const [title, identity, message] of refused) {
    const connection = connectTo({ server, identity: () => identity, authority: () => authority.bundle });
    const { csr } = await requestCertificate();
    await assert.rejects(connection.demand({ method: 'POST', path: '/renew', body: { csr } }), { message }, title);
    connection.close();
  }
  await assert.rejects(clientOf(t, server, expired).list(StorageNodes), { reason: 'Unauthorized' });
});

test('a renewal that fails is tried again, and brings the new bundle of authorities', async (t) => {
  const clock = fakeClock(Date.now());
  const settings = memorySettings();
  const authority = await openAuthority(settings, clock);
  const records = testRecords(systemClock);
  let away = false;
  const failing = (): Promise<never> => Promise.reject(new Error('out of order'));
  const flaky = altered(authority, (name) => (name === 'issueNode' && away ? failing : undefined));
  const server = await testServer(t, flaky, records);
  const file = join(folderOf(t), 'identity.json');
  await writeIdentity(file, await enrolHost({ server, token: invite(authority), node: 'node-1' }));
  away = true;
  const stop = new AbortController();
  const log = keptLog();
  const kept = await keepRenewed(file, { server, clock, random: () => 0.5, log, signal: stop.signal });
  const first = kept.current();
  await clock.advance(renewIn(first.certificate, clock));
  await eventually(clock, () => log.lines.length > 0);
  assert.match(log.lines[0]?.message ?? '', /could not be renewed: .*out of order/u);
  settings.put(
    'authority',
    JSON.stringify({ ...(JSON.parse(settings.get('authority') ?? '') as object), generations: await twoGenerations(authority, clock) }),
  );
  away = false;
  await clock.advance(10_000);
  await eventually(clock, () => kept.current() !== first);
  assert.equal(certificatesIn(kept.current().authority).length, 2);
  stop.abort();
  await kept.done;
});

/** The authority's own generation, and another as it would make one later. */
async function twoGenerations(authority: Authority, clock: Clock): Promise<unknown[]> {
  const generations = (from: Authority): unknown[] =>
    (JSON.parse(from.settings.get('authority') ?? '') as { generations: unknown[] }).generations;
  const later = await openAuthority(memorySettings(), clock);
  return [...generations(authority), ...generations(later)];
}
