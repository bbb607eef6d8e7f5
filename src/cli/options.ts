// How every command is made: the options that all of them share, and the examples below its help. Knows no command.
import { Command, Option } from 'commander';
import type { Client } from '../api/client.ts';
import type { Context } from './context.ts';

/** Options before or after the command's name. */
export interface Common {
  server?: string;
  kubeconfig?: string;
}

const serverOption = (): Option => new Option('--server <url>', 'the server to ask (or FLOCK_SERVER)');
const kubeconfigOption = (): Option => new Option('--kubeconfig <file>', 'how to reach it (or FLOCK_KUBECONFIG)');

export interface About {
  /** One line. */
  what: string;
  examples: readonly string[];
}

export function command(name: string, about: About): Command {
  return new Command(name)
    .description(about.what)
    .addHelpText('after', `\nExamples:\n${about.examples.map((one) => `  $ ${one}\n`).join('')}`);
}

/** A command that asks a server. */
export function asking(name: string, about: About): Command {
  return command(name, about).addOption(serverOption()).addOption(kubeconfigOption());
}

/** The records, as the command's own options or the environment say. */
export const clientFor = (context: Context, options: Common): Promise<Client> => context.connect(options);
