// One HTTP request and its answer: bodies within a limit, JSON or YAML, and errors as Status objects. Knows no paths.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { parse as parseYaml } from 'yaml';
import { messageOf } from '../model/errors.ts';
import { badRequest, refused, statusOf } from './status.ts';

/** Bytes; as kube-apiserver. */
const LARGEST_BODY = 3 * 1024 * 1024;

/** What a request is answered with; a stream writes by itself, and ends when its client goes. */
export type Reply =
  | { code: number; body: object; warnings?: string[] }
  | { code: number; text: string }
  | { stream: (response: ServerResponse) => Promise<void> };

const tooLarge = (): Error => refused(413, 'RequestEntityTooLarge', `the request is too large: at most ${LARGEST_BODY} bytes are taken`);

async function bytesOf(request: IncomingMessage): Promise<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > LARGEST_BODY) throw tooLarge();
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > LARGEST_BODY) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

const mediaType = (request: IncomingMessage): string => (request.headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() ?? '';

const JSON_TYPES = ['', 'application/json'];
const YAML_TYPES = ['application/yaml', 'text/yaml', 'application/x-yaml'];

function parsed(text: string, yaml: boolean): unknown {
  try {
    return yaml ? (parseYaml(text, { maxAliasCount: 100 }) as unknown) : (JSON.parse(text) as unknown);
  } catch (error) {
    throw badRequest(`the body is not valid ${yaml ? 'YAML' : 'JSON'}: ${messageOf(error).split('\n')[0]}`);
  }
}

/** The body as JSON or YAML says it, undefined when it is empty. Throws 413, 415 and 400 as their errors. */
export async function bodyOf(request: IncomingMessage, accepted: string[] = [...JSON_TYPES, ...YAML_TYPES]): Promise<unknown> {
  const type = mediaType(request);
  if (!accepted.includes(type)) {
    const types = accepted.filter((one) => one !== '').join(', ');
    throw refused(
      415,
      'UnsupportedMediaType',
      `the body is of type ${JSON.stringify(type)}, which this server does not take here; it takes ${types}`,
    );
  }
  const text = (await bytesOf(request)).toString();
  return text === '' ? undefined : parsed(text, YAML_TYPES.includes(type));
}

/** As in an HTTP header: printable ASCII. */
const quoted = (text: string): string => JSON.stringify(text).replaceAll(/[^\x20-\x7e]/gu, '?');

function write(response: ServerResponse, code: number, type: string, text: string): void {
  response.writeHead(code, { 'content-type': type, 'content-length': Buffer.byteLength(text), 'cache-control': 'no-cache, private' });
  response.end(text);
}

export async function answer(response: ServerResponse, reply: Reply): Promise<void> {
  if ('stream' in reply) return reply.stream(response);
  if ('text' in reply) return write(response, reply.code, 'text/plain; charset=utf-8', reply.text);
  for (const warning of reply.warnings?.slice(0, 20) ?? []) response.appendHeader('warning', `299 - ${quoted(warning)}`);
  write(response, reply.code, 'application/json', JSON.stringify(reply.body));
}

/** Tells an error, if nothing was told yet. Returns its code. */
export function answerError(request: IncomingMessage, response: ServerResponse, error: unknown): number {
  const status = statusOf(error);
  if (response.headersSent) response.destroy();
  else {
    // What is left of a body that nobody wants is not waited for.
    if (!request.complete) response.setHeader('connection', 'close');
    write(response, status.code, 'application/json', JSON.stringify(status));
  }
  return status.code;
}
