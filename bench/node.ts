// One node of the benchmark, a process of its own: it serves its pool's copy as an agent does, or pulls one. Takes orders from the process
// that measures, and tells what they cost. Knows no references.
import { systemClock } from '../src/model/clock.ts';
import { noCrash } from '../src/model/crash.ts';
import { messageOf } from '../src/model/errors.ts';
import { readWaited } from '../src/host/pressure.ts';
import { openPool } from '../src/pools/open.ts';
import type { Pool } from '../src/pools/pool.ts';
import { pullRound } from '../src/transfer/receiver.ts';
import { Restraint } from '../src/transfer/restraint.ts';
import { serveTransfers } from '../src/transfer/sender.ts';
import { spansOf } from '../src/transfer/spans.ts';
import type { NodeIdentity } from '../src/api/certificates.ts';
import type { Log } from '../src/api/log.ts';
import type { Hello, Progress, RoundOrder } from '../src/transfer/transfer.ts';
import { overwriteRandomly } from './loads.ts';

export interface Order {
  /** `restrained`: it gives way to others as an agent does. */
  open: { path: string; identity: NodeIdentity; restrained: boolean };
  serve: { host: string; copy: string };
  fence: { fenced: boolean };
  overwrite: { copy: string; count: number };
  changed: { copy: string; from: string; to: string };
  pull: PullOrder;
  limit: { bytesPerSecond: number | null };
  usage: object;
}

export interface PullOrder {
  source: { host: string; port: number; node: string };
  hello: Hello;
  copy: string;
  order: RoundOrder;
}

export interface Answer {
  open: object;
  serve: { port: number };
  fence: object;
  overwrite: object;
  changed: { seconds: number; extents: number; bytes: number };
  pull: Pulled;
  limit: object;
  usage: Usage;
}

export interface Pulled {
  seconds: number;
  /** Of them, by what it did. */
  spent: { [activity: string]: number };
  bytesSent: number;
  frames: number;
}

export interface Usage {
  /** Seconds of a processor, of this process so far. */
  cpu: number;
  /** Largest so far, bytes. */
  resident: number;
  /** Payload that was sent so far. */
  sent: number;
}

export interface Reply {
  id: number;
  answer?: object;
  failure?: string;
}

const silent: Log = {
  debug: () => {},
  info: () => {},
  warn: (fields, message) => void process.stderr.write(`${message} ${JSON.stringify(fields)}\n`),
  error: (fields, message) => void process.stderr.write(`${message} ${JSON.stringify(fields)}\n`),
};
const common = { clock: systemClock, log: silent, crash: noCrash };

let pool: Pool;
let identity: NodeIdentity;
let fenced = false;
let limit: number | null = null;
let sent = 0;
let held: { restraint?: Restraint } = {};

type Acts = { [O in keyof Order]: (order: Order[O]) => Promise<Answer[O]> };

const acts: Acts = {
  open: async (order) => {
    pool = await openPool({ name: 'bench', type: 'image', path: order.path }, { uuid: null });
    ({ identity } = order);
    if (order.restrained) held = { restraint: new Restraint({ clock: systemClock, waited: () => readWaited() }) };
    return {};
  },
  serve: async ({ host, copy }) => {
    const server = await serveTransfers({
      ...common,
      listen: { host, port: 0 },
      identity: () => identity,
      authorize: async () => ({ pool, copy, fenced }),
      onBytes: (bytes) => void (sent += bytes),
      compression: 'auto',
      ...held,
    });
    return { port: server.port };
  },
  fence: async (order) => {
    ({ fenced } = order);
    return {};
  },
  overwrite: async ({ copy, count }) => {
    await overwriteRandomly(pool, copy, count);
    return {};
  },
  changed: async ({ copy, from, to }) => {
    const began = performance.now();
    const spans = await spansOf(pool.changed(copy, from, to), Number.MAX_SAFE_INTEGER);
    const bytes = spans.reduce((total, { length }) => total + length, 0);
    return { seconds: (performance.now() - began) / 1000, extents: spans.length, bytes };
  },
  pull: pulled,
  limit: async ({ bytesPerSecond }) => {
    limit = bytesPerSecond;
    return {};
  },
  usage: async () => {
    const { user, system } = process.cpuUsage();
    return { cpu: (user + system) / 1e6, resident: process.resourceUsage().maxRSS * 1024, sent };
  },
};

async function pulled({ source, hello, copy, order }: PullOrder): Promise<Pulled> {
  const spent: { [activity: string]: number } = {};
  const began = performance.now();
  let [activity, since] = ['preparing', began];
  const turn = (next: string): void => {
    const now = performance.now();
    spent[activity] = (spent[activity] ?? 0) + (now - since) / 1000;
    [activity, since] = [next, now];
  };
  const report = await pullRound(
    {
      ...common,
      ...held,
      source,
      hello,
      identity: () => identity,
      target: { pool, copy, fresh: true },
      limit: () => limit,
      onProgress: (progress: Progress) => void (progress.activity !== activity && turn(progress.activity)),
      signal: new AbortController().signal,
    },
    order,
  );
  turn('done');
  return { seconds: (performance.now() - began) / 1000, spent, bytesSent: Number(report.bytesSent), frames: report.frames };
}

async function answer({ id, what, order }: { id: number; what: keyof Order; order: never }): Promise<Reply> {
  try {
    return { id, answer: await acts[what](order) };
  } catch (error) {
    return { id, failure: messageOf(error) };
  }
}

process.on('message', (order: Parameters<typeof answer>[0]) => void answer(order).then((reply) => process.send?.(reply)));
process.on('disconnect', () => process.exit());
