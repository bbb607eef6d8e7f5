// `flockctl controller`: the reconcile loops, of which one of all controllers runs at a time.
import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { Client } from '../../api/client.ts';
import type { Log } from '../../api/log.ts';
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
  const csi = options.csiSocket === undefined ? null : await serveCsi(context, { client, log, socket: resolve(options.csiSocket) });
  const signing = await signInCluster(context, options, log);
  try {
    await runController({ client, log, ...metrics }, context.interrupted);
  } finally {
    await csi?.close();
    await Promise.all(signing);
  }
}

/** Where there is no server of ours, the controller gives agents their certificates. Ends with the interruption. */
async function signInCluster(context: Context, options: Options, log: Log): Promise<Promise<void>[]> {
  const pod = inCluster(context.env);
  const { connection } = chosenServer(options, context.env);
  if (pod === null || connection.server !== pod.server) return [];
  const { signWith } = await import('../../kubernetes/signer.ts');
  return [signWith(connection, { clock: context.clock, random: Math.random, log }, context.interrupted)];
}

async function serveCsi(context: Context, serving: { client: Client; log: Log; socket: string }): Promise<{ close(): Promise<void> }> {
  const { serveController } = await import('../../csi/serve-controller.ts');
  return serveController({ ...serving, clock: context.clock, random: Math.random, version: version() });
}
