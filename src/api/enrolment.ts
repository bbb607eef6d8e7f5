// How a host becomes a node, the server's side: single-use invitations, certificates for their bearers, and renewals for nodes that are
// still there. The StorageNode is the enrolment: its UID is in the node's certificates, so that deleting it revokes them all, also when a
// node of the same name enrols again. Knows no socket; the host's side is node-identity.ts.
import { createHash, randomBytes } from 'node:crypto';
import { FlockError, ifFound, Invalid } from '../model/errors.ts';
import { GROUP_VERSION, type Stored } from '../model/meta.ts';
import { nodeName } from '../model/names.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import type { Authority } from './certificates.ts';
import type { Client } from './client.ts';
import { ADMIN_GROUP, certificateOf, NODE_GROUP, nodeOf, userOf, type Certificate, type Peer } from './peer.ts';

/** Who asks: `shown` is the certificate whose key the caller proved to hold, valid or not; `peer` is who that makes it, if it is valid. */
export interface RouteRequest {
  body: unknown;
  peer: Peer | null;
  shown?: Certificate | null;
}

/** What the server serves beside the records: POST, JSON in, JSON out; a FlockError thrown is the refusal. */
export type Routes = { [path: string]: (request: RouteRequest) => Promise<object> };

/** What a host is given: its identity less the key, which never leaves it. */
export interface Enrolled {
  cluster: string;
  node: string;
  certificate: string;
  authority: string;
}

interface Invitation {
  /** Only a host of this name may use it. */
  node?: string;
  /** ms since 1970. */
  expires: number;
  /** Who used it. */
  usedBy?: string;
}

const INVITATION_LIFE = 3_600_000;
/** How long an invitation that is over can still be told apart from one that never was, ms. */
const REMEMBERED = 7 * 24 * 3_600_000;
const OPEN = 'invitation/';
const OVER = 'invitation-over/';

const INVITE_AGAIN = 'make a new one with: flockctl server invite';

/** The secret of an invitation, and the authorities that it vouches for. Throws Invalid. */
export function readInvitation(token: string): { secret: string; fingerprints: string[] } {
  const [mark, secret, ...fingerprints] = token.trim().split('.');
  const sound =
    mark === 'flock-invite' && fingerprints.length > 0 && [secret, ...fingerprints].every((part) => /^[\w-]{43}$/u.test(part ?? ''));
  if (!sound || secret === undefined) throw new Invalid(`this is not an invitation: it looks like flock-invite.<...>; ${INVITE_AGAIN}`);
  return { secret, fingerprints };
}

const hashOf = (secret: string): string => createHash('sha256').update(secret).digest('hex');

/** A token with which one host, or the one called `node`, may enrol within an hour. Only its hash is kept. */
export function invite(authority: Authority, { node }: { node?: string } = {}): string {
  forgetOld(authority);
  const secret = randomBytes(32).toString('base64url');
  const invitation: Invitation = {
    expires: authority.clock.now() + INVITATION_LIFE,
    ...(node === undefined ? {} : { node: nodeName(node) }),
  };
  authority.settings.put(OPEN + hashOf(secret), JSON.stringify(invitation));
  return ['flock-invite', secret, ...authority.fingerprints].join('.');
}

function forgetOld({ settings, clock }: Authority): void {
  for (const name of [...settings.names(OPEN), ...settings.names(OVER)]) {
    const text = settings.get(name);
    if (text !== null && (JSON.parse(text) as Invitation).expires + REMEMBERED < clock.now()) settings.take(name);
  }
}

/** Whether a certificate is a node's whose StorageNode was deleted since it was issued. Throws Unavailable when the records cannot be read. */
export async function isRevoked(records: Client, certificate: Certificate): Promise<boolean> {
  if (!userOf(certificate).groups.includes(NODE_GROUP)) return false;
  const { node, uid } = nodeOf(certificate);
  const storageNode = await ifFound(records.get(StorageNodes, node));
  // One that is being deleted is out already, whatever holds its record.
  return storageNode === null || storageNode.metadata.uid !== uid || storageNode.metadata.deletionTimestamp !== undefined;
}

/** The one error for a node whose certificate isRevoked. */
const revoked = (node: string): FlockError =>
  new FlockError(
    'Forbidden',
    `node ${node} was removed from this cluster, its certificate is revoked: enrol it again (flockctl server invite --node ${node})`,
  );

/** `/authority` and `/enrol` for anybody, `/renew` for nodes, `/invite` for admins. `records` must be allowed to make StorageNodes. */
export function enrolmentRoutes(authority: Authority, records: Client): Routes {
  return {
    '/authority': async () => ({ cluster: authority.cluster, authority: authority.bundle }),
    '/enrol': ({ body }) => enrol(authority, records, texts(body, 'token', 'csr', 'node')),
    '/renew': ({ body, peer, shown }) => renew(authority, records, { ...texts(body, 'csr'), shown: peer?.certificate ?? shown ?? null }),
    '/invite': async ({ body, peer }) => {
      if (!peer?.groups.includes(ADMIN_GROUP))
        throw new FlockError('Forbidden', 'only an admin may invite: use the kubeconfig that flockctl up wrote');
      const node = (body as { node?: unknown } | null)?.node;
      return { token: invite(authority, node === undefined ? {} : texts(body, 'node')) };
    },
  };
}

function texts<N extends string>(body: unknown, ...names: N[]): { [name in N]: string } {
  const found = (body ?? {}) as { [name: string]: unknown };
  for (const name of names) if (typeof found[name] !== 'string') throw new Invalid(`the request has no text ${name}`);
  return found as { [name in N]: string };
}

async function enrol(authority: Authority, records: Client, asked: { token: string; csr: string; node: string }): Promise<Enrolled> {
  const node = nodeName(asked.node);
  const hash = hashOf(readInvitation(asked.token).secret);
  const invitation = openInvitation(authority, hash, node);
  // All that can be refused is refused before the invitation is spent; issued for nobody, the certificate proves the request.
  const present = await ifFound(records.get(StorageNodes, node));
  refuseTakenName(node, present, invitation);
  await authority.issueNode(asked.csr, { node, uid: NOBODY });
  spend(authority, hash, node);
  const { uid } = (
    present ?? (await records.create(StorageNodes, { apiVersion: GROUP_VERSION, kind: StorageNodes.kind, metadata: { name: node } }))
  ).metadata;
  return enrolled(authority, asked.csr, { node, uid });
}

const NOBODY = '00000000-0000-0000-0000-000000000000';

async function enrolled(authority: Authority, csr: string, of: { node: string; uid: string }): Promise<Enrolled> {
  const certificate = await authority.issueNode(csr, of);
  return { cluster: authority.cluster, node: of.node, certificate, authority: authority.bundle };
}

function openInvitation({ settings, clock }: Authority, hash: string, node: string): Invitation {
  const text = settings.get(OPEN + hash);
  if (text === null) throw notOpen(settings.get(OVER + hash));
  const invitation = JSON.parse(text) as Invitation;
  if (invitation.expires <= clock.now()) {
    const when = new Date(invitation.expires).toISOString();
    throw new FlockError('Forbidden', `this invitation expired at ${when}: ${INVITE_AGAIN}`);
  }
  if (invitation.node !== undefined && invitation.node !== node) {
    throw new FlockError('Forbidden', `this invitation is for node ${invitation.node}, not for ${node}: ${INVITE_AGAIN} --node ${node}`);
  }
  return invitation;
}

function notOpen(over: string | null): FlockError {
  if (over === null) return new FlockError('Forbidden', `this invitation is not known here: ${INVITE_AGAIN}`);
  const { usedBy } = JSON.parse(over) as Invitation;
  return new FlockError('Forbidden', `this invitation was used already, by node ${usedBy}: ${INVITE_AGAIN} --node ${usedBy}`);
}

function refuseTakenName(node: string, present: Stored<StorageNode> | null, invitation: Invitation): void {
  if (present === null) return;
  if (present.metadata.deletionTimestamp !== undefined) {
    throw new FlockError('Conflict', `node ${node} is being deleted: wait until it is gone, then enrol again`);
  }
  if (invitation.node === node) return;
  const way = `take another name, or invite it by name: flockctl server invite --node ${node}`;
  throw new FlockError('AlreadyExists', `there is a node ${node} already: ${way}`);
}

/** Of two who come at once, one gets it. */
function spend({ settings }: Authority, hash: string, node: string): void {
  const text = settings.take(OPEN + hash);
  if (text === null) throw notOpen(settings.get(OVER + hash) ?? JSON.stringify({ usedBy: 'another' }));
  settings.put(OVER + hash, JSON.stringify({ ...(JSON.parse(text) as Invitation), usedBy: node } satisfies Invitation));
}

/**
 * A node that was off, or could not reach the server, for longer than its certificate's life comes back by itself: what lets a node in is its
 * StorageNode, and the key it holds. Only a certificate that ran out long ago is a stranger's.
 */
const LATEST_RENEWAL = 90 * 24 * 3_600_000;

async function renew(authority: Authority, records: Client, asked: { csr: string; shown: Certificate | null }): Promise<Enrolled> {
  const certificate = asked.shown;
  if (certificate === null || !authority.issued(certificate))
    throw new FlockError(
      'Unauthorized',
      'a certificate is renewed for who shows one of this authority: enrol this host again with an invitation',
    );
  const { cluster, node, uid } = nodeOf(certificate);
  if (cluster !== authority.cluster)
    throw new FlockError('Forbidden', `node ${node} is of cluster ${cluster}, this is ${authority.cluster}`);
  const { validToDate } = certificateOf(certificate);
  if (validToDate.getTime() + LATEST_RENEWAL <= authority.clock.now())
    throw new FlockError(
      'Unauthorized',
      `the certificate of node ${node} has expired long ago, at ${validToDate.toISOString()}: enrol it again (flockctl server invite --node ${node})`,
    );
  if (uid === null || (await isRevoked(records, certificate))) throw revoked(node);
  return enrolled(authority, asked.csr, { node, uid });
}
