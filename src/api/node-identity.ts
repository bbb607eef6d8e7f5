// How a host becomes a node and stays one, the host's side: first contact with a server that only the invitation vouches for, and a
// certificate that is renewed in time and kept in one file. Knows the server's answers, not its reasons.
import { createPrivateKey } from 'node:crypto';
import { open, readFile, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Clock } from '../model/clock.ts';
import { FlockError, Invalid, isReason, messageOf } from '../model/errors.ts';
import { nodeName } from '../model/names.ts';
import { backoffDelay } from './backoff.ts';
import { certificatesIn, fingerprintOf, renewIn, requestCertificate, type NodeIdentity } from './certificates.ts';
import { readInvitation, type Enrolled } from './enrolment.ts';
import { connectTo, type Connection, type ConnectionConfig } from './http-connection.ts';
import type { Log } from './log.ts';
import { certificateOf, nodeOf } from './peer.ts';

/**
 * Makes this host a node of the server's cluster. The server is believed only when one of the authorities that the invitation names
 * vouches for it. Throws Unauthorized (another server), Forbidden (the invitation), AlreadyExists (the name), Unavailable.
 */
export async function enrolHost(asked: { server: string; token: string; node: string; clock?: Clock }): Promise<NodeIdentity> {
  const { server, token, clock } = asked;
  const node = nodeName(asked.node);
  if (!server.startsWith('https://')) throw new Invalid(`a host enrols over https only: ${server} is not such an address`);
  const timing = clock === undefined ? {} : { clock };
  const authority = await authorityFor(server, token, timing);
  const { key, csr } = await requestCertificate();
  const connection = connectTo({ server, authority: () => authority, ...timing });
  try {
    const answer = (await connection.demand({ method: 'POST', path: '/enrol', body: { token, csr, node } })) as Enrolled;
    return soundIdentity(server, { ...answer, key }, node);
  } finally {
    connection.close();
  }
}

/** The server's authority, as whoever answers tells it; believed because its fingerprint is in the invitation. */
async function authorityFor(server: string, token: string, timing: { clock?: Clock }): Promise<string> {
  const { fingerprints } = readInvitation(token);
  const connection = connectTo({ server, unverified: true, ...timing });
  try {
    const answer = (await connection.demand({ method: 'POST', path: '/authority', body: {} })) as { authority?: unknown } | null;
    const shown = typeof answer?.authority === 'string' ? certificatesIn(answer.authority) : [];
    const vouched = shown.filter((certificate) => fingerprints.includes(fingerprintOf(certificate)));
    if (vouched.length > 0) return vouched.join('\n');
    throw new FlockError(
      'Unauthorized',
      `${server} is not the server that made this invitation: its authority is another; check the address`,
    );
  } finally {
    connection.close();
  }
}

/** What was given is for this node and this key: an identity that would fail later fails now. */
export function soundIdentity(server: string, given: NodeIdentity, node: string): NodeIdentity {
  const { cluster, certificate, authority, key } = given;
  const peer = nodeOf(certificate);
  const fits = peer.node === node && peer.cluster === cluster && certificateOf(certificate).checkPrivateKey(createPrivateKey(key));
  if (!fits)
    throw new FlockError('Corrupt', `${server} gave a certificate that is not for node ${node} and its key: is it of the same version?`);
  return { cluster, node, key, certificate, authority };
}

/** Reads an identity that writeIdentity wrote. Throws NotFound, Corrupt. */
export async function readIdentity(file: string): Promise<NodeIdentity> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (cause) {
    throw new FlockError('NotFound', `there is no identity in ${file}: enrol this host first (${messageOf(cause)})`, { cause });
  }
  try {
    const { cluster, node, key, certificate, authority } = JSON.parse(text) as NodeIdentity;
    return soundIdentity(file, { cluster, node, key, certificate, authority }, node);
  } catch (cause) {
    throw new FlockError('Corrupt', `the identity in ${file} cannot be used: enrol this host again (${messageOf(cause)})`, { cause });
  }
}

/** Old or new, whole, and readable by its owner only, whenever the machine stops. */
export async function writeIdentity(file: string, identity: NodeIdentity): Promise<void> {
  const draft = `${file}.new`;
  await rm(draft, { force: true });
  const handle = await open(draft, 'wx', 0o600);
  try {
    await handle.writeFile(`${JSON.stringify(identity, null, 2)}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, file);
  const folder = await open(dirname(file), 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

export interface RenewalOptions {
  server: string;
  clock: Clock;
  random: () => number;
  log: Log;
  signal: AbortSignal;
  /** Name in the server's certificate when it is not the address's. */
  serverName?: string;
}

export interface RenewedIdentity {
  /** The newest one; ask at every handshake. */
  current: () => NodeIdentity;
  /** Ends with the signal. */
  done: Promise<void>;
}

const RETRY = { first: 5_000, longest: 600_000 };
/** A machine that slept wakes up with timers that did not run: look at the wall clock at least this often, ms. */
const LOOK = 15 * 60_000;

/**
 * Keeps the identity in `file` renewed until the signal aborts: at two thirds of its life, then again and again until it succeeded. One that
 * has run out is renewed before this resolves, however long that takes: nobody would let its bearer in.
 */
export async function keepRenewed(file: string, options: RenewalOptions): Promise<RenewedIdentity> {
  let identity = await readIdentity(file);
  const current = (): NodeIdentity => identity;
  const config: ConnectionConfig = {
    server: options.server,
    identity: current,
    authority: () => identity.authority,
    clock: options.clock,
    ...(options.serverName === undefined ? {} : { serverName: options.serverName }),
  };
  const connection = connectTo(config);
  const renewed = async (): Promise<void> => {
    const next = await renewOnce(connection, identity);
    await writeIdentity(file, next);
    identity = next;
  };
  const renewal = { current, renewed, failures: 0 };
  const { signal, clock } = options;
  while (isOver(identity, clock) && !signal.aborted) await attempt(renewal, options);
  const done = renewForEver(renewal, options).finally(() => connection.close());
  return { current, done };
}

async function renewOnce(connection: Connection, { node }: NodeIdentity): Promise<NodeIdentity> {
  const { key, csr } = await requestCertificate();
  const answer = (await connection.demand({ method: 'POST', path: '/renew', body: { csr } })) as Enrolled;
  return soundIdentity(connection.server, { ...answer, key }, node);
}

interface Renewal {
  current: () => NodeIdentity;
  renewed: () => Promise<void>;
  /** In a row. */
  failures: number;
}

const isOver = ({ certificate }: NodeIdentity, clock: Clock): boolean => certificateOf(certificate).validToDate.getTime() <= clock.now();

/** One try, and after a failure a pause, which the signal ends. */
async function attempt(renewal: Renewal, { clock, log, signal, random }: RenewalOptions): Promise<void> {
  try {
    await renewal.renewed();
    renewal.failures = 0;
    log.info({ node: renewal.current().node }, 'the certificate was renewed');
  } catch (error) {
    const delay = isReason(error, 'Forbidden') ? RETRY.longest : backoffDelay(renewal.failures, RETRY, random);
    renewal.failures += 1;
    const { node, certificate } = renewal.current();
    const until = certificateOf(certificate).validTo;
    log.warn({ node, failures: renewal.failures, until }, `the certificate could not be renewed: ${messageOf(error)}`);
    await clock.sleep(delay, signal).catch(() => undefined);
  }
}

async function renewForEver(renewal: Renewal, options: RenewalOptions): Promise<void> {
  const { clock, signal } = options;
  while (!signal.aborted) {
    const left = renewIn(renewal.current().certificate, clock);
    await (left > 0 ? clock.sleep(Math.min(left, LOOK), signal).catch(() => undefined) : attempt(renewal, options));
  }
}
