// `flockctl volume grow`: asks for a larger size and waits until the volume is that large and, where it is mounted, its filesystem too. What
// cannot be had is taken back.
import type { Command } from 'commander';
import type { Client } from '../../api/client.ts';
import { listAll } from '../../api/list-all.ts';
import { whyNotGrow } from '../../decide/growth.ts';
import { keptCopies } from '../../decide/kept.ts';
import { isUnfinished, servedCopy } from '../../decide/observed.ts';
import { FlockError, ifFound, Invalid, readReason } from '../../model/errors.ts';
import type { Obstacle, Stored } from '../../model/meta.ts';
import { Moves } from '../../model/move.ts';
import { parseSize } from '../../model/quantity.ts';
import { StorageNodes } from '../../model/storage-node.ts';
import { filesystemOf, Volumes, type CopyStatus, type Volume } from '../../model/volume.ts';
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
  refuseShrinking(before, size);
  if (options.wait) await refuseWithoutRoom(client, before, parseSize(size));
  const asked = await client.patch(Volumes, name, { metadata: { uid: before.metadata.uid }, spec: { size } });
  if (!options.wait) return line(context.out, `volume ${name} is being made ${size} large`);
  const ended = await waitForVolume(context, client, asked, {
    judge: (seen) => judged(before, seen, parseSize(size)),
    interrupted: `volume ${name} is still growing; flockctl volume show ${name} tells how far it is`,
  });
  if ('refusal' in ended) return takeBack(client, before, size, ended.refusal);
  const large = `volume ${name} is ${bytesOf(ended.capacity)} large`;
  if (ended.obstacle) throw new FlockError(readReason(ended.obstacle.reason), `${large}, but ${ended.obstacle.message}`);
  line(context.out, `${large}${ended.isIdle ? '; its filesystem fills it when it is mounted next' : ''}`);
}

/** What was asked for and never came about may be taken back, as far as the real size. */
function refuseShrinking({ metadata, spec, status }: Stored<Volume>, size: string): void {
  const least = BigInt(status?.capacity ?? parseSize(spec.size));
  const wanted = parseSize(size);
  if (wanted < parseSize(spec.size) && wanted < least)
    throw new Invalid(`volume ${metadata.name} has ${spec.size} and cannot shrink to ${size}: make a smaller one and copy the files over`);
}

/** During a move it grows afterwards, where it is then. */
async function refuseWithoutRoom(client: Client, volume: Stored<Volume>, wanted: bigint): Promise<void> {
  const { items: moves } = await listAll(client, Moves);
  const move = moves.find((each) => each.spec.volume === volume.metadata.name && isUnfinished(each));
  const name = move?.spec.target ?? volume.spec.node;
  if (name === undefined) return;
  const record = await ifFound(client.get(StorageNodes, name));
  const kept = keptCopies((await listAll(client, Volumes)).items, moves);
  const why = whyNotGrow(volume, wanted, { name, record, kept });
  if (why) throw new FlockError('NoSpace', why.message);
}

type Ended = { capacity: string; obstacle: Obstacle | undefined; isIdle: boolean } | { refusal: string };

/** By what its agent says: the controller's summary comes later. */
function judged(before: Stored<Volume>, seen: Stored<Volume>, wanted: bigint): Ended | null {
  const copy = servedCopy(seen);
  const asked = parseSize(seen.spec.size);
  if (BigInt(copy?.size ?? 0) >= wanted) return isOfLargerOrder(copy, asked <= wanted) ? null : endOf(seen, copy);
  if (asked < wanted) throw new FlockError('Conflict', `somebody took the growth back: ${seen.spec.size} are asked for now`);
  return refusalOf(copy, servedCopy(before));
}

/** What an earlier order was refused for may still stand there. */
function refusalOf(now: CopyStatus | undefined, before: CopyStatus | undefined): { refusal: string } | null {
  const obstacle = now?.obstacle;
  if (obstacle?.reason !== 'NoSpace' || obstacle.message === before?.obstacle?.message) return null;
  return { refusal: obstacle.message };
}

/** An order that was taken back leaves its refusal behind until the agent looks again. */
const isOfLargerOrder = (copy: CopyStatus | undefined, takenBack: boolean): boolean => takenBack && copy?.obstacle?.reason === 'NoSpace';

/** The agent reports the size together with what kept the filesystem from growing. */
const endOf = ({ spec }: Volume, { size = '0', obstacle, formatted, published = [] }: Partial<CopyStatus> = {}): Ended => ({
  capacity: size,
  obstacle,
  isIdle: filesystemOf(spec) !== null && formatted === true && published.length === 0,
});

async function takeBack(client: Client, before: Stored<Volume>, asked: string, refusal: string): Promise<never> {
  const { name, uid } = before.metadata;
  const capacity = before.status?.capacity ?? before.spec.size;
  const size = parseSize(before.spec.size) >= parseSize(capacity) ? before.spec.size : capacity;
  const now = await volumeNamed(client, name);
  if (now.spec.size === asked) await client.patch(Volumes, name, { metadata: { uid }, spec: { size } });
  throw new FlockError('NoSpace', `volume ${name} was not grown, and stays ${size} large: ${refusal}`);
}
