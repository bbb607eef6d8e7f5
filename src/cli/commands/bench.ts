// `flockctl bench NODE [--to NODE] [--volume NAME]`: what a node's disks, its processor and its wire can do, and how long moving a volume would take.
import { Option, type Command } from 'commander';
import { stringify } from 'yaml';
import type { Benched } from '../../agent/bench.ts';
import type { Client } from '../../api/client.ts';
import { estimated, type Estimate } from '../../decide/estimate.ts';
import { servedCopy } from '../../decide/observed.ts';
import { timestamp } from '../../model/clock.ts';
import { FlockError, ifFound, Invalid } from '../../model/errors.ts';
import type { Stored } from '../../model/meta.ts';
import { StorageNodes } from '../../model/storage-node.ts';
import type { Volume } from '../../model/volume.ts';
import { localAgent } from '../agent-socket.ts';
import { countArgument, nodeArgument, volumeArgument } from '../arguments.ts';
import { line, type Context } from '../context.ts';
import { Interrupted } from '../exit-codes.ts';
import { bytesOf, harmless, humanRate, humanSeconds } from '../format.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { aligned } from '../print.ts';
import { nodeNamed, volumeNamed } from '../records.ts';

interface Options extends Common {
  to?: string;
  volume?: string;
  seconds: number;
  output: 'table' | 'json' | 'yaml';
}

/** What is shown, in either form. Rates are bytes a second. */
interface Result extends Benched {
  node: string;
  to?: string;
  volume?: string;
  estimate?: Estimate;
}

const LONGEST = 5;
/** For how long the other node lets this one in, ms: more than measuring takes. */
const LET_IN = 60_000;
/** How long its listener may take to open, ms. */
const OPENED = 10_000;

export function benchCommand(context: Context): Command {
  return asking('bench', {
    what: "measure a node's disks, hash and wire for some seconds, and say what bounds a move; run it on the machine of that node",
    examples: ['flockctl bench node-1', 'flockctl bench node-1 --to node-2 --volume db', 'flockctl bench node-1 --to node-2 -o json'],
  })
    .argument('<name>', 'name of the node', nodeArgument)
    .option('--to <node>', 'measure the wire to the agent of that node too', nodeArgument)
    .option('--volume <name>', 'say how long moving it would take', volumeArgument)
    .option('--seconds <count>', 'how long each part may take', countArgument(LONGEST), 2)
    .addOption(new Option('-o, --output <format>', 'how to show it').choices(['table', 'json', 'yaml']).default('table'))
    .action(async (name: string, options: Options) => bench(context, name, options));
}

async function bench(context: Context, name: string, options: Options): Promise<void> {
  if (options.to === name) throw new Invalid(`node ${name} has no wire to itself: name another one with --to`);
  const client = await clientFor(context, options);
  const node = await nodeNamed(client, name);
  const volume = options.volume === undefined ? null : await volumeNamed(client, options.volume);
  const agent = await localAgent(name, node.status?.socket, 'what is to be measured');
  if (options.output === 'table') line(context.err, `measuring node ${name}; volumes are not touched`);
  const { seconds, to } = options;
  try {
    const ask = (): Promise<Benched> => agent.bench({ seconds, ...(to === undefined ? {} : { to }) }, context.interrupted);
    const measured = to === undefined ? await ask() : await letIn(context, client, { by: name, to, act: ask });
    print(context, resultOf(name, options, { measured, volume }), options.output);
  } catch (error) {
    if (context.interrupted.aborted) throw new Interrupted('nothing is measured any more, and nothing is left of it');
    throw error;
  }
}

/** The other node opens its listener for this one while `act` goes on, and no longer than a minute. */
async function letIn<T>(context: Context, client: Client, { by, to, act }: { by: string; to: string; act: () => Promise<T> }): Promise<T> {
  const { metadata } = await nodeNamed(client, to);
  const until = timestamp({ ...context.clock, now: () => context.clock.now() + LET_IN });
  const order = (measure: { by: string; until: string } | null): Promise<unknown> =>
    client.patch(StorageNodes, to, { metadata: { uid: metadata.uid }, spec: { measure } });
  await order({ by, until });
  try {
    await opened(context, client, to);
    return await act();
  } finally {
    await ifFound(order(null));
  }
}

async function opened({ clock, interrupted }: Context, client: Client, to: string): Promise<void> {
  const until = clock.monotonic() + OPENED;
  while (!(await client.get(StorageNodes, to)).status?.transfer) {
    if (clock.monotonic() > until)
      throw new FlockError('Unavailable', `node ${to} does not open its listener: does its agent run? flockctl node show ${to} tells`);
    await clock.sleep(100, interrupted);
  }
}

function resultOf(
  node: string,
  { to, volume: name }: Options,
  { measured, volume }: { measured: Benched; volume: Stored<Volume> | null },
): Result {
  const result: Result = { node, ...(to === undefined ? {} : { to }), ...measured };
  if (!volume || name === undefined) return result;
  const disks = measured.pools[volume.spec.pool ?? ''] ?? Object.values(measured.pools).find((pool) => 'read' in pool);
  const { read, write } = disks && 'read' in disks ? disks : { read: null, write: null };
  const wire = typeof measured.wire === 'number' ? measured.wire : null;
  const estimate = estimated(bytesToMove(volume), { read, write, hash: measured.hash, wire });
  return { ...result, volume: name, ...(estimate ? { estimate } : {}) };
}

/** What is allocated, or where its agent does not say the whole. */
function bytesToMove(volume: Stored<Volume>): number {
  const { allocated, size } = servedCopy(volume) ?? {};
  return Number(allocated ?? size ?? volume.status?.capacity ?? 0);
}

function print(context: Context, result: Result, format: Options['output']): void {
  if (format === 'json') return context.out.write(`${JSON.stringify(result, null, 2)}\n`);
  if (format === 'yaml') return context.out.write(stringify(result));
  for (const text of [...aligned(rowsOf(result)), ...saying(result)]) line(context.out, harmless(text));
}

const unmeasured = (why: string): string => `not measured: ${why}`;

function rowsOf({ pools, hash, wire, to }: Result): string[][] {
  const disks = Object.entries(pools).flatMap(([name, pool]) =>
    'why' in pool
      ? [[`pool ${name}`, unmeasured(pool.why)]]
      : [
          [`pool ${name}, reading`, humanRate(pool.read)],
          [`pool ${name}, writing`, humanRate(pool.write)],
        ],
  );
  const line = wire === undefined ? [] : [[`wire from node ${to}`, typeof wire === 'number' ? humanRate(wire) : unmeasured(wire.why)]];
  return [...disks, ['hashing, one processor', humanRate(hash)], ...line];
}

function saying({ volume, estimate, to, node }: Result): string[] {
  if (volume === undefined) return [];
  if (!estimate) return ['', `how long moving volume ${volume} takes cannot be said: neither a disk nor a wire was measured`];
  const { bytes, seconds, bound, rate } = estimate;
  const over = to === undefined ? ' The wire was not measured: name the other node with --to.' : '';
  return [
    '',
    `moving volume ${volume} (${bytesOf(String(Math.round(bytes)))}) takes about ${humanSeconds(Math.max(1, Math.ceil(seconds)))}, at ${humanRate(rate)}: ${bound} bounds it.${over}`,
    `Supposed: the target's disk is like that of node ${node}, nothing else goes on, and no limit is set.`,
  ];
}
