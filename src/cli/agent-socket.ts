// The agent of this machine over its own unix socket: what has to happen where the volume is. JSON over HTTP; refusals are
// `{reason, message}` with a status of 400 and above. Knows no records.
import type { Benched } from '../agent/bench.ts';
import { request } from 'node:http';
import { stat } from 'node:fs/promises';
import { FlockError, messageOf, readReason } from '../model/errors.ts';

export interface Published {
  device: string;
  target: string;
}

/** What the agent fetches now. Counts are decimal strings, the rate bytes a second. */
export interface Fetching {
  /** UID of the Move. */
  move: string;
  round: number;
  bytesTotal: string;
  bytesDone: string;
  bytesResumed: string;
  rate: number;
  activity: string;
}

export interface LocalAgent {
  publish(order: { volume: string; target: string; readOnly?: boolean }): Promise<Published>;
  unpublish(order: { volume: string; target?: string }): Promise<void>;
  /** Rejects with the signal's reason, and the agent stops measuring then. */
  bench(order: { seconds: number; to?: string }, signal: AbortSignal): Promise<Benched>;
  /** As it is now; the records are told every few seconds only. */
  fetching(): Promise<Fetching[]>;
}

/**
 * The agent of `node` at the path that its record names. Throws Unsupported when that is not on this machine. Where another node's agent has the
 * same path, that one refuses by itself: every order names the node that it is for.
 */
export async function localAgent(node: string, path: string | undefined, what = 'the volume'): Promise<LocalAgent> {
  const there = path === undefined ? null : await stat(path).catch(() => null);
  if (path === undefined || !there?.isSocket())
    throw new FlockError(
      'Unsupported',
      `${what} is on node ${node}, whose agent does not run on this machine${path === undefined ? '' : ` (no socket ${path})`}: run this command on node ${node}`,
    );
  return {
    publish: async (order) => (await post(path, '/v1/publish', { node, ...order })) as Published,
    unpublish: async (order) => void (await post(path, '/v1/unpublish', { node, ...order })),
    bench: async (order, signal) => (await post(path, '/v1/bench', { node, ...order }, signal)) as Benched,
    fetching: async () => ((await post(path, '/v1/status', {})) as { transfers: Fetching[] }).transfers,
  };
}

async function post(socketPath: string, path: string, order: object, signal?: AbortSignal): Promise<unknown> {
  const { status, body } = await answer({ socketPath, path, ...(signal ? { signal } : {}) }, JSON.stringify(order));
  const parsed = parse(body);
  if (status < 400) return parsed;
  const { reason, message = `the agent answered ${status}` } = (parsed ?? {}) as { reason?: string; message?: string };
  throw new FlockError(readReason(reason), message);
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}

interface To {
  socketPath: string;
  path: string;
  signal?: AbortSignal;
}

function answer(to: To, body: string): Promise<{ status: number; body: string }> {
  const { socketPath } = to;
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const sent = request({ ...to, method: 'POST', headers, agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (part: string) => (text += part));
      response.on('end', () => resolve({ status: response.statusCode ?? 500, body: text }));
      response.on('error', (error) => reject(unanswered(socketPath, error)));
    });
    sent.on('error', (error) => reject(unanswered(socketPath, error)));
    sent.end(body);
  });
}

function unanswered(path: string, error: NodeJS.ErrnoException): FlockError {
  const cause = { cause: error };
  if (error.code === 'EACCES')
    return new FlockError('NotPermitted', `the agent's socket ${path} is not yours to use: run this command as root`, cause);
  return new FlockError('Unavailable', `the agent at ${path} does not answer (${messageOf(error)}): is it running?`, cause);
}
