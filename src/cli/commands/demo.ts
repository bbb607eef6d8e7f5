// `flockctl demo`: the main job on this machine, with real data, in about a minute.
import { Option, type Command } from 'commander';
import { FlockError } from '../../model/errors.ts';
import type { Context } from '../context.ts';
import { command } from '../options.ts';

export function demoCommand(context: Context): Command {
  return command('demo', {
    what: 'move a volume while an application writes it, kill an agent on the way, and prove that nothing was lost; leaves nothing behind',
    examples: ['flockctl demo', 'flockctl demo --pool directory', 'TMPDIR=/srv/tmp flockctl demo'],
  })
    .addOption(
      new Option('--pool <pool>', 'block devices or directories (local as root, directory without root)').choices(['local', 'directory']),
    )
    .action(async ({ pool }: { pool?: 'local' | 'directory' }) => {
      // Loaded only here: what it needs would make every other command start slowly.
      const { runDemo } = await import('../demo/demo.ts');
      const failed = await runDemo(context, pool);
      if (failed > 0) throw new FlockError('Internal', `${failed} of the demo's claims did not hold`);
    });
}
