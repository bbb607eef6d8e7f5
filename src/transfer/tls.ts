// Who is at the other end: TLS 1.3 with certificates on both sides, and the node's name in them. An address proves nothing, so none is
// compared. Knows no frames.
import { constants } from 'node:crypto';
import { isIP } from 'node:net';
import type { ConnectionOptions, SecureContextOptions, TlsOptions, TLSSocket } from 'node:tls';
import type { NodeIdentity } from '../api/certificates.ts';
import { certificateOf, nodeIn, nodeOf, type Certificate, type NodePeer } from '../api/peer.ts';
import { FlockError } from '../model/errors.ts';
import type { Peer } from './transfer.ts';

/** The node that a certificate is for, null when it is for none of this cluster. */
function nodeOfCluster(certificate: Certificate, cluster: string): NodePeer | null {
  const found = nodeIn(certificateOf(certificate).subjectAltName);
  return found?.cluster === cluster ? nodeOf(certificate) : null;
}

const secure = (identity: NodeIdentity): SecureContextOptions => ({
  key: identity.key,
  cert: identity.certificate,
  ca: identity.authority,
  minVersion: 'TLSv1.3',
  maxVersion: 'TLSv1.3',
  ciphers: 'TLS_AES_256_GCM_SHA384',
  // Every connection proves itself by its certificate, none by an earlier one.
  secureOptions: constants.SSL_OP_NO_TICKET,
});

/** A certificate that the authority did not sign is refused by the listener itself, which can say why; TLS would only hang up. */
export const listenSecurely = (identity: NodeIdentity): TlsOptions => ({
  ...secure(identity),
  requestCert: true,
  rejectUnauthorized: false,
});

export const dialSecurely = (identity: NodeIdentity, node: string): ConnectionOptions => ({
  ...secure(identity),
  rejectUnauthorized: true,
  servername: isIP(node) === 0 ? node : '',
  checkServerIdentity: (_host, certificate) => {
    const found = nodeOfCluster(certificate, identity.cluster)?.node;
    if (found === node) return undefined;
    return new FlockError(
      'Unauthorized',
      `the source's certificate is ${found ? `of node ${found}` : `of no node of cluster ${identity.cluster}`}, not of node ${node}: check the source's transfer address`,
    );
  },
});

/** The node at the other end of a connection that was made to us. Throws Unauthorized. */
export function peerOf(socket: TLSSocket, identity: NodeIdentity): Peer {
  const certificate = socket.getPeerX509Certificate();
  if (!certificate) throw new FlockError('Unauthorized', 'a certificate is needed, and none was shown: enrol this node');
  if (!socket.authorized)
    throw new FlockError(
      'Unauthorized',
      `the certificate is not valid here (${String(socket.authorizationError)}): it must be signed by this cluster's authority and not be expired`,
    );
  const peer = nodeOfCluster({ raw: certificate.raw }, identity.cluster);
  if (!peer) throw new FlockError('Unauthorized', `the certificate is of no node of cluster ${identity.cluster}`);
  return { node: peer.node, uid: peer.uid };
}

/** What went wrong while dialling: a certificate, or the way there. */
export function dialError(error: Error & { code?: string }, whom: string): FlockError {
  if (error instanceof FlockError) return error;
  const ofCertificate = /CERT|SELF_SIGNED|UNABLE_TO_(VERIFY|GET)|TLSV1|SSLV3|ALERT/u.test(error.code ?? '');
  if (ofCertificate)
    return new FlockError('Unauthorized', `${whom} and this node do not accept each other's certificates: ${error.message}`, {
      cause: error,
    });
  return new FlockError('Unavailable', `the connection to ${whom} failed: ${error.message || String(error.code)}`, { cause: error });
}
