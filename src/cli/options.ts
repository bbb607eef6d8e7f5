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
  return new Command(name).description(about.what).addHelpText('after', examplesText(about.examples));
}

export const examplesText = (examples: readonly string[]): string =>
  `\nExamples:\n${examples.map((one) => `  $ ${wrapped(one)}\n`).join('')}`;

const WIDTH = 76;

/** As a shell reads it over several lines. */
function wrapped(example: string): string {
  const lines = [''];
  for (const part of example.split(/ (?=--)/u)) {
    const line = lines.at(-1) ?? '';
    if (line === '') lines[lines.length - 1] = part;
    else if (line.length + part.length + ' '.length < WIDTH) lines[lines.length - 1] = `${line} ${part}`;
    else lines.push(`      ${part}`);
  }
  return lines.join(' \\\n');
}

/** A command that asks a server. */
export function asking(name: string, about: About): Command {
  return command(name, about).addOption(serverOption()).addOption(kubeconfigOption());
}

/** The records, as the command's own options or the environment say. */
export const clientFor = (context: Context, options: Common): Promise<Client> => context.connect(options);
