// `flockctl controller`: the reconcile loops, of which one of all controllers runs at a time.
import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { Client } from '../../api/client.ts';
import type { Log } from '../../api/log.ts';
import type { ConnectionConfig } from '../../api/http-connection.ts';
import { inCluster } from '../../api/kubeconfig.ts';
import { listenArgument } from '../arguments.ts';
import { chosenServer } from '../connection.ts';
import type { Context } from '../context.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { logFor } from '../process.ts';
import { version } from '../version.ts';

interface Options extends Common {
  metrics?: { host: string; port: number };
  csiSocket?: string;
}

export function controllerCommand(context: Context): Command {
  return asking('controller', {
    what: 'run a controller; of several the one that holds the Lease works',
    examples: ['flockctl controller --kubeconfig /var/lib/flock/server/controller.kubeconfig'],
  })
    .option('--metrics <host:port>', 'serve /metrics there', listenArgument)
    .option('--csi-socket <path>', 'serve CSI Identity and Controller there')
    .action((options: Options) => controller(context, options));
}

async function controller(context: Context, options: Options): Promise<void> {
  // Loaded only here: what a controller needs would make every other command start slowly.
  const { runController } = await import('../../controller/main.ts');
  const client = await clientFor(context, options);
  const log = logFor(context, 'controller');
  const metrics = options.metrics === undefined ? {} : { metrics: options.metrics };
  const pod = podServer(context, options);
  const csi = options.csiSocket === undefined ? null : await serveCsi(context, { client, log, socket: resolve(options.csiSocket), pod });
  const signing = pod === null ? [] : [await sign(context, pod, log)];
  try {
    await runController({ client, log, ...metrics }, context.interrupted);
  } finally {
    await csi?.close();
    for (const { done } of signing) await done;
  }
}

/** The server of the cluster whose pod this is, if that is the one that it works with. */
function podServer(context: Context, options: Options): ConnectionConfig | null {
  const pod = inCluster(context.env);
  const { connection } = chosenServer(options, context.env);
  return pod !== null && connection.server === pod.server ? connection : null;
}

interface Signing {
  done: Promise<void>;
}

/** Where there is no server of ours, the controller gives agents their certificates. Ends with the interruption. */
async function sign(context: Context, connection: ConnectionConfig, log: Log): Promise<Signing> {
  const { signWith } = await import('../../kubernetes/signer.ts');
  return { done: signWith(connection, { clock: context.clock, random: Math.random, log }, context.interrupted) };
}

interface CsiServing {
  client: Client;
  log: Log;
  socket: string;
  pod: ConnectionConfig | null;
}

async function serveCsi(context: Context, { pod, ...serving }: CsiServing): Promise<{ close(): Promise<void> }> {
  const { serveController } = await import('../../csi/serve-controller.ts');
  const { isWanted } = await import('../../kubernetes/attachments.ts');
  const asking = pod === null ? {} : { isWanted: (volume: string, node: string) => isWanted(serving.client, volume, node) };
  return serveController({ ...serving, ...asking, clock: context.clock, random: Math.random, version: version() });
}
