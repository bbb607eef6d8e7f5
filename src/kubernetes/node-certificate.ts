// An agent's certificate in a cluster: asked for by a certificate request under the token of the agent's pod, kept in a file, renewed in time.
// The agent works without one, but for moves. Knows no volume.
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { backoffDelay } from '../api/backoff.ts';
import { renewIn, requestCertificate, type NodeIdentity } from '../api/certificates.ts';
import type { Client } from '../api/client.ts';
import type { Log } from '../api/log.ts';
import { readIdentity, soundIdentity, writeIdentity } from '../api/node-identity.ts';
import { nodeOf } from '../api/peer.ts';
import type { Clock } from '../model/clock.ts';
import { FlockError, ifFound, isReason, messageOf } from '../model/errors.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { toldAuthority } from './authority.ts';
import { CertificateSigningRequests, type CertificateSigningRequest } from './kinds.ts';
import { SIGNER } from './signer.ts';

export interface NodeCertificateOptions {
  client: Client;
  node: string;
  /** The agent's own folder. */
  folder: string;
  clock: Clock;
  random: () => number;
  log: Log;
  signal: AbortSignal;
}

export interface NodeCertificate {
  /** The newest one; ask at every handshake. Throws Unavailable while there is none. */
  current: () => NodeIdentity;
  /** Ends with the signal. */
  done: Promise<void>;
}

const RETRY = { first: 1_000, longest: 60_000 };
/** Between two looks at whether it is due, and whether the StorageNode is the one that it names, ms. */
const LOOK = 60_000;
const LIFE_SECONDS = 86_400;
/** Between two looks at whether a request was signed, ms; and how long one is waited for. */
const POLL = 500;
const PATIENCE = 60_000;

export async function keepCertified(options: NodeCertificateOptions): Promise<NodeCertificate> {
  const file = join(options.folder, 'identity.json');
  const kept = await readIdentity(file).catch(() => null);
  let identity = kept?.node === options.node ? kept : null;
  const renewed = async (): Promise<void> => {
    if (identity && !(await isDue(options, identity))) return;
    const next = await requested(options);
    await writeIdentity(file, next);
    identity = next;
    options.log.info({ node: options.node }, 'has a certificate');
  };
  return {
    current: () => {
      if (identity) return identity;
      throw new FlockError('Unavailable', `node ${options.node} has no certificate yet: does the controller run?`);
    },
    done: keepLooking(options, renewed),
  };
}

async function keepLooking({ clock, random, log, signal }: NodeCertificateOptions, renewed: () => Promise<void>): Promise<void> {
  for (let failures = 0; !signal.aborted;) {
    try {
      await renewed();
      failures = 0;
      await clock.sleep(LOOK, signal);
    } catch (error) {
      if (signal.aborted) return;
      log.warn({ failures }, `no new certificate: ${messageOf(error)}`);
      await clock.sleep(backoffDelay(failures++, RETRY, random), signal).catch(() => undefined);
    }
  }
}

/** Old, or of an authority that is not told any more, or for a StorageNode that was removed. */
async function isDue({ client, node, clock }: NodeCertificateOptions, identity: NodeIdentity): Promise<boolean> {
  if (renewIn(identity.certificate, clock) <= 0) return true;
  const { cluster, bundle } = await toldAuthority(client);
  if (cluster !== identity.cluster || bundle !== identity.authority) return true;
  const record = await ifFound(client.get(StorageNodes, node));
  return record !== null && record.metadata.uid !== nodeOf(identity.certificate).uid;
}

async function requested(options: NodeCertificateOptions): Promise<NodeIdentity> {
  const { client, node } = options;
  const { key, csr } = await requestCertificate();
  const request = await client.create(CertificateSigningRequests, {
    apiVersion: 'certificates.k8s.io/v1',
    kind: CertificateSigningRequests.kind,
    metadata: { name: `flock-agent-${randomBytes(8).toString('hex')}` },
    spec: {
      request: Buffer.from(csr).toString('base64'),
      signerName: SIGNER,
      usages: ['digital signature', 'client auth', 'server auth'],
      expirationSeconds: LIFE_SECONDS,
    },
  });
  const certificate = await signed(options, request.metadata.name);
  const { cluster, bundle } = await toldAuthority(client);
  return soundIdentity('the controller', { cluster, node, key, certificate, authority: bundle }, node);
}

async function signed({ client, clock, signal }: NodeCertificateOptions, name: string): Promise<string> {
  for (const end = clock.monotonic() + PATIENCE; clock.monotonic() < end; await clock.sleep(POLL, signal)) {
    const request = await client.get(CertificateSigningRequests, name).catch((error: unknown) => {
      if (isReason(error, 'Unavailable')) return null;
      throw error;
    });
    if (request) refuseDenied(request);
    const certificate = request?.status?.certificate;
    if (certificate) return Buffer.from(certificate, 'base64').toString('utf8');
  }
  throw new FlockError('Unavailable', `certificate request ${name} was not signed within ${PATIENCE / 1_000} s: does the controller run?`);
}

function refuseDenied({ metadata, status }: CertificateSigningRequest): void {
  const denied = status?.conditions?.find(({ type }) => type === 'Denied');
  if (denied) throw new FlockError('Forbidden', `certificate request ${metadata.name} was denied: ${denied.message ?? ''}`);
}
