// `flockctl volume grow`: asks for a larger size and waits until the device is that large.
import type { Command } from 'commander';
import { Invalid } from '../../model/errors.ts';
import { parseSize } from '../../model/quantity.ts';
import { Volumes } from '../../model/volume.ts';
import { sizeArgument, volumeArgument } from '../arguments.ts';
import { line, type Context } from '../context.ts';
import { bytesOf } from '../format.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { volumeNamed } from '../records.ts';
import { waitForVolume } from '../volume-wait.ts';

interface Options extends Common {
  wait: boolean;
}

export function volumeGrow(context: Context): Command {
  return asking('grow', {
    what: 'make a volume larger, also while it is mounted',
    examples: ['flockctl volume grow db 20Gi'],
  })
    .argument('<name>', 'name of the volume', volumeArgument)
    .argument('<size>', 'the new size: bytes, or with a suffix', sizeArgument)
    .option('--no-wait', 'do not wait until it is that large')
    .action((name: string, size: string, options: Options) => grow(context, { name, size, options }));
}

async function grow(context: Context, { name, size, options }: { name: string; size: string; options: Options }): Promise<void> {
  const client = await clientFor(context, options);
  const before = await volumeNamed(client, name);
  if (parseSize(size) < parseSize(before.spec.size))
    throw new Invalid(`volume ${name} has ${before.spec.size} and cannot shrink to ${size}: make a smaller one and copy the files over`);
  const asked = await client.patch(Volumes, name, { spec: { size } });
  if (!options.wait) return line(context.out, `volume ${name} is being made ${size} large`);
  const capacity = await waitForVolume(context, client, asked, {
    judge: ({ status }) => (status?.capacity !== undefined && BigInt(status.capacity) >= parseSize(size) ? status.capacity : null),
    interrupted: `volume ${name} is still growing; flockctl volume show ${name} tells how far it is`,
  });
  line(context.out, `volume ${name} is ${bytesOf(capacity)} large`);
}
