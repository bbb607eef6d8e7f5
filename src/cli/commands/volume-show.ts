// `flockctl volume show`: one volume for people, with its copies and what happened to it.
import type { Command } from 'commander';
import type { Client } from '../../api/client.ts';
import { listAll } from '../../api/list-all.ts';
import { contentOf } from '../../decide/explain.ts';
import { copiesOf } from '../../decide/observed.ts';
import type { Stored } from '../../model/meta.ts';
import { StorageNodes } from '../../model/storage-node.ts';
import { Volumes, type Volume } from '../../model/volume.ts';
import { outputOption, volumeArgument, watchOption } from '../arguments.ts';
import type { Context } from '../context.ts';
import { ageOf, bytesOf, harmless } from '../format.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { aligned, described } from '../print.ts';
import { volumeNamed } from '../records.ts';
import { eventLines, show, type ShowOptions } from '../showing.ts';
import { mountsOf } from '../tables.ts';

export function volumeShow(context: Context): Command {
  return asking('show', {
    what: 'show one volume: its copies, where it is mounted, what it waits for',
    examples: ['flockctl volume show db', 'flockctl volume show db --watch', 'flockctl volume show db -o yaml'],
  })
    .argument('<name>', 'name of the volume', volumeArgument)
    .addOption(outputOption())
    .addOption(watchOption())
    .action(async (name: string, options: ShowOptions & Common) => {
      const client = await clientFor(context, options);
      const volume = await volumeNamed(client, name);
      await show(context, client, { kind: Volumes, object: volume, describe: (seen) => describe(context, client, seen) }, options);
    });
}

async function describe(context: Context, client: Client, volume: Stored<Volume>): Promise<string[]> {
  const { spec, status = {} } = volume;
  const now = context.clock.now();
  return [
    ...described([
      ['Name', volume.metadata.name],
      ['Phase', status.phase ?? 'Pending'],
      ['Obstacle', status.obstacle && `${status.obstacle.reason}: ${status.obstacle.message}`],
      ['Size', status.capacity === undefined ? spec.size : `${spec.size} (really ${bytesOf(status.capacity)})`],
      ['Content', contentOf(spec, (await listAll(client, StorageNodes)).items)],
      ['Pool', spec.pool],
      ['Node', spec.node],
      ['Epoch', spec.epoch?.toString()],
      ['Mounted at', mountsOf(volume).join(', ')],
      ['Allowed pause', spec.allowedPause],
      ['Old copy kept', spec.retainSource],
      ['Transfer limit', spec.transferBandwidth],
      ['Age', ageOf(volume.metadata.creationTimestamp, now)],
    ]),
    ...copyLines(volume),
    ...(await eventLines(client, volume, now)),
  ];
}

function copyLines(volume: Stored<Volume>): string[] {
  const copies = Object.entries(copiesOf(volume)).map(([id, copy]) => [
    id,
    copy.node,
    copy.role,
    bytesOf(copy.size),
    bytesOf(copy.allocated),
    harmless(copy.obstacle ? `${copy.obstacle.reason}: ${copy.obstacle.message}` : '-'),
  ]);
  if (copies.length === 0) return [];
  return ['', 'Copies:', ...aligned([['ID', 'NODE', 'ROLE', 'SIZE', 'ALLOCATED', 'OBSTACLE'], ...copies]).map((row) => `  ${row}`)];
}
