// `flockctl snapshot show`: one snapshot for people, and what happened to it.
import type { Command } from 'commander';
import type { Client } from '../../api/client.ts';
import type { Stored } from '../../model/meta.ts';
import { Snapshots, type Snapshot } from '../../model/snapshot.ts';
import { outputOption, snapshotArgument, watchOption } from '../arguments.ts';
import type { Context } from '../context.ts';
import { ageOf, bytesOf } from '../format.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { described } from '../print.ts';
import { snapshotNamed } from '../records.ts';
import { eventLines, show, type ShowOptions } from '../showing.ts';

export function snapshotShow(context: Context): Command {
  return asking('show', {
    what: 'show one snapshot: where it is, and what it waits for',
    examples: ['flockctl snapshot show monday', 'flockctl snapshot show monday -o yaml'],
  })
    .argument('<name>', 'name of the snapshot', snapshotArgument)
    .addOption(outputOption())
    .addOption(watchOption())
    .action(async (name: string, options: ShowOptions & Common) => {
      const client = await clientFor(context, options);
      const object = await snapshotNamed(client, name);
      await show(context, client, { kind: Snapshots, object, describe: (seen) => describe(context, client, seen) }, options);
    });
}

async function describe(context: Context, client: Client, snapshot: Stored<Snapshot>): Promise<string[]> {
  const { spec, status = {}, metadata } = snapshot;
  const now = context.clock.now();
  return [
    ...described([
      ['Name', metadata.name],
      ['Volume', spec.volume],
      ['Phase', status.phase ?? 'Pending'],
      ['Obstacle', status.obstacle && `${status.obstacle.reason}: ${status.obstacle.message}`],
      ['Size', status.size && bytesOf(status.size)],
      ['Content', status.volumeMode === 'Block' ? 'raw block device' : status.filesystem],
      ['Pool', status.pool],
      ['Node', status.node],
      ['Copy', status.copy],
      ['Taken at', status.takenAt],
      ['Age', ageOf(metadata.creationTimestamp, now)],
    ]),
    ...(await eventLines(client, snapshot, now)),
  ];
}
