// One server over HTTP: requests with time-outs, and streams that end when they fall silent. Certificates and tokens are asked for again
// at every use, so that a renewed one needs no restart. Knows no kind and no path.
import { Agent as HttpAgent, request as httpRequest, type ClientRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { systemClock, type Clock } from '../model/clock.ts';
import { FlockError, Invalid } from '../model/errors.ts';
import { refusalOf, unreachable, type ReceivedStatus } from './http-errors.ts';

export interface ConnectionConfig {
  /** `https://host:port`, `http://host:port` (loopback and tests) or `unix:/path/of/socket`. */
  server: string;
  /** PEM bundle of the authorities that may vouch for the server; undefined: the system's. */
  authority?: () => string | undefined;
  /** This client's own certificate and key, PEM. */
  identity?: () => { certificate: string; key: string } | undefined;
  /** Bearer token. */
  token?: () => string | undefined;
  /** Name in the server's certificate when it is not the address's. */
  serverName?: string;
  /** Only for a first contact whose answer is checked by other means. */
  unverified?: boolean;
  clock?: Clock;
  /** ms until an answer must have come, 30 s by default. */
  requestTimeout?: number;
  /** ms without a byte after which a stream is ended, 60 s by default. */
  streamSilence?: number;
}

export interface Call {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  body?: unknown;
  contentType?: string;
}

export interface Answer {
  code: number;
  /** Parsed JSON; null when it was none. */
  body: unknown;
}

export interface Connection {
  readonly server: string;
  /** Resolves with any answer, also a refusal. Throws Unavailable, Unauthorized (TLS), Invalid (too large). */
  call(call: Call): Promise<Answer>;
  /** Like call, but a refusal is thrown, as its FlockError. */
  demand(call: Call): Promise<unknown>;
  /** The parsed lines of a GET. Ends with the server's stream, the signal or silence; throws refusals. */
  lines(path: string, signal?: AbortSignal): AsyncGenerator<unknown, void, void>;
  /** This machine's address in the last connection that was answered; null: none was, or not by network. */
  localAddress(): string | null;
  /** Drops the idle connections. */
  close(): void;
}

/** kube-apiserver refuses larger ones; ours does too. Bytes. */
const LARGEST_REQUEST = 3 * 1024 * 1024;
/** A page of a list or one watch event: anything above is not ours. Bytes. */
const LARGEST_ANSWER = 64 * 1024 * 1024;
/** Idle connections are closed after this, ms: below the usual idle time-outs of servers. */
const IDLE = 45_000;

interface Target {
  secure: boolean;
  options: RequestOptions;
  agent: () => HttpAgent;
}

function targetOf(config: ConnectionConfig): Target {
  if (config.server.startsWith('unix:')) return plainTarget({ socketPath: config.server.slice('unix:'.length) });
  if (!URL.canParse(config.server))
    throw new Invalid(`server ${JSON.stringify(config.server)} is not an address: write it like https://host:6443`);
  const url = new URL(config.server);
  const host = url.hostname.replace(/^\[(.*)\]$/u, '$1');
  if (url.protocol === 'http:') return plainTarget({ host, port: Number(url.port || 80) });
  if (url.protocol !== 'https:') throw new Invalid(`server ${config.server} is not valid: use https://, http:// or unix:`);
  const options = { host, port: Number(url.port || 443), ...(config.serverName ? { servername: config.serverName } : {}) };
  return { secure: true, options, agent: secureAgents(config) };
}

function plainTarget(options: RequestOptions): Target {
  const agent = new HttpAgent({ keepAlive: true, timeout: IDLE });
  return { secure: false, options, agent: () => agent };
}

const dropIdle = (agent: HttpAgent): void => {
  for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
};

/** An agent for the current certificates: as long as they stay the same it stays the same, and with it its connections. */
function secureAgents(config: ConnectionConfig): () => HttpAgent {
  let used = '';
  let agent: HttpsAgent | null = null;
  return () => {
    const identity = config.identity?.();
    const authority = config.authority?.();
    const now = JSON.stringify([identity?.certificate, identity?.key, authority]);
    if (agent !== null && now === used) return agent;
    if (agent !== null) dropIdle(agent);
    used = now;
    agent = new HttpsAgent({
      keepAlive: true,
      timeout: IDLE,
      minVersion: 'TLSv1.2',
      rejectUnauthorized: config.unverified !== true,
      ...(identity ? { cert: identity.certificate, key: identity.key } : {}),
      ...(authority ? { ca: authority } : {}),
    });
    return agent;
  };
}

export function connectTo(config: ConnectionConfig): Connection {
  return new HttpConnection(config);
}

class HttpConnection implements Connection {
  readonly server: string;
  readonly #config: ConnectionConfig;
  readonly #target: Target;
  readonly #clock: Clock;
  #localAddress: string | null = null;

  constructor(config: ConnectionConfig) {
    this.server = config.server;
    this.#config = config;
    this.#target = targetOf(config);
    this.#clock = config.clock ?? systemClock;
  }

  async call(call: Call): Promise<Answer> {
    const body = call.body === undefined ? null : Buffer.from(JSON.stringify(call.body));
    if (body !== null && body.length > LARGEST_REQUEST) {
      throw new Invalid(`the object for ${call.path} is ${body.length} bytes: at most ${LARGEST_REQUEST} are accepted`);
    }
    try {
      return await this.#once(call, body);
    } catch (error) {
      // The server closed a kept connection while the request was on its way. Reading again is harmless; a write may have been done.
      if (call.method === 'GET' && error instanceof StaleConnection) return await this.#once(call, body);
      throw unreachable(this.server, causeOf(error));
    }
  }

  async demand(call: Call): Promise<unknown> {
    const { code, body } = await this.call(call);
    if (code >= 200 && code < 300) return body;
    throw refusalOf(this.server, code, body as ReceivedStatus | null);
  }

  async *lines(path: string, signal?: AbortSignal): AsyncGenerator<unknown, void, void> {
    if (signal?.aborted) return;
    const ended = new AbortController();
    const request = this.#open({ method: 'GET', path }, null);
    const stop = (): void => void request.destroy();
    signal?.addEventListener('abort', stop, { once: true });
    try {
      yield* this.#linesOf(request, ended.signal);
    } catch (error) {
      if (signal?.aborted) return;
      throw unreachable(this.server, causeOf(error));
    } finally {
      ended.abort();
      signal?.removeEventListener('abort', stop);
      request.destroy();
    }
  }

  async *#linesOf(request: ClientRequest, ended: AbortSignal): AsyncGenerator<unknown, void, void> {
    const response = await this.#timed(request, answerTo(request));
    const code = response.statusCode ?? 0;
    if (code !== 200) throw refusalOf(this.server, code, parsed(await textOf(response)) as ReceivedStatus | null);
    yield* linesOf(response, this.#guardSilence(response, ended).heard);
  }

  localAddress(): string | null {
    return this.#localAddress;
  }

  close(): void {
    dropIdle(this.#target.agent());
  }

  async #once(call: Call, body: Buffer | null): Promise<Answer> {
    const request = this.#open(call, body);
    const answer = answerTo(request).then(async (response) => ({ code: response.statusCode ?? 0, body: parsed(await textOf(response)) }));
    return await this.#timed(request, answer);
  }

  #open(call: Call, body: Buffer | null): ClientRequest {
    const token = this.#config.token?.();
    const send = this.#target.secure ? httpsRequest : httpRequest;
    const request = send({
      ...this.#target.options,
      agent: this.#target.agent(),
      method: call.method,
      path: call.path,
      headers: {
        accept: 'application/json',
        'user-agent': 'flock',
        ...(body === null ? {} : { 'content-type': call.contentType ?? 'application/json', 'content-length': body.length }),
        ...(token ? { authorization: `Bearer ${token}` } : {}),
      },
    });
    request.once('response', ({ socket }) => {
      this.#localAddress = socket.localAddress?.replace(/^::ffff:/u, '') ?? null;
    });
    request.end(body ?? undefined);
    return request;
  }

  async #timed<R>(request: ClientRequest, result: Promise<R>): Promise<R> {
    const limit = this.#config.requestTimeout ?? 30_000;
    const answered = new AbortController();
    const late = this.#clock.sleep(limit, answered.signal).then(
      () => {
        const error = new FlockError('Unavailable', `${this.server} did not answer within ${limit / 1000} s; try again later`);
        request.destroy(error);
        throw error;
      },
      () => new Promise<never>(() => {}),
    );
    try {
      return await Promise.race([result, late]);
    } finally {
      answered.abort();
    }
  }

  /** A connection whose other end vanished looks like one without news: what is silent for too long is ended, and made anew by the caller. */
  #guardSilence(response: IncomingMessage, ended: AbortSignal): { heard: () => void } {
    const limit = this.#config.streamSilence ?? 60_000;
    let last = this.#clock.monotonic();
    const guard = async (): Promise<void> => {
      for (let left = limit; left > 0; left = last + limit - this.#clock.monotonic()) await this.#clock.sleep(left, ended);
      response.destroy(new Silence());
    };
    guard().catch(() => {});
    return { heard: () => (last = this.#clock.monotonic()) };
  }
}

/** Ends a stream without an error. */
class Silence extends Error {}

/** A kept connection was closed before anything of the answer came. */
class StaleConnection extends Error {}

const causeOf = (error: unknown): unknown => (error instanceof StaleConnection ? error.cause : error);

function answerTo(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve);
    request.on('error', (error: NodeJS.ErrnoException) => {
      const stale = request.reusedSocket && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
      reject(stale ? new StaleConnection(error.message, { cause: error }) : error);
    });
    request.once('close', () => reject(new Error('the request was ended')));
  });
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > LARGEST_ANSWER) throw new Invalid(`the answer is above ${LARGEST_ANSWER} bytes: ask for smaller pages`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Cuts a stream of bytes into lines, whichever way it was cut into chunks. */
function lineCutter(): (chunk: Buffer) => string[] {
  let rest: Buffer[] = [];
  let length = 0;
  return (chunk) => {
    const lines: string[] = [];
    let from = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
      lines.push(Buffer.concat([...rest, chunk.subarray(from, end)]).toString('utf8'));
      rest = [];
      length = 0;
      from = end + 1;
    }
    rest.push(chunk.subarray(from));
    length += chunk.length - from;
    if (length > LARGEST_ANSWER) throw new Invalid(`a line of the stream is above ${LARGEST_ANSWER} bytes`);
    return lines.filter((line) => line.trim() !== '');
  };
}

async function* linesOf(response: IncomingMessage, heard: () => void): AsyncGenerator<unknown, void, void> {
  const cut = lineCutter();
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      heard();
      for (const line of cut(chunk)) yield JSON.parse(line);
    }
  } catch (error) {
    if (!(error instanceof Silence)) throw error;
  }
}
