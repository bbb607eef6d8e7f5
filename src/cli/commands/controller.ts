// `flockctl controller`: the reconcile loops, of which one of all controllers runs at a time.
import type { Command } from 'commander';
import { listenArgument } from '../arguments.ts';
import type { Context } from '../context.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { logFor } from '../process.ts';

interface Options extends Common {
  metrics?: { host: string; port: number };
}

export function controllerCommand(context: Context): Command {
  return asking('controller', {
    what: 'run a controller; of several the one that holds the Lease works',
    examples: ['flockctl controller --kubeconfig /var/lib/flock/server/controller.kubeconfig'],
  })
    .option('--metrics <host:port>', 'serve /metrics there', listenArgument)
    .action(async (options: Options) => {
      // Loaded only here: what a controller needs would make every other command start slowly.
      const { runController } = await import('../../controller/main.ts');
      const client = await clientFor(context, options);
      const metrics = options.metrics === undefined ? {} : { metrics: options.metrics };
      await runController({ client, log: logFor(context, 'controller'), ...metrics }, context.interrupted);
    });
}
