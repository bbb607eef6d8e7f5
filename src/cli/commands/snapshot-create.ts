// `flockctl snapshot create`: writes the record and waits until the snapshot is taken.
import type { Command } from 'commander';
import { FlockError, isReason } from '../../model/errors.ts';
import { GROUP_VERSION, type Stored } from '../../model/meta.ts';
import { Snapshots, type Snapshot } from '../../model/snapshot.ts';
import type { Client } from '../../api/client.ts';
import { newNameArgument, volumeArgument } from '../arguments.ts';
import { line, type Context } from '../context.ts';
import { bytesOf } from '../format.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { refuseWithoutSnapshots, volumeNamed } from '../records.ts';
import { waitFor } from '../wait.ts';

interface Options extends Common {
  volume: string;
  wait: boolean;
}

export function snapshotCreate(context: Context): Command {
  return asking('create', {
    what: 'take a snapshot of a volume as it is now; its application goes on',
    examples: ['flockctl snapshot create monday --volume db', 'flockctl snapshot create monday --volume db --no-wait'],
  })
    .argument('<name>', 'name of the snapshot', newNameArgument)
    .requiredOption('--volume <volume>', 'volume to take it of', volumeArgument)
    .option('--no-wait', 'only write the record')
    .action((name: string, options: Options) => create(context, name, options));
}

async function create(context: Context, name: string, options: Options): Promise<void> {
  const client = await clientFor(context, options);
  await refuseWithoutSnapshots(client, await volumeNamed(client, options.volume));
  await createRecord(client, name, options.volume);
  if (!options.wait) return line(context.out, `snapshot ${name} created; flockctl snapshot show ${name} tells when it is taken`);
  const { status = {} } = await waitFor(
    context,
    { client, kind: Snapshots, name },
    {
      judge: (seen: Stored<Snapshot>) => (seen.status?.phase === 'Ready' || seen.status?.phase === 'Failed' ? seen : null),
      interrupted: `snapshot ${name} is still being taken; flockctl snapshot show ${name}, or flockctl snapshot delete ${name}`,
    },
  );
  if (status.phase === 'Failed')
    throw new FlockError('NotFound', `snapshot ${name} was lost: ${status.obstacle?.message ?? 'its copy is gone'}`);
  line(context.out, `snapshot ${name} of volume ${options.volume} is taken on node ${status.node}: ${bytesOf(status.size)}`);
}

async function createRecord(client: Client, name: string, volume: string): Promise<void> {
  try {
    await client.create(Snapshots, { apiVersion: GROUP_VERSION, kind: Snapshots.kind, metadata: { name }, spec: { volume } });
  } catch (error) {
    if (!isReason(error, 'AlreadyExists')) throw error;
    throw new FlockError('AlreadyExists', `there is a snapshot "${name}" already; flockctl snapshot show ${name} tells of it`, {
      cause: error,
    });
  }
}
