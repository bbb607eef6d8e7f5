// `flockctl move list`.
import type { Command } from 'commander';
import { outputOption, watchOption } from '../arguments.ts';
import type { Context } from '../context.ts';
import { list, type ListOptions } from '../listing.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { MOVES } from '../tables.ts';

export function moveList(context: Context): Command {
  return asking('list', {
    what: 'show all moves',
    examples: ['flockctl move list', 'flockctl move list --watch', 'flockctl move list -o json'],
  })
    .addOption(outputOption())
    .addOption(watchOption())
    .action(async (options: ListOptions & Common) => list(context, await clientFor(context, options), MOVES, options));
}
