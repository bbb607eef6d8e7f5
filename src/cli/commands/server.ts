// `flockctl server` and what belongs to it: serving the records, backup and restore, invitations.
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { connectTo } from '../../api/http-connection.ts';
import { Invalid } from '../../model/errors.ts';
import { listenOption, nodeArgument } from '../arguments.ts';
import { connectionFor } from '../connection.ts';
import { line, type Context } from '../context.ts';
import { DATABASE, layoutOf } from '../local/layout.ts';
import { currentCluster } from '../local/pointer.ts';
import { asking, command, type Common } from '../options.ts';
import { logFor } from '../process.ts';

interface ServerOptions {
  dir: string;
  listen: { host: string; port: number };
  host?: string[];
  kubeconfig?: string;
}

const PORT = 9806;

export function serverCommand(context: Context): Command {
  return command('server', {
    what: 'serve the records of a cluster: what kube-apiserver does where there is Kubernetes',
    examples: [
      'flockctl server --dir /var/lib/flock/server --listen 10.0.0.1:9806',
      'flockctl server invite --node host-a',
      'flockctl server backup /srv/backup/flock.db',
    ],
  })
    .option('--dir <dir>', 'folder of the server: its database, with the keys of its authority, and kubeconfigs', '/var/lib/flock/server')
    .addOption(listenOption('--listen <host:port>', 'where it is reached', ['127.0.0.1', PORT]))
    .option('--host <name...>', 'further names or addresses that it is reached by')
    .option('--kubeconfig <file>', "where to write the admin's kubeconfig (DIR/kubeconfig)")
    .action((options: ServerOptions) => server(context, options))
    .addCommand(backupCommand(context))
    .addCommand(restoreCommand(context))
    .addCommand(inviteCommand(context));
}

async function server(context: Context, options: ServerOptions): Promise<void> {
  // Loaded only here: what a server needs would make every other command start slowly.
  const { serve } = await import('../server-process.ts');
  const { dir, listen, host = [], kubeconfig } = options;
  const files = { directory: resolve(dir), ...(kubeconfig === undefined ? {} : { kubeconfig: resolve(kubeconfig) }) };
  await serve({ ...files, listen, hosts: host, clock: context.clock, log: logFor(context, 'server') }, context.interrupted);
}

function backupCommand(context: Context): Command {
  return command('backup', {
    what: 'copy the database of a server, also while it runs; it holds the keys of the cluster',
    examples: ['flockctl server backup /srv/backup/flock.db', 'flockctl server backup flock.db --dir /var/lib/flock/server'],
  })
    .argument('<file>', 'file to write; it must not be there')
    .option('--dir <dir>', 'folder of the server (of the cluster that came up last)')
    .action(async (file: string, { dir }: { dir?: string }) => {
      const { backup } = await import('../../api/backup.ts');
      backup(databaseIn(context, dir), resolve(file));
      line(context.out, `${resolve(file)} is written; keep it as safe as the server itself: it holds the keys of the cluster`);
    });
}

function restoreCommand(context: Context): Command {
  return command('restore', {
    what: 'put a backup in the place of the database of a stopped server; the one that was there is kept beside it',
    examples: ['flockctl server restore /srv/backup/flock.db', 'flockctl server restore flock.db --dir /var/lib/flock/server'],
  })
    .argument('<file>', 'the backup')
    .option('--dir <dir>', 'folder of the server (of the cluster that came up last)')
    .action(async (file: string, { dir }: { dir?: string }) => {
      const { restore } = await import('../../api/backup.ts');
      const aside = restore(resolve(file), databaseIn(context, dir));
      line(context.out, `${resolve(file)} is restored${aside === null ? '' : `; what was there before is kept as ${aside}`}`);
    });
}

const databaseOf = (directory: string): string => join(directory, DATABASE);

function databaseIn(context: Context, directory: string | undefined): string {
  if (directory !== undefined) return databaseOf(resolve(directory));
  const cluster = currentCluster(context.env);
  if (cluster === null) throw new Invalid('no cluster came up on this machine: name the folder of the server with --dir');
  return databaseOf(layoutOf(cluster).server);
}

function inviteCommand(context: Context): Command {
  return asking('invite', {
    what: 'make an invitation with which one host may enrol as a node within an hour',
    examples: ['flockctl server invite', 'flockctl server invite --node host-a'],
  })
    .option('--node <node>', 'only a host of this name may use it; also needed to enrol a node again', nodeArgument)
    .action(async ({ node, ...where }: Common & { node?: string }) => {
      const connection = connectTo(connectionFor(where, context.env));
      try {
        const answer = await connection.demand({ method: 'POST', path: '/invite', body: node === undefined ? {} : { node } });
        line(context.out, (answer as { token: string }).token);
      } finally {
        connection.close();
      }
    });
}
