// `flockctl move VOLUME --to NODE`: orders a move; the controller and the agents carry it out, whether anybody waits or not.
import { randomInt } from 'node:crypto';
import { Option, type Command } from 'commander';
import type { Client } from '../../api/client.ts';
import { isUnfinished, phaseOf } from '../../decide/observed.ts';
import { FlockError } from '../../model/errors.ts';
import { GROUP_VERSION, type Stored } from '../../model/meta.ts';
import { Moves, type Move, type MoveSpec } from '../../model/move.ts';
import { durationArgument, nodeArgument, rateArgument, volumeArgument } from '../arguments.ts';
import { line, type Context } from '../context.ts';
import { waitForMove } from '../move-wait.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { movesOf, nodeNamed, volumeNamed } from '../records.ts';

const STALL = { wait: 'Wait', cutover: 'CutOver', abort: 'Abort' } as const;

interface Options extends Common {
  to: string;
  limit?: string;
  pause?: string;
  stall?: keyof typeof STALL;
  wait?: true;
}

export const START_EXAMPLES = [
  'flockctl move db --to node-2 --wait',
  'flockctl move db --to node-2 --limit 200M --pause 5s',
  'flockctl move db --to node-2 --stall cutover',
] as const;

export function moveStart(context: Context): Command {
  return asking('start', {
    what: 'move a volume to another node (also without the word start)',
    examples: START_EXAMPLES,
  })
    .argument('<volume>', 'volume to move', volumeArgument)
    .requiredOption('--to <node>', 'node to move it to', nodeArgument)
    .option('--limit <rate>', 'bytes a second that it may use: 200M; 0 is no limit', rateArgument)
    .option('--pause <duration>', "longest pause of the application (the volume's, 2s)", durationArgument)
    .addOption(
      new Option(
        '--stall <policy>',
        'when the application writes faster than the pause allows: wait, cut over all the same, or abort',
      ).choices(Object.keys(STALL)),
    )
    .option('--wait', 'follow it until the volume may be used there')
    .action((name: string, options: Options) => start(context, name, options));
}

async function start(context: Context, volume: string, options: Options): Promise<void> {
  const client = await clientFor(context, options);
  await refuseHopeless(client, volume, options.to);
  const move = await client.create(Moves, moveOf(volume, options));
  const { name } = move.metadata;
  if (!options.wait) return line(context.out, `move ${name} started; flockctl move show ${name} --watch follows it`);
  line(context.err, `move ${name} started`);
  await waitForMove(context, client, move);
}

/** What can never begin as it is. What may become possible is left to the move, which says what it waits for. */
async function refuseHopeless(client: Client, name: string, target: string): Promise<void> {
  const volume = await volumeNamed(client, name);
  await nodeNamed(client, target);
  if (volume.spec.node === target) throw new FlockError('Conflict', `volume ${name} is on node ${target} already: nothing to move`);
  const unfinished = (await movesOf(client, name)).find(isUnfinished);
  if (unfinished) throw new FlockError('Conflict', alreadyMoving(name, unfinished));
}

function alreadyMoving(volume: string, move: Stored<Move>): string {
  const { name } = move.metadata;
  return `volume ${volume} is being moved to node ${move.spec.target} already (move ${name}, ${phaseOf(move)}); flockctl move show ${name} --watch follows it, flockctl move cancel ${name} ends it`;
}

function moveOf(volume: string, options: Options): Move {
  const { to, limit, pause, stall } = options;
  const spec: MoveSpec = {
    volume,
    target: to,
    ...(limit === undefined ? {} : { bandwidth: limit }),
    ...(pause === undefined ? {} : { allowedPause: pause }),
    ...(stall === undefined ? {} : { stallPolicy: STALL[stall] }),
  };
  return { apiVersion: GROUP_VERSION, kind: Moves.kind, metadata: { name: moveName(volume) }, spec };
}

/** Without vowels and what looks alike, so that no word comes about. */
const LETTERS = 'bcdfghjkmnpqrstvwxz2456789';
const LONGEST_NAME = 253;

/** `<volume>-<5 random>`, cut so that it is a name itself. */
function moveName(volume: string): string {
  const random = Array.from({ length: 5 }, () => LETTERS[randomInt(LETTERS.length)]).join('');
  const base = volume.slice(0, LONGEST_NAME - 6).replace(/[^a-z0-9]+$/u, '');
  return `${base}-${random}`;
}
