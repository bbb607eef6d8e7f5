// An agent asks for a certificate as in a cluster, and the controller signs: both real, over a registry that serves Kubernetes' own kinds.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { randomUUID } from 'node:crypto';
import type { Client } from '../api/client.ts';
import { requestCertificate } from '../api/certificates.ts';
import { LocalClient } from '../api/local-client.ts';
import { nodeOf } from '../api/peer.ts';
import { Registry } from '../api/registry.ts';
import { MemoryTable } from '../api/table.ts';
import { systemClock } from '../model/clock.ts';
import { KINDS } from '../model/kinds.ts';
import { SYSTEM_NAMESPACE, type Stored } from '../model/meta.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { afterwards, type Test } from '../testing/afterwards.ts';
import { temporaryFolder } from '../testing/folders.ts';
import { keptLog } from '../testing/kept-log.ts';
import { AUTHORITY, clusterAuthority, toldAuthority } from './authority.ts';
import { CertificateSigningRequests, ConfigMaps, Secrets, type CertificateSigningRequest } from './kinds.ts';
import { keepCertified } from './node-certificate.ts';
import { answer, nodeAsking, runSigner, SIGNER, type SignerPorts } from './signer.ts';

const AGENT = `system:serviceaccount:${SYSTEM_NAMESPACE}:flock-agent`;
const onNode = (...nodes: string[]): { [key: string]: string[] } => ({ 'authentication.kubernetes.io/node-name': nodes });

function cluster(): Client {
  const kinds = [...KINDS, CertificateSigningRequests, Secrets, ConfigMaps];
  const registry = new Registry({ table: new MemoryTable(), clock: systemClock, uid: randomUUID, kinds });
  return new LocalClient({ registry, clock: systemClock });
}

/** As the API server does: who asks is written into the request, whatever it says. */
const asAgentOf = (client: Client, node: string): Client => ({
  ...client,
  get: client.get.bind(client),
  list: client.list.bind(client),
  watch: client.watch.bind(client),
  replace: client.replace.bind(client),
  patch: client.patch.bind(client),
  delete: client.delete.bind(client),
  create: (kind, object) =>
    client.create(kind, {
      ...object,
      ...(kind.kind === 'CertificateSigningRequest'
        ? { spec: { ...(object as never as CertificateSigningRequest).spec, username: AGENT, extra: onNode(node) } }
        : {}),
    }),
});

const signerOf = (client: Client): SignerPorts => ({
  client,
  clock: systemClock,
  random: Math.random,
  log: keptLog(),
  identity: 'test',
  approve: (request) => client.replace(CertificateSigningRequests, request, 'status'),
});

async function requestOf(client: Client, spec: Partial<CertificateSigningRequest['spec']>): Promise<Stored<CertificateSigningRequest>> {
  const { csr } = await requestCertificate();
  return client.create(CertificateSigningRequests, {
    apiVersion: 'certificates.k8s.io/v1',
    kind: 'CertificateSigningRequest',
    metadata: { name: `request-${randomUUID()}` },
    spec: {
      request: Buffer.from(csr).toString('base64'),
      signerName: SIGNER,
      usages: [],
      username: AGENT,
      extra: onNode('node-1'),
      ...spec,
    },
  });
}

const certificateIn = ({ status }: CertificateSigningRequest): string => Buffer.from(status?.certificate ?? '', 'base64').toString('utf8');

function running(t: Test, work: (signal: AbortSignal) => Promise<void>): void {
  const ended = new AbortController();
  const done = work(ended.signal);
  afterwards(t, async () => {
    ended.abort();
    await done;
  });
}

test('an agent gets a certificate for its node, and a StorageNode that revokes it', async (t) => {
  const client = cluster();
  running(t, (signal) => runSigner(signerOf(client), signal));
  const ended = new AbortController();
  const folder = await temporaryFolder(t);
  const options = {
    client: asAgentOf(client, 'node-1'),
    node: 'node-1',
    folder,
    clock: systemClock,
    random: Math.random,
    log: keptLog(),
    signal: ended.signal,
  };
  const kept = await keepCertified(options);
  afterwards(t, async () => {
    ended.abort();
    await kept.done;
  });
  await t.waitFor(() => kept.current(), { timeout: 30_000 });
  const { node, uid, cluster: name } = nodeOf(kept.current().certificate);
  assert.deepEqual(
    [node, uid, name],
    ['node-1', (await client.get(StorageNodes, 'node-1')).metadata.uid, (await toldAuthority(client)).cluster],
  );
  const again = await keepCertified(options);
  assert.equal(again.current().certificate, kept.current().certificate, 'it is kept over restarts');
  ended.abort();
  await again.done;
});

test('without a certificate an agent says what it waits for', async (t) => {
  const ended = new AbortController();
  const client = cluster();
  const kept = await keepCertified({
    client,
    node: 'node-1',
    folder: await temporaryFolder(t),
    clock: systemClock,
    random: Math.random,
    log: keptLog(),
    signal: ended.signal,
  });
  assert.throws(() => kept.current(), /node-1 has no certificate yet: does the controller run/u);
  ended.abort();
  await kept.done;
});

const STRANGERS: [string, Partial<CertificateSigningRequest['spec']>, RegExp][] = [
  [
    'another service account',
    { username: 'system:serviceaccount:default:default' },
    /only system:serviceaccount:flock-system:flock-agent/u,
  ],
  ['a token that is bound to no node', { extra: {} }, /not bound to a pod on a node/u],
  ['a token that names two nodes', { extra: onNode('node-1', 'node-2') }, /not bound/u],
];

for (const [who, spec, why] of STRANGERS)
  test(`${who} gets none`, async () => {
    const client = cluster();
    const request = await requestOf(client, spec);
    const asking = nodeAsking(request);
    assert.match('refused' in asking ? asking.refused : '', why);
    await answer(signerOf(client), request);
    const { status } = await client.get(CertificateSigningRequests, request.metadata.name);
    assert.deepEqual([status?.conditions?.map(({ type }) => type), status?.certificate], [['Denied'], undefined]);
  });

test('what is no request is denied', async () => {
  const client = cluster();
  const request = await requestOf(client, { request: Buffer.from('no request').toString('base64') });
  await answer(signerOf(client), request);
  assert.equal((await client.get(CertificateSigningRequests, request.metadata.name)).status?.conditions?.[0]?.type, 'Denied');
});

test('a signer that died after its approval is finished by the next one', async () => {
  const client = cluster();
  const request = await requestOf(client, {});
  const approved = await client.replace(
    CertificateSigningRequests,
    { ...request, status: { conditions: [{ type: 'Approved', status: 'True' }] } },
    'status',
  );
  await answer(signerOf(client), approved);
  assert.equal(nodeOf(certificateIn(await client.get(CertificateSigningRequests, request.metadata.name))).node, 'node-1');
});

test('the authority is made once, and its key is told to nobody', async () => {
  const client = cluster();
  const [first, second] = [await clusterAuthority(client, systemClock), await clusterAuthority(client, systemClock)];
  assert.deepEqual(second.fingerprints, first.fingerprints);
  const told = await client.get(ConfigMaps, AUTHORITY, SYSTEM_NAMESPACE);
  assert.deepEqual(Object.keys(told.data ?? {}).toSorted(), ['bundle', 'cluster']);
  assert.doesNotMatch(JSON.stringify(told), /PRIVATE KEY/u);
});
