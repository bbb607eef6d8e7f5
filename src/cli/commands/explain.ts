// `flockctl explain volume|move|node NAME`: what it is, what it waits for, and what would happen if.
import { Command } from 'commander';
import type { Client } from '../../api/client.ts';
import { listAll } from '../../api/list-all.ts';
import { explainMove, explainNode, explainVolume, type Passage, type Records } from '../../decide/explain.ts';
import { Moves } from '../../model/move.ts';
import { Snapshots } from '../../model/snapshot.ts';
import { StorageNodes } from '../../model/storage-node.ts';
import { Volumes } from '../../model/volume.ts';
import { moveArgument, nodeArgument, volumeArgument } from '../arguments.ts';
import { line, type Context } from '../context.ts';
import { harmless } from '../format.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { moveNamed, nodeNamed, volumeNamed } from '../records.ts';

interface Explained {
  what: string;
  name: (text: string) => string;
  explain: (client: Client, name: string, now: number) => Promise<Passage[]>;
}

const EXPLAINED: { [kind: string]: Explained } = {
  volume: {
    what: 'volume',
    name: volumeArgument,
    explain: async (client, name) => explainVolume(await volumeNamed(client, name), await recordsOf(client)),
  },
  move: {
    what: 'move, or a volume that moves',
    name: moveArgument,
    explain: async (client, name, now) => explainMove(await moveNamed(client, name), now, (await listAll(client, StorageNodes)).items),
  },
  node: {
    what: 'node',
    name: nodeArgument,
    explain: async (client, name) => explainNode(await nodeNamed(client, name), await recordsOf(client)),
  },
};

const EXAMPLE: { [kind: string]: string } = { volume: 'db', move: 'db', node: 'node-1' };

export function explainCommand(context: Context): Command {
  const command = new Command('explain').description('say what something waits for, and what would happen if');
  for (const [kind, { what, name, explain }] of Object.entries(EXPLAINED))
    command.addCommand(
      asking(kind, {
        what: `what a ${kind} is, what it waits for, and what would happen if`,
        examples: [`flockctl explain ${kind} ${EXAMPLE[kind]}`],
      })
        .argument('<name>', `name of the ${what}`, name)
        .action(async (text: string, options: Common) => {
          const told = await explain(await clientFor(context, options), text, context.clock.now());
          line(context.out, linesOf(told).join('\n'));
        }),
    );
  return command;
}

const linesOf = (told: readonly Passage[]): string[] =>
  told.flatMap(({ title, lines }, index) => [...(index > 0 ? [''] : []), `${title}:`, ...lines.map((text) => `  ${harmless(text)}`)]);

async function recordsOf(client: Client): Promise<Records> {
  const [volumes, moves, nodes, snapshots] = await Promise.all([
    listAll(client, Volumes),
    listAll(client, Moves),
    listAll(client, StorageNodes),
    listAll(client, Snapshots),
  ]);
  return { volumes: volumes.items, moves: moves.items, nodes: nodes.items, snapshots: snapshots.items };
}
