// `flockctl down`: stops the cluster that `up` started on this machine.
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { FlockError } from '../../model/errors.ts';
import { serves } from '../connection.ts';
import { line, type Context } from '../context.ts';
import { bringDown } from '../local/cluster.ts';
import { currentCluster, pointAway } from '../local/pointer.ts';
import { command } from '../options.ts';

interface Options {
  dir?: string;
  delete?: true;
}

export function downCommand(context: Context): Command {
  return command('down', {
    what: 'stop the cluster on this machine and unmount what it mounted; flockctl up starts it again',
    examples: ['flockctl down', 'flockctl down --delete', 'flockctl down --dir /srv/flock'],
  })
    .option('--dir <dir>', 'folder of the cluster (of the one that came up last)')
    .option('--delete', 'remove the folder too, with all volumes in it')
    .action((options: Options) => down(context, options));
}

async function down(context: Context, options: Options): Promise<void> {
  const directory = options.dir === undefined ? currentCluster(context.env) : resolve(options.dir);
  if (directory === null) throw new FlockError('NotFound', 'no cluster came up on this machine; name its folder with --dir');
  const gone = options.delete === true;
  const stopped = await bringDown(directory, gone, context.clock);
  const before = currentCluster(context.env);
  const meant = pointAway(stopped, context.env, { gone, runs: serves });
  const again = meant === stopped ? 'flockctl up' : `flockctl up --dir ${stopped}`;
  line(context.out, gone ? `the cluster in ${stopped} is gone` : `the cluster in ${stopped} is stopped; ${again} starts it again`);
  if (meant !== before && meant !== null) line(context.out, `commands that name no server ask the cluster in ${meant} again`);
}
