// What a certificate says of its holder, read with care and without the means to issue one. Whether to believe the certificate at all is
// TLS's business, and the caller's: nothing here looks at a signature.
import { X509Certificate } from 'node:crypto';
import { FlockError } from '../model/errors.ts';
import { NAME_PATTERN, UID_PATTERN } from '../model/names.ts';

export const NODE_GROUP = 'flock:nodes';
export const ADMIN_GROUP = 'flock:admins';
export const CONTROLLER_GROUP = 'flock:controllers';
export const NODE_USER_PREFIX = 'flock:node:';

export interface NodePeer {
  cluster: string;
  node: string;
  /** UID of the StorageNode that the certificate was issued for; null: another authority's, which does not know of it. */
  uid: string | null;
}

/** A certificate: PEM, DER, or what a TLS socket tells of its peer. */
export type Certificate = string | Buffer | { raw: Buffer };

export function certificateOf(certificate: Certificate): X509Certificate {
  const bytes = typeof certificate === 'string' || Buffer.isBuffer(certificate) ? certificate : certificate.raw;
  try {
    return new X509Certificate(bytes);
  } catch (cause) {
    throw new FlockError('Unauthorized', 'what was shown is not a certificate: the peer must show one of this cluster', { cause });
  }
}

const URI = new RegExp(`^URI:flock://([a-z0-9][-a-z0-9]{0,62})/node/(${NAME_PATTERN.slice(1, -1)})$`, 'u');
const OUR_URI = /URI:flock:/gu;
const UID = new RegExp(UID_PATTERN, 'u');

/** The node that a certificate is for: exactly one `flock://<cluster>/node/<name>` among its names. Throws Unauthorized. */
export function nodeOf(certificate: Certificate): NodePeer {
  const parsed = certificateOf(certificate);
  const refuse = (why: string): never => {
    throw new FlockError('Unauthorized', `the certificate of ${JSON.stringify(parsed.subject)} is not a node's: ${why}`);
  };
  const found = nodeIn(parsed.subjectAltName);
  return found ? { ...found, uid: uidIn(parsed.subject) } : refuse('it must have exactly one name like flock://<cluster>/node/<name>');
}

/** The node that a certificate's alternative names speak of, null if of none or of several. */
export function nodeIn(names = ''): { cluster: string; node: string } | null {
  // A name with separators in it is shown quoted. Ours never need it, so that one who tries is not worth understanding.
  if (names.includes('"') || (names.match(OUR_URI) ?? []).length !== 1) return null;
  const [, cluster, node] = names.split(', ').flatMap((name) => URI.exec(name) ?? []);
  return cluster === undefined || node === undefined || node.length > 253 ? null : { cluster, node };
}

function uidIn(subject: string): string | null {
  const units = subject.split('\n').filter((line) => line.startsWith('OU='));
  const uid = units.length === 1 ? units[0]?.slice('OU='.length) : undefined;
  return uid !== undefined && UID.test(uid) ? uid : null;
}

/** CN and O of a certificate, as Kubernetes reads them: user and groups. */
export function userOf(certificate: Certificate): { user: string; groups: string[] } {
  const lines = certificateOf(certificate).subject.split('\n');
  const all = (key: string): string[] => lines.filter((line) => line.startsWith(key)).map((line) => line.slice(key.length));
  return { user: all('CN=')[0] ?? '', groups: all('O=') };
}

/** Who is at the other end of a connection, as its server found out. */
export interface Peer {
  user: string;
  groups: readonly string[];
  /** What it showed in the TLS handshake, verified; null: it showed none. */
  certificate: Certificate | null;
}
