// What every call of every service has in common: its deadline, one at a time for each volume, errors as codes, the log. Knows no method.
import { status, type handleUnaryCall, type sendUnaryData, type ServerUnaryCall, type UntypedServiceImplementation } from '@grpc/grpc-js';
import type { Log } from '../api/log.ts';
import { noCrash, type CrashPoint } from '../model/crash.ts';
import { Refused, statusOf } from './errors.ts';
import { loggable } from './loggable.ts';

export interface Method<Q, A> {
  /** The signal aborts shortly before the caller stops waiting, and when it went away. */
  answer: (request: Q, signal: AbortSignal) => Promise<A>;
  /** What the call works on: while one is under way, others on the same answer ABORTED. '' when the request does not say. */
  on?: (request: Q) => string;
}

/** Methods of a generated service; those left out answer UNIMPLEMENTED. */
export type Methods<S> = {
  [M in keyof S as string extends M ? never : M]?: S[M] extends handleUnaryCall<infer Q, infer A> ? Method<Q, A> : never;
};

export interface CallOptions {
  log: Log;
  /** For callers that set no deadline, ms. */
  longest?: number;
  /** Called at `csi:<call>:begun`, and at `csi:<call>:done` when all is done and nothing was answered. */
  crash?: CrashPoint;
}

const LONGEST = 5 * 60_000;
/** An answer needs this to arrive before the caller's own clock ends the call, ms. */
const MARGIN = 250;

export function implementation<S>(methods: Methods<S>, options: CallOptions): UntypedServiceImplementation {
  const busy = new Set<string>();
  const entries = Object.entries(methods as { [name: string]: Method<unknown, unknown> | undefined });
  const handlers: [string, handleUnaryCall<unknown, unknown>][] = entries.flatMap(([name, method]) =>
    method ? [[name, (call, reply) => void serve({ name, method, busy, options }, call, reply)]] : [],
  );
  return Object.fromEntries(handlers);
}

interface Serving {
  name: string;
  method: Method<unknown, unknown>;
  busy: Set<string>;
  options: CallOptions;
}

async function serve(serving: Serving, call: ServerUnaryCall<unknown, unknown>, reply: sendUnaryData<unknown>): Promise<void> {
  const { name, method, options } = serving;
  const { log, crash = noCrash } = options;
  const request = loggable(call.request);
  log.debug({ call: name, request }, 'asked');
  const deadline = deadlineOf(call, options.longest ?? LONGEST);
  try {
    crash(`csi:${name}:begun`);
    const answer = await alone(serving, call.request, deadline.signal);
    crash(`csi:${name}:done`);
    log[method.on ? 'info' : 'debug']({ call: name, request, answer: loggable(answer) }, 'answered');
    reply(null, answer);
  } catch (error) {
    const refusal = statusOf(error);
    log[EXPECTED.has(refusal.code) ? 'info' : 'warn'](
      { call: name, request, code: status[refusal.code], error: refusal.details },
      'refused',
    );
    reply(refusal);
  } finally {
    deadline.end();
  }
}

/** Part of ordinary life: the caller comes again, or went away. */
const EXPECTED: ReadonlySet<status> = new Set([status.ABORTED, status.CANCELLED]);

async function alone({ method, busy }: Serving, request: unknown, signal: AbortSignal): Promise<unknown> {
  const key = method.on?.(request) ?? '';
  if (key === '') return method.answer(request, signal);
  if (busy.has(key)) throw new Refused(status.ABORTED, `another call for ${key} is under way; try again in a moment`);
  busy.add(key);
  try {
    return await method.answer(request, signal);
  } finally {
    busy.delete(key);
  }
}

function deadlineOf(call: ServerUnaryCall<unknown, unknown>, longest: number): { signal: AbortSignal; end: () => void } {
  const controller = new AbortController();
  const given = Number(call.getDeadline()) - Date.now();
  const left = Number.isFinite(given) ? Math.max(0, given - Math.min(MARGIN, given / 4)) : longest;
  const timer = setTimeout(() => controller.abort(new Refused(status.DEADLINE_EXCEEDED, 'the time for this call is over')), left);
  call.on('cancelled', () => controller.abort(new Refused(status.CANCELLED, 'the caller went away')));
  return { signal: controller.signal, end: () => clearTimeout(timer) };
}
