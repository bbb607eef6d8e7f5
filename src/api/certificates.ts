// The cluster's own authority: it issues the certificates by which server, controller, people and nodes know each other. Keys and
// bundle live in the server's Settings. Knows no record and no request; who may have a certificate is decided in enrolment.ts.
import './metadata-reflection.ts';
import { createHash, randomBytes, webcrypto } from 'node:crypto';
import { isIP } from 'node:net';
import * as x509 from '@peculiar/x509';
import type { Clock } from '../model/clock.ts';
import { Invalid } from '../model/errors.ts';
import { nodeName } from '../model/names.ts';
import { ADMIN_GROUP, certificateOf, CONTROLLER_GROUP, NODE_GROUP, NODE_USER_PREFIX, type Certificate } from './peer.ts';
import type { Settings } from './settings.ts';

/** A node's certificate, as PEM. Asked for at every handshake, so that a renewed one is used without a restart. */
export interface NodeIdentity {
  cluster: string;
  node: string;
  key: string;
  certificate: string;
  authority: string;
}

/** A certificate with its key, and whom to trust; PEM. */
export interface Credentials {
  key: string;
  certificate: string;
  authority: string;
}

/** How long certificates live, ms. */
export interface Lives {
  authority: number;
  /** People's, the controllers' and the server's. */
  party: number;
  node: number;
}

const DAY = 24 * 3_600_000;
export const LIVES: Lives = { authority: 3650 * DAY, party: 365 * DAY, node: DAY };

/** Certificates begin this long ago, ms, so that a clock that is a little behind accepts them. */
const BACKDATE = 5 * 60_000;
const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const SETTING = 'authority';

interface Generation {
  certificate: string;
  key: string;
}

interface Kept {
  cluster: string;
  /** Oldest first. */
  generations: Generation[];
}

/** Opens the authority that these settings keep; made when there is none. */
export async function openAuthority(settings: Settings, clock: Clock, lives: Lives = LIVES): Promise<Authority> {
  const authority = new Authority(settings, clock, lives);
  await authority.maintain();
  return authority;
}

export class Authority {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly #lives: Lives;

  constructor(settings: Settings, clock: Clock, lives: Lives) {
    this.settings = settings;
    this.clock = clock;
    this.#lives = lives;
  }

  get cluster(): string {
    return this.#kept().cluster;
  }

  /** PEM of every authority that may have issued a certificate in use, the oldest first. */
  get bundle(): string {
    return this.#kept()
      .generations.map(({ certificate }) => certificate)
      .join('\n');
  }

  get fingerprints(): string[] {
    return this.#kept().generations.map(({ certificate }) => fingerprintOf(certificate));
  }

  /** One of this cluster's authorities signed it; whether it is valid at this time is not asked. */
  issued(certificate: Certificate): boolean {
    const signed = certificateOf(certificate);
    return this.#kept().generations.some((generation) => {
      const signer = certificateOf(generation.certificate);
      return signed.checkIssued(signer) && signed.verify(signer.publicKey);
    });
  }

  /**
   * Makes a new generation when less than a quarter of the newest one's life is left, and drops those that are over. Issuing goes on
   * with the old one until every certificate of before has been renewed, and with it everybody's bundle. True when something changed.
   */
  async maintain(): Promise<boolean> {
    const kept = this.#read() ?? { cluster: randomBytes(8).toString('hex'), generations: [] };
    const now = this.clock.now();
    const valid = kept.generations.filter(({ certificate }) => endOf(certificate) > now);
    const newest = valid.at(-1);
    const due = newest === undefined || endOf(newest.certificate) - now < this.#lives.authority / 4;
    if (!due && valid.length === kept.generations.length) return false;
    const generations = due ? [...valid, await this.#newGeneration(kept.cluster)] : valid;
    this.settings.put(SETTING, JSON.stringify({ cluster: kept.cluster, generations } satisfies Kept));
    return true;
  }

  issueAdmin(): Promise<Credentials> {
    return this.#issueParty({ O: [ADMIN_GROUP], CN: ['admin'] }, ['clientAuth'], []);
  }

  issueController(): Promise<Credentials> {
    return this.#issueParty({ O: [CONTROLLER_GROUP], CN: ['controller'] }, ['clientAuth'], []);
  }

  /** For a server that is reached under these names and addresses. */
  issueServer(hosts: readonly string[]): Promise<Credentials> {
    const names = hosts.map((host) => new x509.GeneralName(isIP(host) ? 'ip' : 'dns', host));
    return this.#issueParty({ CN: ['flock-server'] }, ['serverAuth'], names);
  }

  /** A node's certificate, PEM. Of the request only the key is taken, once it has proven itself. `uid` is the StorageNode's. Throws Invalid. */
  async issueNode(csr: string, of: { node: string; uid: string }): Promise<string> {
    const publicKey = await provenKey(csr);
    const name = new x509.GeneralName('url', `flock://${this.cluster}/node/${nodeName(of.node)}`);
    const subject = { O: [NODE_GROUP], OU: [of.uid], CN: [`${NODE_USER_PREFIX}${of.node}`] };
    return this.#sign({ subject, uses: ['clientAuth', 'serverAuth'], names: [name], life: this.#lives.node }, publicKey);
  }

  async #issueParty(subject: Subject, uses: Use[], names: x509.GeneralName[]): Promise<Credentials> {
    const keys = await newKeys();
    const certificate = await this.#sign({ subject, uses, names, life: this.#lives.party }, keys.publicKey);
    return { key: await keyText(keys.privateKey), certificate, authority: this.bundle };
  }

  async #sign(leaf: Leaf, publicKey: x509.PublicKeyType): Promise<string> {
    const issuer = this.#issuer();
    const authority = new x509.X509Certificate(issuer.certificate);
    const now = this.clock.now();
    const usages = leaf.uses.map((use) => x509.ExtendedKeyUsage[use]);
    const extensions = [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension(usages),
      await x509.SubjectKeyIdentifierExtension.create(publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(authority.publicKey),
      ...(leaf.names.length > 0 ? [new x509.SubjectAlternativeNameExtension(leaf.names)] : []),
    ];
    const certificate = await x509.X509CertificateGenerator.create({
      serialNumber: newSerial(),
      subject: nameOf(leaf.subject),
      issuer: authority.subjectName,
      notBefore: new Date(now - BACKDATE),
      notAfter: new Date(Math.min(now + leaf.life, authority.notAfter.getTime())),
      signingAlgorithm: ALGORITHM,
      publicKey,
      signingKey: await privateKeyOf(issuer.key),
      extensions,
    });
    return certificate.toString('pem');
  }

  /** The newest generation that everybody has had the time to fetch; the oldest that is left when there is none. */
  #issuer(): Generation {
    const { generations } = this.#kept();
    const overlap = Math.max(this.#lives.party, this.#lives.node);
    const known = generations.filter(({ certificate }) => beginOf(certificate) + BACKDATE + overlap <= this.clock.now());
    const issuer = known.at(-1) ?? generations.find(({ certificate }) => endOf(certificate) > this.clock.now());
    if (issuer === undefined) throw new Invalid("the cluster's authority is over: maintain() was not called in time");
    return issuer;
  }

  async #newGeneration(cluster: string): Promise<Generation> {
    const keys = await newKeys();
    const now = this.clock.now();
    const serialNumber = newSerial();
    const certificate = await x509.X509CertificateGenerator.createSelfSigned({
      serialNumber,
      // Two generations must differ in name, or a verifier may try the wrong one's key.
      name: nameOf({ O: ['flock'], CN: [`flock ${cluster} ${serialNumber.slice(0, 8)}`] }),
      notBefore: new Date(now - BACKDATE),
      notAfter: new Date(now + this.#lives.authority),
      signingAlgorithm: ALGORITHM,
      keys,
      extensions: [
        new x509.BasicConstraintsExtension(true, 0, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      ],
    });
    return { certificate: certificate.toString('pem'), key: await keyText(keys.privateKey) };
  }

  #read(): Kept | null {
    const text = this.settings.get(SETTING);
    return text === null ? null : (JSON.parse(text) as Kept);
  }

  #kept(): Kept {
    const kept = this.#read();
    if (kept === null) throw new Invalid('there is no authority yet: open it with openAuthority');
    return kept;
  }
}

type Use = 'clientAuth' | 'serverAuth';
type Subject = { [part in 'O' | 'OU' | 'CN']?: string[] };

interface Leaf {
  subject: Subject;
  uses: Use[];
  names: x509.GeneralName[];
  life: number;
}

/** As attributes and not as text, so that no character of a value can begin another attribute. */
const nameOf = (subject: Subject): x509.JsonName => Object.entries(subject).map(([part, values]) => ({ [part]: values }));

const newSerial = (): string => {
  const bytes = randomBytes(16);
  // Positive, and without leading zeros, which DER does not keep.
  bytes[0] = 0x40 | (bytes.readUInt8(0) & 0x3f);
  return bytes.toString('hex');
};

const newKeys = (): Promise<webcrypto.CryptoKeyPair> => webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);

async function keyText(key: webcrypto.CryptoKey): Promise<string> {
  return x509.PemConverter.encode(await webcrypto.subtle.exportKey('pkcs8', key), 'PRIVATE KEY');
}

const privateKeyOf = (pem: string): Promise<webcrypto.CryptoKey> =>
  webcrypto.subtle.importKey('pkcs8', x509.PemConverter.decodeFirst(pem), ALGORITHM, false, ['sign']);

async function provenKey(csr: string): Promise<x509.PublicKey> {
  let proven = false;
  let key: x509.PublicKey | null = null;
  try {
    const request = new x509.Pkcs10CertificateRequest(csr);
    key = request.publicKey;
    proven = await request.verify();
  } catch (cause) {
    throw new Invalid('the certificate request cannot be read: send a PKCS#10 request as PEM', { cause });
  }
  const algorithm = key.algorithm as { name: string; namedCurve?: string };
  if (algorithm.name !== 'ECDSA' || algorithm.namedCurve !== 'P-256')
    throw new Invalid('the certificate request has a key that is not ECDSA P-256');
  if (!proven) throw new Invalid('the certificate request is not signed by its own key');
  return key;
}

/** A new key and a request that proves it, PEM. What else the request says is ignored by who issues. */
export async function requestCertificate(): Promise<{ key: string; csr: string }> {
  const keys = await newKeys();
  const csr = await x509.Pkcs10CertificateRequestGenerator.create({ name: nameOf({ CN: ['flock'] }), keys, signingAlgorithm: ALGORITHM });
  return { key: await keyText(keys.privateKey), csr: csr.toString('pem') };
}

const beginOf = (certificate: string): number => certificateOf(certificate).validFromDate.getTime();
const endOf = (certificate: string): number => certificateOf(certificate).validToDate.getTime();

/** ms until two thirds of a certificate's life are over; 0 when they are. */
export function renewIn(certificate: string, clock: Clock): number {
  const begin = beginOf(certificate);
  return Math.max(0, begin + ((endOf(certificate) - begin) * 2) / 3 - clock.now());
}

/** SHA-256 of a certificate, base64url. */
export const fingerprintOf = (certificate: string): string =>
  createHash('sha256').update(certificateOf(certificate).raw).digest('base64url');

/** The certificates of a PEM bundle, each as PEM. */
export const certificatesIn = (bundle: string): string[] =>
  bundle.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/gu) ?? [];
