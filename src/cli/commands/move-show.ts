// `flockctl move show`: one move for people; with --watch it is followed as --wait does.
import type { Command } from 'commander';
import type { Client } from '../../api/client.ts';
import { listAll } from '../../api/list-all.ts';
import { heldBackBy } from '../../decide/explain.ts';
import { phaseOf } from '../../decide/observed.ts';
import type { Stored } from '../../model/meta.ts';
import { Moves, type Incoming, type Move } from '../../model/move.ts';
import { StorageNodes } from '../../model/storage-node.ts';
import { moveArgument, outputOption, watchOption } from '../arguments.ts';
import type { Context } from '../context.ts';
import { ageOf, bytesOf, harmless, humanRate } from '../format.ts';
import { activityText, obstacleText } from '../move-progress.ts';
import { waitForMove } from '../move-wait.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { described } from '../print.ts';
import { moveNamed } from '../records.ts';
import { eventLines, show, type ShowOptions } from '../showing.ts';

export function moveShow(context: Context): Command {
  return asking('show', {
    what: 'show one move: how far it is, what it waits for, what it cost',
    examples: ['flockctl move show db-x7k2m', 'flockctl move show db', 'flockctl move show db --watch', 'flockctl move show db -o json'],
  })
    .argument('<name>', 'name of the move, or of its volume', moveArgument)
    .addOption(outputOption())
    .addOption(watchOption())
    .action(async (name: string, options: ShowOptions & Common) => {
      const client = await clientFor(context, options);
      const move = await moveNamed(client, name);
      if (options.watch && options.output === 'table') return waitForMove(context, client, move);
      await show(context, client, { kind: Moves, object: move, describe: (seen) => describe(context, client, seen) }, options);
    });
}

async function describe(context: Context, client: Client, move: Stored<Move>): Promise<string[]> {
  const { spec, status = {} } = move;
  const now = context.clock.now();
  const { outgoing, incoming = {} } = status;
  return [
    ...described([
      ['Name', move.metadata.name],
      ['Volume', spec.volume],
      ['From', status.source?.node],
      ['To', spec.target],
      ['Phase', phaseOf(move)],
      ['Doing', activityText(move)],
      [status.ending ? 'Ended for' : 'Obstacle', obstacleText(move) ?? undefined],
      ['Source fenced', outgoing?.fencedAt],
      ['Limit', limitOf(spec.bandwidth)],
      ['Held back', (await heldBack(client, move)) || undefined],
      ...incomingPairs(incoming),
      ['Pause', status.pauseMs === undefined ? undefined : `${status.pauseMs} ms`],
      ['Started', status.startedAt],
      ['Committed', status.committedAt],
      ['Finished', status.finishedAt],
      ['Age', ageOf(move.metadata.creationTimestamp, now)],
    ]),
    ...(await eventLines(client, move, now)),
  ];
}

const heldBack = async (client: Client, move: Stored<Move>): Promise<string> =>
  heldBackBy(move, (await listAll(client, StorageNodes)).items)
    .map(harmless)
    .join('; ');

const limitOf = (bandwidth: string | undefined): string | undefined =>
  bandwidth === undefined ? undefined : bandwidth === '0' ? 'none' : `${bandwidth} bytes a second`;

function incomingPairs(incoming: Incoming): [string, string | undefined][] {
  const said = (text: string | undefined): string | undefined => (text === undefined ? undefined : bytesOf(text));
  return [
    ['Allocated', said(incoming.allocated)],
    ['Rounds', roundsOf(incoming)],
    ['Sent', said(incoming.bytesSent)],
    ['Resumed', said(incoming.bytesResumed)],
    ['Changed since', said(incoming.dirty)],
    ['Rate', incoming.rate === undefined ? undefined : humanRate(incoming.rate)],
    ['Retries', incoming.retries?.toString()],
    ['Scrub', incoming.scrub && [incoming.scrub.state, incoming.scrub.message].filter(Boolean).join(': ')],
  ];
}

function roundsOf({ rounds, roundCount = 0 }: Incoming): string | undefined {
  if (!rounds) return undefined;
  const [first = '', ...rest] = rounds.map(bytesOf);
  const more = roundCount - rounds.length;
  return [first, ...(more > 0 ? [`… (${more} more)`] : []), ...rest].join(', ');
}
