// The agent's local socket: what has to happen on the machine where the volume is. JSON over HTTP on a unix socket that only root (or the
// agent's own user) can open. Refusals are `{reason, message}`. What is served is the caller's matter; the CSI node service has a socket of
// its own (src/csi).
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { chmod, rm } from 'node:fs/promises';
import { statusOf } from '../api/status.ts';
import { FlockError, Invalid, messageOf, reasonOf } from '../model/errors.ts';

/** `signal`: who asked has gone. */
export type Call = (body: { [field: string]: unknown }, signal: AbortSignal) => Promise<object>;

const LARGEST_BODY = 64 * 1024;

/** Serves `calls` (by path) and `metrics`. A socket that a dead agent left behind is replaced. */
export async function serveSocket(
  path: string,
  calls: { [path: string]: Call },
  metrics: () => Promise<string>,
): Promise<{ close(): Promise<void> }> {
  await rm(path, { force: true });
  const server = createServer((request, response) => void serve(request, response, calls, metrics));
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, resolve);
  });
  await chmod(path, 0o600);
  return { close: () => new Promise<void>((resolve) => server.close(() => resolve())) };
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  calls: { [path: string]: Call },
  metrics: () => Promise<string>,
): Promise<void> {
  try {
    if (request.method === 'GET' && request.url === '/metrics') {
      const text = await metrics();
      response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4' }).end(text);
      return;
    }
    const call = Object.hasOwn(calls, request.url ?? '') ? calls[request.url ?? ''] : undefined;
    if (!call) throw new FlockError('NotFound', `the agent has no ${request.method} ${request.url}`);
    const gone = new AbortController();
    response.once('close', () => gone.abort(new FlockError('Unavailable', 'whoever asked has gone')));
    answer(response, 200, await call(await bodyOf(request), gone.signal));
  } catch (error) {
    answer(response, statusOf(error).code, { reason: reasonOf(error), message: messageOf(error) });
  }
}

function answer(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

async function bodyOf(request: IncomingMessage): Promise<{ [field: string]: unknown }> {
  let text = '';
  request.setEncoding('utf8');
  for await (const part of request) {
    text += part as string;
    if (text.length > LARGEST_BODY) throw new Invalid(`the request is larger than ${LARGEST_BODY} bytes`);
  }
  if (text === '') return {};
  const body = parsed(text);
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw new Invalid('the request is not a JSON object');
  return body as { [field: string]: unknown };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Invalid(`the request is not JSON: ${messageOf(error)}`, { cause: error });
  }
}

/** A field of a request as text. */
export function textOf(body: { [field: string]: unknown }, field: string): string {
  const value = body[field];
  if (typeof value !== 'string') throw new Invalid(`the request needs "${field}" as a text`);
  return value;
}
