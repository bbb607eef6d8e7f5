// `flockctl controller`: the reconcile loops, of which one of all controllers runs at a time.
import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { Client } from '../../api/client.ts';
import type { Log } from '../../api/log.ts';
import { listenArgument } from '../arguments.ts';
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
  try {
    await runController({ client, log, ...metrics }, context.interrupted);
  } finally {
    await csi?.close();
  }
}

async function serveCsi(context: Context, serving: { client: Client; log: Log; socket: string }): Promise<{ close(): Promise<void> }> {
  const { serveController } = await import('../../csi/serve-controller.ts');
  return serveController({ ...serving, clock: context.clock, random: Math.random, version: version() });
}
