// `flockctl version`.
import type { Command } from 'commander';
import { line, type Context } from '../context.ts';
import { command } from '../options.ts';
import { version } from '../version.ts';

export function versionCommand(context: Context): Command {
  return command('version', { what: 'show the version of this program', examples: ['flockctl version'] }).action(() =>
    line(context.out, version()),
  );
}
