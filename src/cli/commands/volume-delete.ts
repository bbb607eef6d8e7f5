// `flockctl volume delete`: the volume and all its copies. One that is in use is refused.
import type { Command } from 'commander';
import { FlockError, ifFound } from '../../model/errors.ts';
import { Volumes } from '../../model/volume.ts';
import { volumeArgument } from '../arguments.ts';
import { line, type Context } from '../context.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { volumeNamed } from '../records.ts';
import { mountsOf } from '../tables.ts';
import { waitForVolume } from '../volume-wait.ts';

export function volumeDelete(context: Context): Command {
  return asking('delete', {
    what: 'delete a volume and all its copies; what was on it is lost',
    examples: ['flockctl volume delete db', 'flockctl volume delete db --no-wait'],
  })
    .argument('<name>', 'name of the volume', volumeArgument)
    .option('--no-wait', 'do not wait until its copies are gone')
    .action((name: string, options: Common & { wait: boolean }) => remove(context, name, options));
}

async function remove(context: Context, name: string, options: Common & { wait: boolean }): Promise<void> {
  const client = await clientFor(context, options);
  const volume = await volumeNamed(client, name);
  const mounts = mountsOf(volume);
  if (mounts.length > 0)
    throw new FlockError(
      'InUse',
      `volume ${name} is mounted at ${mounts.join(', ')} on node ${volume.spec.node}; unmount it first: flockctl volume unmount ${name}`,
    );
  await client.delete(Volumes, name, { uid: volume.metadata.uid });
  if (!options.wait) return line(context.out, `volume ${name} is being deleted`);
  const other = await ifFound(
    waitForVolume(context, client, volume, {
      judge: (seen) => (seen.metadata.uid === volume.metadata.uid ? null : seen),
      interrupted: `volume ${name} is still being deleted; flockctl volume show ${name} tells how far it is`,
    }),
  );
  line(context.out, `volume ${name} is deleted${other === null ? '' : '; another of that name is there now'}`);
}
