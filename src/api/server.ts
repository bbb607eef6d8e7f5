// The records over HTTPS: who asks is told by a client certificate of our authority; then discovery, documents, routes and the REST verbs.
// Knows certificates and sockets; the verbs are rest.ts, who may do what access.ts.
import { chmodSync, existsSync, rmSync } from 'node:fs';
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type RequestListener,
  type Server as HttpServer,
  type ServerResponse,
} from 'node:http';
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https';
import { BlockList, connect, isIPv6, type AddressInfo, type ListenOptions } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../model/clock.ts';
import { FlockError, Invalid, messageOf } from '../model/errors.ts';
import { discovery } from './discovery.ts';
import type { Routes } from './enrolment.ts';
import { answer, answerError, bodyOf, type Reply } from './exchange.ts';
import type { Log } from './log.ts';
import { openApi } from './openapi.ts';
import { NODE_GROUP, certificateOf, userOf, type Certificate, type Peer } from './peer.ts';
import type { Registry } from './registry.ts';
import { readRestPath } from './rest-path.ts';
import { Rest } from './rest.ts';
import { refused, unauthorized } from './status.ts';

/** PEM. */
export interface ServerTls {
  certificate: string;
  key: string;
  /** Authorities whose client certificates count. */
  authority: string;
}

export interface ServerOptions {
  registry: Registry;
  /** Port 0: any that is free. A socket is for its owner only. */
  listen: { host: string; port: number } | { socket: string };
  /** Absent: plain HTTP, on a socket or the loopback address only; then `everybody` says who asks. */
  tls?: ServerTls;
  everybody?: Peer;
  /** Whether a node's certificate, which is valid as such, was revoked. */
  isRevoked?: (certificate: Certificate) => Promise<boolean>;
  /** Served beside the records, by path; they judge their callers themselves. */
  routes?: Routes;
  clock: Clock;
  log: Log;
}

export interface RunningServer {
  /** `https://127.0.0.1:6443`, `http://…` or `unix:/path` */
  address: string;
  /** New connections get this certificate from now on. */
  renew(tls: ServerTls): void;
  /** Ends watches and connections. */
  close(): Promise<void>;
}

const HEALTH = new Set(['/healthz', '/readyz', '/livez']);

interface Caller {
  peer: Peer | null;
  /** Why there is none. */
  reason: string;
  /** ms since 1970. */
  validUntil: number;
  /** What was shown, valid or not. */
  shown: Certificate | null;
}

const secureContext = ({ certificate, key, authority }: ServerTls): object => ({
  cert: certificate,
  key,
  ca: authority,
  minVersion: 'TLSv1.3',
});

function callerOf(socket: TLSSocket): Caller {
  const shown = socket.getPeerCertificate(true);
  const nobody = { peer: null, validUntil: Infinity };
  if (!shown.raw) return { ...nobody, reason: 'no client certificate was shown', shown: null };
  const certificate = { raw: shown.raw };
  if (!socket.authorized)
    return { ...nobody, reason: `the client certificate does not count: ${String(socket.authorizationError)}`, shown: certificate };
  const { user, groups } = userOf(certificate);
  const validUntil = certificateOf(certificate).validToDate.getTime();
  return { peer: { user, groups, certificate }, reason: '', validUntil, shown: certificate };
}

/** As it was sent: a path that climbs is nobody's, and is not made into another one. */
function targetOf({ url = '' }: IncomingMessage): { pathname: string; searchParams: URLSearchParams } {
  const question = url.indexOf('?');
  const pathname = question < 0 ? url : url.slice(0, question);
  return { pathname, searchParams: new URLSearchParams(question < 0 ? '' : url.slice(question + 1)) };
}

class Server {
  readonly #options: ServerOptions;
  readonly #rest: Rest;
  readonly #documents: Map<string, object>;
  readonly #routes: Map<string, Routes[string]>;
  readonly #callers = new WeakMap<object, Caller>();

  constructor(options: ServerOptions) {
    this.#options = options;
    this.#rest = new Rest(options.registry, options.clock);
    const { kinds } = options.registry;
    this.#documents = new Map(Object.entries({ ...discovery(kinds), ...openApi(kinds) }));
    this.#routes = new Map(Object.entries(options.routes ?? {}));
  }

  readonly listener: RequestListener = (request, response) => {
    void this.#serve(request, response);
  };

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { log, clock } = this.#options;
    const begun = clock.monotonic();
    const { method, url } = request;
    try {
      await answer(response, await this.#reply(request));
      log.debug({ method, url, code: response.statusCode, ms: Math.round(clock.monotonic() - begun) }, 'answered');
    } catch (error) {
      const code = answerError(request, response, error);
      const fields = { method, url, code, reason: messageOf(error) };
      if (code >= 500) log.error({ ...fields, err: error }, 'a request failed');
      else log.info(fields, 'a request was refused');
    }
  }

  async #reply(request: IncomingMessage): Promise<Reply> {
    const { pathname, searchParams } = targetOf(request);
    if (HEALTH.has(pathname)) return { code: 200, text: 'ok' };
    const route = this.#routes.get(pathname);
    if (route) {
      const { peer, shown } = this.#caller(request);
      return { code: 200, body: await route({ body: await bodyOf(request), peer, shown }) };
    }
    const identity = await this.#known(request);
    const document = this.#documents.get(pathname);
    if (document && request.method === 'GET') return { code: 200, body: document };
    const at = readRestPath(pathname, this.#options.registry.kinds);
    if (!at) throw refused(404, 'NotFound', 'the server could not find the requested resource');
    return this.#rest.answer({ request, at, query: searchParams, identity, stands: () => this.#stands(request) });
  }

  #caller({ socket }: IncomingMessage): Caller {
    const { tls, everybody = null } = this.#options;
    if (!tls) return { peer: everybody, reason: 'this socket has no identities', validUntil: Infinity, shown: null };
    const caller = this.#callers.get(socket) ?? callerOf(socket as TLSSocket);
    this.#callers.set(socket, caller);
    return caller;
  }

  /** Throws Unauthorized. */
  async #known(request: IncomingMessage): Promise<Peer> {
    const { peer, reason, validUntil } = this.#caller(request);
    if (!peer) throw unauthorized(`${reason}; use a certificate of this server's authority`);
    if (this.#options.clock.now() > validUntil) throw unauthorized('the client certificate has expired: connect with a renewed one');
    if (await this.#isRevoked(peer))
      throw unauthorized(
        `the certificate of ${peer.user} was revoked, for the node's record was deleted: enrol it again with an invitation (flockctl server invite --node NAME) and without the identity.json in its agent's folder`,
      );
    return peer;
  }

  async #isRevoked({ groups, certificate }: Peer): Promise<boolean> {
    const { isRevoked } = this.#options;
    return isRevoked !== undefined && certificate !== null && groups.includes(NODE_GROUP) && (await isRevoked(certificate));
  }

  async #stands(request: IncomingMessage): Promise<boolean> {
    try {
      await this.#known(request);
      return true;
    } catch {
      return false;
    }
  }
}

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8);
loopback.addAddress('::1', 'ipv6');

function checkListen({ listen, tls }: ServerOptions): ListenOptions {
  if ('socket' in listen) return { path: listen.socket };
  const { host, port } = listen;
  if (!tls && !loopback.check(host, isIPv6(host) ? 'ipv6' : 'ipv4')) {
    throw new Invalid(`the server would listen on ${host} without TLS: give it a certificate, or let it listen on 127.0.0.1`);
  }
  return { host, port };
}

/** Removes a socket that the last server left when it was killed; one that answers is in use. */
async function freeSocket(path: string): Promise<void> {
  if (!existsSync(path)) return;
  const answered = await new Promise<boolean>((resolve) => {
    const probe = connect(path, () => resolve(true)).on('error', () => resolve(false));
    probe.on('connect', () => probe.destroy());
  });
  if (answered) throw new FlockError('InUse', `another server answers at ${path}: stop that one first, or give this one another socket`);
  rmSync(path, { force: true });
}

function begun(server: HttpServer | HttpsServer, options: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause) => reject(new FlockError('Unavailable', `the server cannot listen: ${messageOf(cause)}`, { cause })));
    server.listen(options, () => {
      if (options.path) chmodSync(options.path, 0o600);
      resolve();
    });
  });
}

function addressOf(server: HttpServer, { listen, tls }: ServerOptions): string {
  if ('socket' in listen) return `unix:${listen.socket}`;
  const { port } = server.address() as AddressInfo;
  return `${tls ? 'https' : 'http'}://${isIPv6(listen.host) ? `[${listen.host}]` : listen.host}:${port}`;
}

/** Resolves when it listens. Throws Invalid for an address that must not be plain, InUse and Unavailable when it cannot be had. */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const where = checkListen(options);
  const { listener } = new Server(options);
  const { tls } = options;
  const secure = tls ? createHttpsServer({ ...secureContext(tls), requestCert: true, rejectUnauthorized: false }, listener) : null;
  const server = secure ?? createHttpServer(listener);
  // Above the clients' own, so that it is they who close an idle connection.
  server.keepAliveTimeout = 90_000;
  if (where.path) await freeSocket(where.path);
  await begun(server, where);
  return {
    address: addressOf(server, options),
    renew: (renewed) => secure?.setSecureContext(secureContext(renewed)),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
