// `flockctl snapshot list`.
import type { Command } from 'commander';
import { outputOption, watchOption } from '../arguments.ts';
import type { Context } from '../context.ts';
import { list, type ListOptions } from '../listing.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { SNAPSHOTS } from '../tables.ts';

export function snapshotList(context: Context): Command {
  return asking('list', {
    what: 'show all snapshots',
    examples: ['flockctl snapshot list', 'flockctl snapshot list --watch', 'flockctl snapshot list -o json'],
  })
    .addOption(outputOption())
    .addOption(watchOption())
    .action(async (options: ListOptions & Common) => list(context, await clientFor(context, options), SNAPSHOTS, options));
}
