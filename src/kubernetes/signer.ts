// Gives agents their certificates, by Kubernetes' own certificate requests: the API server writes into each who asks and on which node that
// pod runs, and a node's certificate is for nobody else. Knows no volume.
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Authority } from '../api/certificates.ts';
import type { Client } from '../api/client.ts';
import { leadWhenElected } from '../api/election.ts';
import { connectTo, type ConnectionConfig } from '../api/http-connection.ts';
import { httpClient } from '../api/http-client.ts';
import { informer } from '../api/informer.ts';
import type { Log } from '../api/log.ts';
import { workQueue } from '../api/queue.ts';
import type { Clock } from '../model/clock.ts';
import { FlockError, ifFound, Invalid, isReason } from '../model/errors.ts';
import { GROUP_VERSION, SYSTEM_NAMESPACE, type Stored } from '../model/meta.ts';
import { nodeName, printable } from '../model/names.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { clusterAuthority } from './authority.ts';
import { CertificateSigningRequests, type CertificateSigningRequest } from './kinds.ts';

export const SIGNER = 'flock.dev/agent';
const AGENTS = `system:serviceaccount:${SYSTEM_NAMESPACE}:flock-agent`;
/** Kubernetes' mark of the node that a pod's token is bound to. */
const NODE_MARK = 'authentication.kubernetes.io/node-name';

/** Decided on by the API server's word alone: nothing in the request itself says for whom it is. */
export function nodeAsking({ spec }: CertificateSigningRequest): { node: string } | { refused: string } {
  if (spec.username !== AGENTS) return { refused: `only ${AGENTS} gets such a certificate, not ${printable(spec.username ?? '')}` };
  const nodes = spec.extra?.[NODE_MARK] ?? [];
  const [node] = nodes;
  if (nodes.length !== 1 || node === undefined) return { refused: 'the token that asks is not bound to a pod on a node' };
  return { node: nodeName(node) };
}

export interface SignerPorts {
  client: Client;
  clock: Clock;
  random: () => number;
  log: Log;
  /** Writes the request's conditions by its subresource `approval`. */
  approve: (request: Stored<CertificateSigningRequest>) => Promise<Stored<CertificateSigningRequest>>;
  /** Unique among the replicas. */
  identity: string;
}

/** Signs as one of the replicas until the signal aborts. */
export async function signWith(
  connection: ConnectionConfig,
  ports: Pick<SignerPorts, 'clock' | 'random' | 'log'>,
  signal: AbortSignal,
): Promise<void> {
  const client = httpClient(connection);
  const raw = connectTo(connection);
  const approve: SignerPorts['approve'] = async (request) => {
    const path = `/apis/certificates.k8s.io/v1/certificatesigningrequests/${encodeURIComponent(request.metadata.name)}/approval`;
    return (await raw.demand({ method: 'PUT', path, body: request })) as Stored<CertificateSigningRequest>;
  };
  try {
    await runSigner({ ...ports, client, approve, identity: `${hostname()}-${randomUUID().slice(0, 8)}` }, signal);
  } finally {
    client.close();
    raw.close();
  }
}

/** Between two looks at whether the authority needs a new generation, ms. */
const LOOK = 3_600_000;

/** Signs while it leads, until the signal aborts. */
export async function runSigner(ports: SignerPorts, signal: AbortSignal): Promise<void> {
  const { client, clock, random, log, identity } = ports;
  const election = { client, lease: 'flock-signer', identity, clock, random, log };
  await leadWhenElected(election, signal, (leading) => signWhileLeading(ports, leading));
}

/** Key of the look at the authority: no request has an empty name. One worker, so that only one of this process changes it at a time. */
const AUTHORITY_KEY = '';

async function signWhileLeading(ports: SignerPorts, signal: AbortSignal): Promise<void> {
  const { client, clock, random, log } = ports;
  const watching = { clock, random, log };
  const requests = informer(client, CertificateSigningRequests, watching);
  const queue = workQueue({
    workers: 1,
    ...watching,
    work: async (name) => {
      if (name === AUTHORITY_KEY) {
        await clusterAuthority(client, clock);
        return { again: LOOK };
      }
      const request = await ifFound(client.get(CertificateSigningRequests, name));
      if (request) await answer(ports, request);
      return undefined;
    },
  });
  queue.add(AUTHORITY_KEY);
  requests.onChange((name, request) => void (request && isOpen(request) && queue.add(name)));
  await requests.start(signal);
  await queue.stop();
}

const has = ({ status }: CertificateSigningRequest, type: string): boolean =>
  (status?.conditions ?? []).some((condition) => condition.type === type && condition.status === 'True');

const isOpen = (request: CertificateSigningRequest): boolean =>
  request.spec.signerName === SIGNER && request.status?.certificate === undefined && !has(request, 'Denied') && !has(request, 'Failed');

/** One request, in two writes: approved or denied, then signed. A crash between them is finished at the next look. */
export async function answer(ports: SignerPorts, request: Stored<CertificateSigningRequest>): Promise<void> {
  if (!isOpen(request)) return;
  const asking = nodeAsking(request);
  if ('refused' in asking) return deny(ports, request, asking.refused);
  const authority = await clusterAuthority(ports.client, ports.clock);
  const certificate = await certificateFor(ports.client, authority, { ...asking, request }).catch((error: unknown) => {
    if (!(error instanceof Invalid)) throw error;
    return error;
  });
  if (certificate instanceof Invalid) return deny(ports, request, certificate.message);
  const approved = has(request, 'Approved') ? request : await ports.approve(withCondition(request, 'Approved', `node ${asking.node}`));
  const status = { ...approved.status, certificate: Buffer.from(certificate).toString('base64') };
  await ports.client.replace(CertificateSigningRequests, { ...approved, status }, 'status');
  ports.log.info({ node: asking.node, request: request.metadata.name }, 'signed a certificate');
}

async function deny(ports: SignerPorts, request: Stored<CertificateSigningRequest>, why: string): Promise<void> {
  await ports.approve(withCondition(request, 'Denied', why));
  ports.log.warn({ request: request.metadata.name, why }, 'refused a certificate');
}

function withCondition(
  request: Stored<CertificateSigningRequest>,
  type: 'Approved' | 'Denied',
  message: string,
): Stored<CertificateSigningRequest> {
  const condition = { type, status: 'True', reason: 'FlockSigner', message };
  return { ...request, status: { ...request.status, conditions: [...(request.status?.conditions ?? []), condition] } };
}

interface For {
  node: string;
  request: CertificateSigningRequest;
}

/** It names the node's StorageNode, which is made when there is none: deleting that revokes the certificate. Throws Invalid. */
async function certificateFor(client: Client, authority: Authority, { node, request }: For): Promise<string> {
  const csr = Buffer.from(request.spec.request, 'base64').toString('utf8');
  return authority.issueNode(csr, { node, uid: await storageNodeUid(client, node) });
}

async function storageNodeUid(client: Client, node: string): Promise<string> {
  const there = await ifFound(client.get(StorageNodes, node));
  if (there?.metadata.deletionTimestamp !== undefined)
    throw new FlockError('Conflict', `node ${node} is being removed: it gets a certificate when that is done`);
  if (there) return there.metadata.uid;
  try {
    return (await client.create(StorageNodes, { apiVersion: GROUP_VERSION, kind: StorageNodes.kind, metadata: { name: node }, spec: {} }))
      .metadata.uid;
  } catch (error) {
    if (!isReason(error, 'AlreadyExists')) throw error;
    return (await client.get(StorageNodes, node)).metadata.uid;
  }
}
