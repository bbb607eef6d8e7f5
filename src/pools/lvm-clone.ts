// A copy that begins with a point's bytes: of a thin one a thin snapshot, of a thick one every byte copied. Until it is whole its tag says
// `cloning`, and whoever finds it so later removes it.
import { alignedBuffer, giveBack } from '../host/aligned.ts';
import { FlockError, Invalid } from '../model/errors.ts';
import type { CopyLabel } from '../model/label.ts';
import { openToRead, openToWrite, type InTurn, type ZeroDevice } from './lvm-access.ts';
import { deviceOf, made, remark } from './lvm-life.ts';
import { change, inGroupTurn, path, seen, type LvmPlace, type Seen } from './lvm-place.ts';
import { readable, shownSize, type LabelledCopy } from './lvm-layout.ts';
import { checkRoom, roomOf } from './lvm-room.ts';
import { tagOf, type Marked } from './lvm-tags.ts';
import { pointOf, type Found } from './lvm-points.ts';
import type { BlockHandle, CopyName } from './pool.ts';

export interface CloneOrder {
  name: CopyName;
  size: bigint;
  label: CopyLabel;
  from: { copy: CopyName; point: string };
  /** Of the pool. */
  uuid: string;
}

/** In the new copy's turn, which is not there. The source's point is held by who asks. */
export async function cloned(place: LvmPlace, order: CloneOrder): Promise<bigint> {
  const { name, size, label, from } = order;
  const source = pointOf(await seen(place), { place, ...from });
  if (shownSize(source.point) > size)
    throw new Invalid(
      `a clone of ${size} bytes is too small for point ${from.point} of ${from.copy}, which has ${shownSize(source.point)}`,
    );
  const marked: Marked = { state: 'cloning', label };
  if (place.thinPool === null) await copied(place, await made(place, name, { size, marked, uuid: order.uuid }), { ...order, source });
  else await snapshotted(place, { ...order, marked, source });
  place.crash('clone:filled');
  const { volume } = readable((await seen(place)).listing, name, place.name);
  await remark(place, volume, { state: 'ready', label });
  return volume.size;
}

async function snapshotted(place: LvmPlace, { name, size, marked, source }: CloneOrder & { marked: Marked; source: Found }): Promise<void> {
  await inGroupTurn(place, async () => {
    const { group, listing } = await seen(place);
    if (listing.copies.has(name)) await dropUnfinished(place, readable(listing, name, place.name));
    checkRoom(place.name, roomOf(group, place.thinPool, place.policy), size);
    await change(place, 'lvcreate', ['-s', '-ky', '--addtag', tagOf(marked), '-n', name, path(place, source.point)]);
    place.crash('clone:made');
    if (size > source.point.size) await change(place, 'lvextend', ['-L', `${size}b`, `${place.volumeGroup}/${name}`]);
  });
}

/** What an earlier attempt left was never whole. Throws AlreadyExists for anything else. */
async function dropUnfinished(place: LvmPlace, { marked, volume }: LabelledCopy): Promise<void> {
  if (marked.state !== 'cloning' && marked.state !== 'removing')
    throw new FlockError('AlreadyExists', `copy ${volume.name} is there already and was not made as a clone: remove it first`);
  await change(place, 'lvremove', ['-f', path(place, volume)]);
}

const PART = 4 << 20;
const noTurn: InTurn = (work) => work();
const never: ZeroDevice = () => Promise.reject(new Error('a clone is written whole'));

async function copied(place: LvmPlace, at: Seen, { name, source }: CloneOrder & { source: Found }): Promise<void> {
  place.crash('clone:made');
  const from = await openToRead(deviceOf(place, source.at, source.copy), source.point, noTurn);
  try {
    const to = await openToWrite(deviceOf(place, at, readable(at.listing, name, place.name)), never, noTurn);
    try {
      await copyAll(from, to);
    } finally {
      await to.close();
    }
  } finally {
    await from.close();
  }
}

/** And zeros beyond the point's end. */
async function copyAll(from: BlockHandle, to: BlockHandle): Promise<void> {
  const buffer = alignedBuffer(PART);
  try {
    for (let at = 0n; at < to.size; at += BigInt(PART)) {
      const part = buffer.subarray(0, Number(least(BigInt(PART), to.size - at)));
      const there = at < from.size ? Number(least(BigInt(part.length), from.size - at)) : 0;
      if (there > 0) await from.read(part.subarray(0, there), at);
      part.fill(0, there);
      await to.write(part, at);
    }
    await to.sync();
  } finally {
    giveBack(buffer);
  }
}

const least = (one: bigint, other: bigint): bigint => (one < other ? one : other);
