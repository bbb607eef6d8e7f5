// `flockctl volume list`.
import type { Command } from 'commander';
import { outputOption, watchOption } from '../arguments.ts';
import type { Context } from '../context.ts';
import { list, type ListOptions } from '../listing.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { VOLUMES } from '../tables.ts';

export function volumeList(context: Context): Command {
  return asking('list', {
    what: 'show all volumes',
    examples: ['flockctl volume list', 'flockctl volume list --watch', 'flockctl volume list -o json'],
  })
    .addOption(outputOption())
    .addOption(watchOption())
    .action(async (options: ListOptions & Common) => list(context, await clientFor(context, options), VOLUMES, options));
}
