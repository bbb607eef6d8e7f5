// `flockctl agent`: one node. Enrols with an invitation the first time, and keeps its certificate renewed from then on.
import { readFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Option, type Command } from 'commander';
import type { Alongside } from '../../agent/local-node.ts';
import { networkOf, type TransferNetwork } from '../../agent/transfer-network.ts';
import type { NodeIdentity } from '../../api/certificates.ts';
import { httpClient, type HttpClient } from '../../api/http-client.ts';
import { inCluster } from '../../api/kubeconfig.ts';
import type { Log } from '../../api/log.ts';
import { beFolder } from '../../host/files.ts';
import { PRESSURE_FOLDER } from '../../host/pressure.ts';
import { FlockError, Invalid, messageOf } from '../../model/errors.ts';
import { parsePools, type PoolConfiguration } from '../../pools/configuration.ts';
import { listenArgument, listenOption, nodeArgument } from '../arguments.ts';
import type { Context } from '../context.ts';
import { command } from '../options.ts';
import { logFor } from '../process.ts';
import { version } from '../version.ts';

interface Options {
  name: string;
  dir: string;
  pools: string;
  server?: string;
  invite?: string;
  listen: { host: string; port: number };
  network?: string;
  networkRequired?: true;
  metrics?: { host: string; port: number };
  compression: 'auto' | 'off';
  ignorePressure?: true;
  csiSocket?: string;
  registrationSocket?: string;
}

const DATA_PORT = 9807;

export function agentCommand(context: Context): Command {
  return command('agent', {
    what: 'run the agent of a node; its pools are named by a file',
    examples: [
      'flockctl agent --name host-a --dir /var/lib/flock/agent --pools /etc/flock/pools.yaml --server https://10.0.0.1:9806 --invite "$TOKEN"',
      'flockctl agent --name host-a --dir /var/lib/flock/agent --pools /etc/flock/pools.yaml --server https://10.0.0.1:9806 --network 10.1.0.0/16',
    ],
  })
    .requiredOption('--name <node>', 'name of this node', nodeArgument)
    .requiredOption('--dir <dir>', "folder for the agent's own files, its identity among them")
    .requiredOption('--pools <file>', 'YAML file with the pools of this node')
    .option('--server <url>', 'the server to report to (or FLOCK_SERVER); in a pod by default that of its cluster')
    .option('--invite <token>', 'invitation to enrol with, the first time (or FLOCK_INVITE, which other users cannot see)')
    .addOption(listenOption('--listen <host:port>', 'where other agents fetch volume data', ['0.0.0.0', DATA_PORT]))
    .option('--network <cidr>', 'network that volume data goes over', networkArgument)
    .option('--network-required', 'rather wait than use another network')
    .option('--metrics <host:port>', 'serve /metrics there, besides the local socket', listenArgument)
    .addOption(
      new Option(
        '--compression <when>',
        'compress volume data that leaves this node: where the wire is slow and samples get smaller, or never',
      )
        .choices(['auto', 'off'])
        .default('auto'),
    )
    .option('--ignore-pressure', 'copy in the background at full speed, however long others wait for disks and processors')
    .option('--csi-socket <path>', 'serve CSI Identity and Node there')
    .option('--registration-socket <path>', "make the CSI driver known to this node's kubelet there (needs --csi-socket)")
    .action((options: Options) => agent(context, options));
}

function networkArgument(text: string): string {
  networkOf(text);
  return text;
}

async function agent(context: Context, options: Options): Promise<void> {
  const folder = resolve(options.dir);
  const records = recordsOf(context, options);
  const pools = await poolsIn(options.pools);
  const log = logFor(context, 'agent');
  if (pools.length === 0)
    log.warn({ node: options.name, file: options.pools }, `${options.pools} names no pool: this node will hold no volumes`);
  const alongside = await csiOf(options, { folder, log });
  // An agent that cannot run does not go on renewing a certificate.
  const ended = new AbortController();
  const signal = AbortSignal.any([context.interrupted, ended.signal]);
  // Loaded only here: what an agent needs would make every other command start slowly.
  const { runAgent } = await import('../../agent/main.ts');
  const { client, identity } = await memberOf(context, options, { folder, log, signal, records });
  const network: TransferNetwork | null =
    options.network === undefined ? null : { cidr: options.network, policy: options.networkRequired ? 'required' : 'preferred' };
  try {
    await runAgent(
      {
        node: options.name,
        folder,
        pools,
        client,
        identity: identity.current,
        log,
        version: version(),
        listen: options.listen,
        toServer: () => client.localAddress(),
        ...(network === null ? {} : { network }),
        compression: options.compression,
        ...(options.ignorePressure ? {} : { pressure: PRESSURE_FOLDER }),
        ...(options.metrics === undefined ? {} : { metrics: options.metrics }),
        ...(alongside === undefined ? {} : { alongside }),
      },
      signal,
    );
  } finally {
    ended.abort();
    client.close();
    await identity.done;
  }
}

/** How it reaches the records, and who it is to other agents. */
interface Membership {
  client: HttpClient;
  identity: { current: () => NodeIdentity; done: Promise<void> };
}

interface Own {
  folder: string;
  log: Log;
  signal: AbortSignal;
  records: { server: string } | { pod: NonNullable<ReturnType<typeof inCluster>> };
}

/** Throws Invalid when nothing says where the records are. */
function recordsOf(context: Context, options: Options): Own['records'] {
  const server = options.server ?? context.env['FLOCK_SERVER'];
  if (server !== undefined && server !== '') return { server };
  const pod = inCluster(context.env);
  if (pod === null) throw new Invalid('no server is named: use --server or FLOCK_SERVER');
  return { pod };
}

async function memberOf(context: Context, options: Options, own: Own): Promise<Membership> {
  if ('server' in own.records) return enrolledMember(context, options, { ...own, server: own.records.server });
  const { keepCertified } = await import('../../kubernetes/node-certificate.ts');
  await beFolder(own.folder, 0o700);
  const client = httpClient(own.records.pod);
  return { client, identity: await keepCertified({ ...own, client, node: options.name, clock: context.clock, random: Math.random }) };
}

async function enrolledMember(context: Context, options: Options, own: Own & { server: string }): Promise<Membership> {
  const { server, log, signal } = own;
  const { keepRenewed } = await import('../../api/node-identity.ts');
  const file = await enrolled(context, options, own);
  const identity = await keepRenewed(file, { server, clock: context.clock, random: Math.random, log, signal });
  return { client: httpClient({ server, identity: identity.current, authority: () => identity.current().authority }), identity };
}

async function csiOf({ csiSocket, registrationSocket }: Options, own: { folder: string; log: Log }): Promise<Alongside | undefined> {
  if (csiSocket === undefined) {
    if (registrationSocket !== undefined)
      throw new Invalid('--registration-socket makes a driver known that is not served: add --csi-socket');
    return undefined;
  }
  const { serveNode } = await import('../../csi/serve-node.ts');
  const registration = registrationSocket === undefined ? {} : { registration: resolve(registrationSocket) };
  return serveNode({ ...own, ...registration, socket: resolve(csiSocket), version: version() });
}

async function poolsIn(file: string): Promise<PoolConfiguration[]> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (cause) {
    throw new FlockError('NotFound', `the pools file ${file} cannot be read: ${messageOf(cause)}`, { cause });
  }
  return parsePools(text, file);
}

/** The identity's file; made with the invitation when there is none. An invitation that is not needed any more is no error: it may stay in a unit file. */
async function enrolled(context: Context, options: Options, at: { folder: string; server: string }): Promise<string> {
  const file = join(at.folder, 'identity.json');
  if (existsSync(file)) return file;
  const token = options.invite ?? context.env['FLOCK_INVITE'];
  if (token === undefined || token === '')
    throw new FlockError(
      'Unauthorized',
      `node ${options.name} is not enrolled (no ${file}): get an invitation with flockctl server invite --node ${options.name}, and give it as --invite or FLOCK_INVITE`,
    );
  const { enrolHost, writeIdentity } = await import('../../api/node-identity.ts');
  await beFolder(at.folder, 0o700);
  await writeIdentity(file, await enrolHost({ server: at.server, token, node: options.name, clock: context.clock }));
  return file;
}
