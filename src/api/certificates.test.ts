import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { connect, createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { systemClock, type Clock } from '../model/clock.ts';
import { GROUP_VERSION } from '../model/meta.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { fakeClock } from '../testing/fake-clock.ts';
import { testRecords, testServer } from '../testing/enrolment-server.ts';
import { memorySettings } from '../testing/memory-settings.ts';
import {
  Authority,
  certificatesIn,
  fingerprintOf,
  LIVES,
  openAuthority,
  renewIn,
  requestCertificate,
  type Credentials,
} from './certificates.ts';
import { httpClient, type HttpClient } from './http-client.ts';
import { certificateOf, nodeOf, userOf } from './peer.ts';

const UID = '01234567-89ab-4cde-8f01-23456789abcd';
const DAY = 24 * 3_600_000;

// Made once with openssl, for this program refuses to make them.
const P384_REQUEST = `-----BEGIN CERTIFICATE REQUEST-----
MIIBBTCBiwIBADAMMQowCAYDVQQDDAF4MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAE
x8y310b6C03xTeK31zxr20IiD6CJPJgVzdz0FC81oxlkpx2ZW139k8n+Ul1VNg3X
SFGPvpk8CmPKEQJUX95aHnuTJ12aRg+QafolbjWrTS38Atgq/F2FpUPu615q9w94
oAAwCgYIKoZIzj0EAwIDaQAwZgIxAKhZyFgDpwbCHpKHLP/sCMESLkMIjIPsEGqQ
eyskH41UIGZ/LEESj5e7Bmk6beNqmwIxAOHXMghbgfD+Xzkq3hMbBsZEaR89V+Xm
UCfij7qzJysRgKnvyVGXvSItgxyh0x8YZQ==
-----END CERTIFICATE REQUEST-----`;
const TWO_NODES = `-----BEGIN CERTIFICATE-----
MIIBzDCCAXKgAwIBAgIURC6Qh63uI0GvlNDIhRrZDuuGb0AwCgYIKoZIzj0EAwIw
IjEUMBIGA1UECgwLZmxvY2s6bm9kZXMxCjAIBgNVBAMMAXgwIBcNMjYxMTMwMTYy
NTAxWhgPMjEyNjExMDYxNjI1MDFaMCIxFDASBgNVBAoMC2Zsb2NrOm5vZGVzMQow
CAYDVQQDDAF4MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEYauPkCMJmT/OsluQ
mdSEMXfYkJtkGO3ncq4oBg8nC/XgMR4oUv+IwknAM4lF/pg7nCGPasc8CK8yZF3z
j+xlAaOBgzCBgDAdBgNVHQ4EFgQUUzHik+6UjKVCSI08EzmQpcL5wnIwHwYDVR0j
BBgwFoAUUzHik+6UjKVCSI08EzmQpcL5wnIwDwYDVR0TAQH/BAUwAwEB/zAtBgNV
HREEJjAkhhBmbG9jazovL2Mvbm9kZS9hhhBmbG9jazovL2Mvbm9kZS9iMAoGCCqG
SM49BAMCA0gAMEUCIFmGr4dyb3ECFis6JNYGED85NjmQTn7BPWY5PZGlrh9eAiEA
yP64CW9I4kIFH0qH5Nrb+ojHPSAOLPZCHqg6jwajzQg=
-----END CERTIFICATE-----`;
const QUOTED_NAME = `-----BEGIN CERTIFICATE-----
MIIBYzCCAQqgAwIBAgIUO5N4ONcmFLiOKPuxWFAB6t3JB2owCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBeDAgFw0yNjExMzAxNjI1MDFaGA8yMTI2MTEwNjE2MjUwMVow
DDEKMAgGA1UEAwwBeDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABEc2g8EUZKYv
erAaKrfbASW3+6QiP4MuJpImqbSd0ZD7hQkiIannB5CTdvLANoPrfanSDcPeIpr4
rlYiRD/Y7NmjSDBGMCUGA1UdEQQeMByCGngsIFVSSTpmbG9jazovL2Mvbm9kZS9u
LCB5MB0GA1UdDgQWBBRHv+qNzdq02UxR2keRBU+f1Y08IDAKBggqhkjOPQQDAgNH
ADBEAiBCPOyf9uneBBvKSEdlR4+urc7SOGLSOafCq8OzmRfkNQIgG0fto6DzkfXM
GI4UDc6DjKJD+ZBTdiOOXWJ6ooE6VFs=
-----END CERTIFICATE-----`;

const at = (time: number): Clock => ({ ...systemClock, now: () => time });
const authorityAt = (clock: Clock = systemClock): Promise<Authority> => openAuthority(memorySettings(), clock);

async function nodeCredentials(authority: Authority, node = 'node-1'): Promise<Credentials> {
  const { key, csr } = await requestCertificate();
  return { key, certificate: await authority.issueNode(csr, { node, uid: UID }), authority: authority.bundle };
}

/** An https server that shows `own`, asks for certificates of its authority, and answers with who came. */
async function serverOf(
  t: TestContext,
  own: Credentials,
): Promise<{ server: Server; port: number; seen: string[]; connections: () => number }> {
  const seen: string[] = [];
  let connections = 0;
  const options = { cert: own.certificate, key: own.key, ca: own.authority, requestCert: true, rejectUnauthorized: true };
  const server = createServer(options, (request, response) => {
    const { raw } = (request.socket as TLSSocket).getPeerCertificate();
    seen.push(`${userOf({ raw }).user} ${certificateOf({ raw }).serialNumber}`);
    response.end(JSON.stringify({ apiVersion: GROUP_VERSION, kind: 'StorageNode', metadata: { name: 'node-1' } }));
  });
  server.on('secureConnection', () => (connections += 1));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { server, port: (server.address() as AddressInfo).port, seen, connections: () => connections };
}

const clientAt = (t: TestContext, server: string, credentials: Credentials): HttpClient =>
  clientOf(t, Number(new URL(server).port), () => credentials);

function clientOf(t: TestContext, port: number, credentials: () => Credentials): HttpClient {
  const client = httpClient({ server: `https://127.0.0.1:${port}`, identity: credentials, authority: () => credentials().authority });
  t.after(() => client.close());
  return client;
}

test('each party is who its certificate says, and a server knows it by a real handshake', async (t) => {
  const authority = await authorityAt();
  const { port, seen } = await serverOf(t, await authority.issueServer(['127.0.0.1', 'localhost']));
  const parties = [await authority.issueAdmin(), await authority.issueController(), await nodeCredentials(authority)];
  for (const party of parties) await clientOf(t, port, () => party).get(StorageNodes, 'node-1');
  assert.deepEqual(
    seen.map((line) => line.split(' ')[0]),
    ['admin', 'controller', 'flock:node:node-1'],
  );
  assert.deepEqual(
    parties.map(({ certificate }) => userOf(certificate).groups),
    [['flock:admins'], ['flock:controllers'], ['flock:nodes']],
  );
});

test('a client whose certificate is of another authority, expired, or missing is refused', async (t) => {
  const authority = await authorityAt();
  const other = await authorityAt();

  const server = await testServer(t, authority, testRecords(systemClock));
  const old = new Authority(authority.settings, at(Date.now() - 2 * DAY), LIVES);
  const cases: [string, Credentials | null, RegExp][] = [
    ['another authority', await other.issueAdmin(), /does not count/u],
    ['expired', await nodeCredentials(old), /CERT_HAS_EXPIRED/u],
    ['none', null, /no client certificate/u],
  ];
  for (const [name, credentials, message] of cases) {
    const identity = credentials === null ? {} : { identity: () => credentials };
    const refused = httpClient({ server, authority: () => authority.bundle, ...identity });
    await assert.rejects(refused.get(StorageNodes, 'node-1'), { reason: 'Unauthorized', message }, name);
    refused.close();
  }
  const admin = clientAt(t, server, await authority.issueAdmin());
  await assert.rejects(admin.get(StorageNodes, 'node-1'), { reason: 'NotFound' });
});

test('a server whose certificate is of another authority, expired, or for another host is not trusted', async (t) => {
  const authority = await authorityAt();
  const other = await authorityAt();
  const old = new Authority(authority.settings, at(Date.now() - 2 * LIVES.party), LIVES);
  const admin = await authority.issueAdmin();
  const cases: [string, Credentials, RegExp][] = [
    ['another authority', await other.issueServer(['127.0.0.1']), /not of the authority that this client trusts/u],
    ['expired', await old.issueServer(['127.0.0.1']), /expired/u],
    ['another host', await authority.issueServer(['10.0.0.1', 'elsewhere']), /10\.0\.0\.1/u],
  ];
  for (const [name, own, message] of cases) {
    const { port, seen } = await serverOf(t, own);
    await assert.rejects(clientOf(t, port, () => admin).get(StorageNodes, 'node-1'), { reason: 'Unauthorized', message }, name);
    assert.deepEqual(seen, [], name);
  }
});

test('a renewed certificate is used at the next request, on a new connection', async (t) => {
  const authority = await authorityAt();
  const { port, seen, connections } = await serverOf(t, await authority.issueServer(['127.0.0.1']));
  let current = await nodeCredentials(authority);
  const client = clientOf(t, port, () => current);
  await client.get(StorageNodes, 'node-1');
  await client.get(StorageNodes, 'node-1');
  assert.equal(connections(), 1);
  const first = certificateOf(current.certificate).serialNumber;
  current = await nodeCredentials(authority);
  await client.get(StorageNodes, 'node-1');
  assert.equal(connections(), 2);
  assert.deepEqual(
    seen,
    [first, first, certificateOf(current.certificate).serialNumber].map((serial) => `flock:node:node-1 ${serial}`),
  );
});

test('two nodes know each other by name over TLS, in both roles', async (t) => {
  const authority = await authorityAt();
  const [source, target] = [await nodeCredentials(authority, 'node-1'), await nodeCredentials(authority, 'node-2')];
  const tls = ({ key, certificate, authority: ca }: Credentials): object => ({ key, cert: certificate, ca, minVersion: 'TLSv1.3' });
  const came = Promise.withResolvers<string>();
  const server = createTlsServer({ ...tls(source), requestCert: true, rejectUnauthorized: true }, (socket) => {
    came.resolve(nodeOf(socket.getPeerCertificate()).node);
    socket.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => new Promise((resolve) => server.close(resolve)));
  const socket = connect({
    ...tls(target),
    host: '127.0.0.1',
    port: (server.address() as AddressInfo).port,
    checkServerIdentity: () => undefined,
  });
  await new Promise((resolve) => socket.once('secureConnect', resolve));
  assert.deepEqual(nodeOf(socket.getPeerCertificate()), { cluster: authority.cluster, node: 'node-1', uid: UID });
  assert.equal(await came.promise, 'node-2');
  socket.destroy();
});

test('a node may have the longest name there is', async () => {
  const authority = await authorityAt();
  const name = `${'a'.repeat(63)}.`.repeat(3) + 'b'.repeat(61);
  const { certificate } = await nodeCredentials(authority, name);
  assert.equal(nodeOf(certificate).node, name);
  assert.equal(userOf(certificate).user, `flock:node:${name}`);
});

test('a request is believed only its key: proven, and of the kind we use', async () => {
  const authority = await authorityAt();
  const { csr } = await requestCertificate();
  const body = Buffer.from(csr.replace(/-----[^-]+-----|\s/gu, ''), 'base64');
  body[body.length - 1] = (body[body.length - 1] ?? 0) ^ 1;
  const forged = `-----BEGIN CERTIFICATE REQUEST-----\n${body.toString('base64')}\n-----END CERTIFICATE REQUEST-----\n`;
  const of = { node: 'node-1', uid: UID };
  await assert.rejects(authority.issueNode(forged, of), { reason: 'Invalid', message: /not signed by its own key/u });
  await assert.rejects(authority.issueNode(P384_REQUEST, of), { reason: 'Invalid', message: /not ECDSA P-256/u });
  for (const nonsense of ['', 'hello', '-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n']) {
    await assert.rejects(authority.issueNode(nonsense, of), { reason: 'Invalid', message: /cannot be read/u });
  }
  for (const node of ['a/b', '..', 'A', 'a, O=flock:admins', 'a\nO=flock:admins', 'é']) {
    await assert.rejects(authority.issueNode(csr, { node, uid: UID }), { reason: 'Invalid', message: /node name/u });
  }
});

test('a certificate that is not exactly a node is nobody', async () => {
  const authority = await authorityAt();
  const server = await authority.issueServer(['node-1', '127.0.0.1']);
  const admin = await authority.issueAdmin();
  for (const certificate of [server.certificate, admin.certificate, authority.bundle, TWO_NODES, QUOTED_NAME]) {
    assert.throws(() => nodeOf(certificate), { reason: 'Unauthorized', message: /is not a node's/u });
  }
  assert.throws(() => nodeOf('hello'), { reason: 'Unauthorized', message: /not a certificate/u });
});

test('the authority stays the same when it is opened again', async () => {
  const settings = memorySettings();
  const first = await openAuthority(settings, systemClock);
  const again = await openAuthority(settings, systemClock);
  assert.deepEqual([again.cluster, again.bundle, again.fingerprints], [first.cluster, first.bundle, first.fingerprints]);
  assert.match(first.cluster, /^[0-9a-f]{16}$/u);
  assert.deepEqual(certificatesIn(first.bundle).map(fingerprintOf), first.fingerprints);
});

test('a certificate is renewed when two thirds of its life are over', async () => {
  const clock = fakeClock();
  const authority = await authorityAt(clock);
  const { certificate } = await nodeCredentials(authority);
  const whole = DAY + 5 * 60_000;
  assert.equal(renewIn(certificate, clock), (whole * 2) / 3 - 5 * 60_000);
  await clock.advance(20 * 3_600_000);
  assert.equal(renewIn(certificate, clock), 0);
});

test('a new authority is made in the last quarter, is trusted at once, and issues only when everybody had the time to hear of it', async () => {
  const clock = fakeClock();
  const settings = memorySettings();
  const authority = await openAuthority(settings, clock);
  const issuerOf = async (): Promise<string> => {
    const { certificate } = await nodeCredentials(authority);
    const issuer = certificatesIn(authority.bundle).find((one) => certificateOf(certificate).verify(certificateOf(one).publicKey));
    return fingerprintOf(issuer ?? '');
  };
  const [first] = authority.fingerprints;
  await clock.advance(LIVES.authority * 0.74);
  assert.equal(await authority.maintain(), false);
  await clock.advance(LIVES.authority * 0.02);
  assert.equal(await authority.maintain(), true);
  assert.equal(await authority.maintain(), false);
  const second = authority.fingerprints[1];
  assert.deepEqual(authority.fingerprints, [first, second]);
  assert.equal(await issuerOf(), first);
  await clock.advance(LIVES.party - DAY);
  assert.equal(await issuerOf(), first);
  await clock.advance(DAY);
  assert.equal(await issuerOf(), second);
  await clock.advance(LIVES.authority * 0.24);
  assert.equal(await authority.maintain(), true);
  assert.deepEqual(authority.fingerprints, [second]);
});

test('no certificate outlives the authority that issued it', async () => {
  const clock = fakeClock();
  const authority = await authorityAt(clock);
  await clock.advance(LIVES.authority - DAY);
  const { certificate } = await authority.issueAdmin();
  assert.equal(certificateOf(certificate).validTo, certificateOf(authority.bundle).validTo);
});
