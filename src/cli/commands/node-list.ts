// `flockctl node list`.
import type { Command } from 'commander';
import { outputOption, watchOption } from '../arguments.ts';
import type { Context } from '../context.ts';
import { list, type ListOptions } from '../listing.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { NODES } from '../tables.ts';

export function nodeList(context: Context): Command {
  return asking('list', {
    what: 'show all nodes and their pools',
    examples: ['flockctl node list', 'flockctl node list --watch', 'flockctl node list -o json'],
  })
    .addOption(outputOption())
    .addOption(watchOption())
    .action(async (options: ListOptions & Common) => list(context, await clientFor(context, options), NODES, options));
}
