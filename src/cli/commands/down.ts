// `flockctl down`: stops the cluster that `up` started on this machine.
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { FlockError } from '../../model/errors.ts';
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
  const gone = await bringDown(directory, options.delete === true, context.clock);
  if (options.delete) pointAway(gone, context.env);
  line(context.out, options.delete ? `the cluster in ${gone} is gone` : `the cluster in ${gone} is stopped; flockctl up starts it again`);
}
