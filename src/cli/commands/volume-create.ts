// `flockctl volume create`: writes the record and waits until the volume may be used, saying what it waits for.
import { Option, type Command } from 'commander';
import { isReason, FlockError, Invalid } from '../../model/errors.ts';
import type { Client } from '../../api/client.ts';
import { listAll } from '../../api/list-all.ts';
import { checkFilesystemSize } from '../../decide/filesystem-size.ts';
import { keptCopies, type KeptCopy } from '../../decide/kept.ts';
import { holdsDirectories, place, usualPool, whyNot, type Need } from '../../decide/placement.ts';
import type { Why } from '../../decide/observed.ts';
import { GROUP_VERSION, type Stored } from '../../model/meta.ts';
import { Moves } from '../../model/move.ts';
import { parseSize } from '../../model/quantity.ts';
import { StorageNodes, type StorageNode } from '../../model/storage-node.ts';
import { FILESYSTEMS, filesystemOf, Volumes, type Filesystem, type Volume } from '../../model/volume.ts';
import { durationArgument, nodeArgument, poolArgument, rateArgument, sizeArgument, newNameArgument } from '../arguments.ts';
import { line, type Context } from '../context.ts';
import { asking, clientFor, type Common } from '../options.ts';
import { waitUntilMade } from '../volume-wait.ts';

interface Options extends Common {
  size: string;
  pool?: string;
  node?: string;
  filesystem?: Filesystem;
  block?: true;
  retain?: string;
  pause?: string;
  limit?: string;
  wait: boolean;
}

export function volumeCreate(context: Context): Command {
  return asking('create', {
    what: 'make a volume',
    examples: [
      'flockctl volume create db --size 10Gi',
      'flockctl volume create db --size 2Gi --pool local --node node-1 --filesystem xfs',
      'flockctl volume create raw --size 512Mi --block --pause 5s --retain 1h',
      'flockctl volume create files --size 10Gi --pool directory',
    ],
  })
    .argument('<name>', 'name of the volume', newNameArgument)
    .requiredOption('--size <size>', 'bytes, or with a suffix: 512Mi, 10Gi', sizeArgument)
    .option('--pool <pool>', 'pool to make it in (the only one of block devices)', poolArgument)
    .option('--node <node>', 'node to make it on (the one with the most room)', nodeArgument)
    .addOption(new Option('--filesystem <type>', 'filesystem on it').choices(FILESYSTEMS).conflicts('block'))
    .option('--block', 'a raw block device, without a filesystem')
    .option('--retain <duration>', 'how long the old copy is kept after a move (24h)', durationArgument)
    .option('--pause <duration>', 'longest pause of the application that a move may cause (2s)', durationArgument)
    .option('--limit <rate>', 'bytes a second that its moves may use: 200M', rateArgument)
    .option('--no-wait', 'only write the record')
    .action((name: string, options: Options) => create(context, name, options));
}

const contentOf = ({ block, filesystem }: Options): Filesystem | null =>
  filesystemOf({ volumeMode: block ? 'Block' : 'Filesystem', ...(filesystem ? { filesystem } : {}) });

async function create(context: Context, name: string, options: Options): Promise<void> {
  const client = await clientFor(context, options);
  const { items: nodes } = await listAll(client, StorageNodes);
  refuseUnknown(nodes, options);
  const pool = options.pool ?? usualPool(nodes);
  refuseUnfit(nodes, pool, options);
  if (options.wait) refuseWithoutRoom(nodes, pool, { options, kept: await keptNow(client) });
  const volume = await createRecord(client, volumeOf(name, options));
  if (!options.wait) return line(context.out, `volume ${name} created; flockctl volume show ${name} tells when it may be used`);
  const ready = await waitUntilMade(context, client, volume);
  line(context.out, `volume ${name} is available on node ${ready.spec.node}: ${ready.spec.size} in pool ${ready.spec.pool}`);
}

const refuse = (reason: 'NotFound' | 'NoSpace', message: string): never => {
  throw new FlockError(reason, message);
};

/** A pool or node that nobody has ever seen is more likely a slip than the future. */
function refuseUnknown(nodes: readonly Stored<StorageNode>[], { pool, node }: Options): void {
  const names = nodes.map((one) => one.metadata.name);
  const pools = [...new Set(nodes.flatMap((one) => Object.keys(one.status?.pools ?? {})))].toSorted();
  if (node !== undefined && !names.includes(node))
    refuse('NotFound', `there is no node "${node}"; the nodes are: ${names.join(', ') || 'none yet'}`);
  if (pool !== undefined && !pools.includes(pool))
    refuse('NotFound', `there is no pool "${pool}"; the pools are: ${pools.join(', ') || 'none yet'}`);
}

/** What cannot be in that pool, however much room it has. */
function refuseUnfit(nodes: readonly Stored<StorageNode>[], pool: string | Why, options: Options): void {
  if (typeof pool !== 'string' || !holdsDirectories(nodes, pool)) return checkFilesystemSize(contentOf(options), parseSize(options.size));
  if (options.filesystem === undefined) return;
  throw new Invalid(`volumes of pool ${pool} are directories of the pool's own filesystem: leave --filesystem out, or name another --pool`);
}

const keptNow = async (client: Client): Promise<KeptCopy[]> =>
  keptCopies((await listAll(client, Volumes)).items, (await listAll(client, Moves)).items);

interface Asked {
  options: Options;
  kept: readonly KeptCopy[];
}

function refuseWithoutRoom(nodes: readonly Stored<StorageNode>[], pool: string | Why, asked: Asked): void {
  const why = typeof pool === 'string' ? whyNowhere(nodes, asked, pool) : pool;
  if (why !== null)
    refuse('NoSpace', `${why.message}; nothing was made (--no-wait writes the record, and the volume is made when it can be)`);
}

function whyNowhere(nodes: readonly Stored<StorageNode>[], { options, kept }: Asked, pool: string): { message: string } | null {
  const need: Need = { pool, size: parseSize(options.size), filesystem: contentOf(options), kept };
  if (options.node !== undefined) return whyNot(options.node, nodes.find((one) => one.metadata.name === options.node) ?? null, need);
  const found = place(nodes, need);
  return 'node' in found ? null : found;
}

function volumeOf(name: string, options: Options): Volume {
  const { size, pool, node, pause, retain, limit } = options;
  const filesystem = contentOf(options);
  return {
    apiVersion: GROUP_VERSION,
    kind: Volumes.kind,
    metadata: { name },
    spec: {
      size,
      ...(pool === undefined ? {} : { pool }),
      ...(node === undefined ? {} : { node }),
      ...(filesystem === null ? { volumeMode: 'Block' } : { volumeMode: 'Filesystem', filesystem }),
      ...(pause === undefined ? {} : { allowedPause: pause }),
      ...(retain === undefined ? {} : { retainSource: retain }),
      ...(limit === undefined ? {} : { transferBandwidth: limit }),
    },
  };
}

/** Throws AlreadyExists. */
export async function createRecord(client: Client, volume: Volume): Promise<Stored<Volume>> {
  const { name } = volume.metadata;
  try {
    return await client.create(Volumes, volume);
  } catch (error) {
    if (!isReason(error, 'AlreadyExists')) throw error;
    throw new FlockError('AlreadyExists', `there is a volume "${name}" already; flockctl volume show ${name} tells of it`, {
      cause: error,
    });
  }
}
