// `flockctl volume clone`: a new volume that begins with a snapshot, or with another volume as it is now.
import { Option, type Command } from 'commander';
import { servedCopy } from '../../decide/observed.ts';
import { Invalid } from '../../model/errors.ts';
import { GROUP_VERSION, type Stored } from '../../model/meta.ts';
import { parseSize, quantityOf } from '../../model/quantity.ts';
import { Volumes, type Filesystem, type Volume, type VolumeSpec } from '../../model/volume.ts';
import type { Client } from '../../api/client.ts';
import { newNameArgument, sizeArgument, snapshotArgument, volumeArgument } from '../arguments.ts';
import { line, type Context } from '../context.ts';
import { bytesOf } from '../format.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { refuseWithoutSnapshots, snapshotNamed, volumeNamed } from '../records.ts';
import { waitUntilMade } from '../volume-wait.ts';
import { createRecord } from './volume-create.ts';

interface Options extends Common {
  from?: string;
  snapshot?: string;
  size?: string;
  wait: boolean;
}

export function volumeClone(context: Context): Command {
  return asking('clone', {
    what: 'make a volume that begins with a snapshot, or with another volume as it is now; on the same node, in the same pool',
    examples: ['flockctl volume clone db-test --from db', 'flockctl volume clone db-old --snapshot monday --size 20Gi'],
  })
    .argument('<name>', 'name of the new volume', newNameArgument)
    .addOption(new Option('--from <volume>', 'volume to begin with').argParser(volumeArgument).conflicts('snapshot'))
    .addOption(new Option('--snapshot <snapshot>', 'snapshot to begin with').argParser(snapshotArgument))
    .option('--size <size>', 'larger than its source', sizeArgument)
    .option('--no-wait', 'only write the record')
    .action((name: string, options: Options) => clone(context, name, options));
}

async function clone(context: Context, name: string, options: Options): Promise<void> {
  const client = await clientFor(context, options);
  const source = await sourceOf(client, options);
  if (options.size !== undefined && parseSize(options.size) < source.size)
    throw new Invalid(
      `size ${options.size} is less than the ${bytesOf(String(source.size))} of its source: leave --size out, or give more`,
    );
  const { content, spec } = source;
  const volume = { ...content, ...spec, size: options.size ?? quantityOf(source.size) };
  const made = await createRecord(client, { apiVersion: GROUP_VERSION, kind: Volumes.kind, metadata: { name }, spec: volume });
  if (!options.wait) return line(context.out, `volume ${name} created; flockctl volume show ${name} tells when it may be used`);
  const ready = await waitUntilMade(context, client, made);
  line(
    context.out,
    `volume ${name} is available on node ${ready.spec.node}: ${bytesOf(ready.status?.capacity)} in pool ${ready.spec.pool}`,
  );
}

interface Source {
  spec: { source: NonNullable<VolumeSpec['source']> };
  content: Pick<VolumeSpec, 'volumeMode' | 'filesystem'>;
  /** Bytes. */
  size: bigint;
}

async function sourceOf(client: Client, { from, snapshot }: Options): Promise<Source> {
  if (snapshot !== undefined) return ofSnapshot(client, snapshot);
  if (from === undefined) throw new Invalid('say what the volume is to begin with: --from VOLUME or --snapshot SNAPSHOT');
  const volume = await volumeNamed(client, from);
  await refuseWithoutSnapshots(client, volume);
  return ofVolume(volume);
}

const contentOf = (volumeMode: 'Filesystem' | 'Block' = 'Filesystem', filesystem?: Filesystem): Source['content'] => ({
  volumeMode,
  ...(volumeMode === 'Block' || filesystem === undefined ? {} : { filesystem }),
});

async function ofSnapshot(client: Client, name: string): Promise<Source> {
  const { status = {} } = await snapshotNamed(client, name);
  if (status.size === undefined)
    throw new Invalid(`snapshot ${name} is not taken yet; flockctl snapshot show ${name} tells what it waits for`);
  return { spec: { source: { snapshot: name } }, content: contentOf(status.volumeMode, status.filesystem), size: BigInt(status.size) };
}

function ofVolume(volume: Stored<Volume>): Source {
  const { spec, metadata } = volume;
  const size = servedCopy(volume)?.size ?? volume.status?.capacity ?? String(parseSize(spec.size));
  return { spec: { source: { volume: metadata.name } }, content: contentOf(spec.volumeMode, spec.filesystem), size: BigInt(size) };
}
