// `flockctl completion SHELL`, what a shell is to read, and the hidden `flockctl complete`, which it then asks at every tab.
import { Argument, type Command } from 'commander';
import type { Client } from '../../api/client.ts';
import { listAll } from '../../api/list-all.ts';
import { Moves } from '../../model/move.ts';
import { Snapshots } from '../../model/snapshot.ts';
import { StorageNodes } from '../../model/storage-node.ts';
import { Volumes } from '../../model/volume.ts';
import { complete, scriptFor, SHELLS, type Named, type Shell } from '../completion.ts';
import { line, type Context } from '../context.ts';
import { asking, clientFor, command, type Common } from '../options.ts';

export function completionCommand(context: Context): Command {
  return command('completion', {
    what: 'print what a shell needs to complete commands and names',
    examples: [
      'flockctl completion bash > /etc/bash_completion.d/flockctl',
      'flockctl completion zsh > ~/.zfunc/_flockctl',
      'flockctl completion fish > ~/.config/fish/completions/flockctl.fish',
    ],
  })
    .addArgument(new Argument('<shell>', 'which shell').choices(SHELLS))
    .action((shell: Shell) => context.out.write(scriptFor(shell)));
}

/** A shell does not wait longer for names. */
const PATIENCE_MS = 2000;

/** `program`: all commands, put together. */
export function completeCommand(context: Context, program: () => Command): Command {
  return asking('complete', { what: 'what may come next, a word a line; shells ask it', examples: ['flockctl complete -- volume cr'] })
    .argument('[words...]', 'the words so far, and the one being typed')
    .action(async (words: string[], options: Common) => {
      const found = complete(program(), words);
      const names = found.named === null ? [] : await namesOf(context, found.named, options);
      const typed = words.at(-1) ?? '';
      for (const word of [...found.words, ...names.filter((name) => name.startsWith(typed))]) line(context.out, word);
    });
}

/** A server that does not answer completes nothing: whoever types is told by the command itself. */
async function namesOf(context: Context, named: Named, options: Common): Promise<string[]> {
  const over = new AbortController();
  const late = context.clock.sleep(PATIENCE_MS, over.signal).then(
    () => [],
    () => [],
  );
  try {
    return await Promise.race([clientFor(context, options).then((client) => LISTED[named](client)), late]);
  } catch {
    return [];
  } finally {
    over.abort();
  }
}

const names = (list: { items: readonly { metadata: { name: string } }[] }): string[] => list.items.map(({ metadata }) => metadata.name);

const LISTED: { [named in Named]: (client: Client) => Promise<string[]> } = {
  volume: async (client) => names(await listAll(client, Volumes)),
  move: async (client) => names(await listAll(client, Moves)),
  node: async (client) => names(await listAll(client, StorageNodes)),
  snapshot: async (client) => names(await listAll(client, Snapshots)),
  pool: async (client) => [
    ...new Set((await listAll(client, StorageNodes)).items.flatMap(({ status }) => Object.keys(status?.pools ?? {}))),
  ],
};
