// `flockctl snapshot delete`.
import type { Command } from 'commander';
import { ifFound } from '../../model/errors.ts';
import { Snapshots, type Snapshot } from '../../model/snapshot.ts';
import type { Stored } from '../../model/meta.ts';
import { snapshotArgument } from '../arguments.ts';
import { line, type Context } from '../context.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { snapshotNamed } from '../records.ts';
import { waitFor } from '../wait.ts';

export function snapshotDelete(context: Context): Command {
  return asking('delete', {
    what: 'delete a snapshot; volumes that began with it stay as they are',
    examples: ['flockctl snapshot delete monday', 'flockctl snapshot delete monday --no-wait'],
  })
    .argument('<name>', 'name of the snapshot', snapshotArgument)
    .option('--no-wait', 'do not wait until its room is given back')
    .action((name: string, options: Common & { wait: boolean }) => remove(context, name, options));
}

async function remove(context: Context, name: string, options: Common & { wait: boolean }): Promise<void> {
  const client = await clientFor(context, options);
  const { uid } = (await snapshotNamed(client, name)).metadata;
  await client.delete(Snapshots, name, { uid });
  if (!options.wait) return line(context.out, `snapshot ${name} is being deleted`);
  const judge = (seen: Stored<Snapshot>): Stored<Snapshot> | null => (seen.metadata.uid === uid ? null : seen);
  const interrupted = `snapshot ${name} is still being deleted; flockctl snapshot show ${name} tells what it waits for`;
  const other = await ifFound(waitFor(context, { client, kind: Snapshots, name }, { judge, interrupted }));
  line(context.out, `snapshot ${name} is deleted${other === null ? '' : '; another of that name is there now'}`);
}
