// How a copy in a volume group begins, grows and ends. Each place where it can be cut off leaves a tag that says how to go on.
import type { LogicalVolume, VolumeGroup } from '../host/lvm-report.ts';
import type { CopyLabel } from '../model/label.ts';
import { FlockError } from '../model/errors.ts';
import { cleared, type Device } from './lvm-access.ts';
import { checkIdentity } from './lvm-identity.ts';
import { readable, type LvmCopy, type LabelledCopy } from './lvm-layout.ts';
import { change, changeInTurn, inGroupTurn, path, seen, type LvmPlace, type Seen } from './lvm-place.ts';
import { checkRoom, roomOf, thinPoolOf } from './lvm-room.ts';
import { labelTags, tagOf, type Marked } from './lvm-tags.ts';
import { changedBetween } from './lvm-thin.ts';
import type { CopyName } from './pool.ts';

export interface MakeOrder {
  size: bigint;
  marked: Marked;
  /** Of the pool. */
  uuid: string;
}

/** The one there already if there is one; what was being removed or cloned is made anew. Throws NoSpace. */
export async function made(place: LvmPlace, name: CopyName, order: MakeOrder): Promise<Seen> {
  const first = await madeInTurn(place, name, order);
  if (first.fresh) return first.at;
  const copy = readable(first.at.listing, name, place.name);
  if (copy.marked.state !== 'removing' && copy.marked.state !== 'cloning') return first.at;
  await removed(place, first.at, copy);
  return (await madeInTurn(place, name, order)).at;
}

/** Room is looked for and taken in one turn. */
async function madeInTurn(place: LvmPlace, name: CopyName, order: MakeOrder): Promise<{ at: Seen; fresh: boolean }> {
  return inGroupTurn(place, async () => {
    const before = await seen(place);
    checkIdentity(place, order.uuid, before.group);
    if (before.listing.copies.has(name)) return { at: before, fresh: false };
    checkRoom(place.name, roomOf(before.group, place.thinPool, place.policy), order.size);
    const marks = ['--addtag', tagOf(order.marked), '-n', name];
    await change(place, 'lvcreate', [...kindOf(place, order.size), ...NOBODY_ACTIVATES, ...marks, place.volumeGroup]);
    return { at: await seen(place), fresh: true };
  });
}

/** Not by `vgchange` at boot either: by rule 1 only the agent does. What the volume holds is not looked at. */
const NOBODY_ACTIVATES = ['-an', '-ky'];

function kindOf({ thinPool, policy }: LvmPlace, size: bigint): string[] {
  return thinPool === null ? ['-Wn', '-Zn', ...policy.layout.options, '-L', `${size}b`] : ['-V', `${size}b`, '--thinpool', thinPool];
}

/** Its tag is replaced in one write. */
export async function remark(place: LvmPlace, volume: LogicalVolume, marked: Marked): Promise<void> {
  const tag = tagOf(marked);
  const old = labelTags(volume.tags).filter((each) => each !== tag);
  const words = [...old.flatMap((each) => ['--deltag', each]), ...(volume.tags.includes(tag) ? [] : ['--addtag', tag])];
  if (words.length > 0) await changeInTurn(place, 'lvchange', [...words, path(place, volume)]);
}

/** A copy that was being made or grown is what its label says: nobody sees an earlier tenant's bytes. */
export async function finished(place: LvmPlace, at: Seen, copy: LabelledCopy): Promise<bigint> {
  const { marked, volume } = copy;
  if (marked.state === 'creating') await cleared(deviceOf(place, at, copy), 'zero', toClear(marked.label, volume.size));
  if (marked.state === 'growing') await cleared(deviceOf(place, at, copy), 'zero', [span(BigInt(marked.from ?? '0'), volume.size)]);
  place.crash('finish:cleared');
  await remark(place, volume, { state: 'ready', label: marked.label });
  return volume.size;
}

export const deviceOf = (place: LvmPlace, at: Seen, { volume }: LvmCopy): Device => ({ place, seen: at, volume });

const span = (from: bigint, to: bigint): { offset: bigint; length: bigint } => ({ offset: from, length: to - from });
const EDGE = 1n << 20n;

/** A raw volume's user reads every byte; of what is formatted or filled only signatures at the edges would mislead. */
function toClear({ volumeMode, role }: CopyLabel, size: bigint): { offset: bigint; length: bigint }[] {
  if ((volumeMode === 'Block' && role !== 'incoming') || size <= 2n * EDGE) return [span(0n, size)];
  return [span(0n, EDGE), span(size - EDGE, size)];
}

/** At least `size` bytes. Throws NoSpace; InUse where a held point or a raw volume in use forbids it. */
export async function enlarged(place: LvmPlace, name: CopyName, order: { size: bigint; attached: boolean }): Promise<void> {
  await inGroupTurn(place, async () => {
    const at = await seen(place);
    const copy = readable(at.listing, name, place.name);
    const { volume, marked } = copy;
    if (order.size <= volume.size) return;
    checkRoom(place.name, roomOf(at.group, place.thinPool, place.policy), order.size - volume.size);
    const dirty = place.thinPool === null && marked.label.volumeMode === 'Block';
    if (order.attached) checkGrowable(copy, dirty, place.thinPool === null);
    const tag = tagOf({ ...marked, state: 'growing', from: String(volume.size) });
    if (dirty) await change(place, 'lvchange', ['--deltag', tagOf(marked), '--addtag', tag, path(place, volume)]);
    await change(place, 'lvextend', ['-L', `${order.size}b`, path(place, volume)]);
  });
  place.crash('grow:extended');
}

function checkGrowable({ name, points }: LvmCopy, dirty: boolean, thick: boolean): void {
  if (thick && points.size > 0)
    throw new FlockError(
      'InUse',
      `copy ${name} cannot grow while it is attached and has points in time (${[...points.keys()].join(', ')}): LVM grows a thick volume with ` +
        'snapshots only while it is not in use. Wait for its move, delete its snapshots, or unmount it',
    );
  if (dirty)
    throw new FlockError(
      'InUse',
      `copy ${name} is a raw volume in use: what it would grow by must be cleared first. Unmount it, and grow it then`,
    );
}

/** In the order that a crash allows: the tag, the points, the bytes, the volume. */
export async function removed(place: LvmPlace, at: Seen, copy: LvmCopy): Promise<void> {
  const { marked, volume, points, brokenPoints } = copy;
  for (const point of [...points.values(), ...brokenPoints]) await dropped(place, point);
  place.crash('remove:points');
  if (marked !== null && typeof marked !== 'string') await wiped(place, at, { copy, wipe: marked.wipe ?? 'none' });
  place.crash('remove:wiped');
  await dropped(place, volume);
}

export const dropped = (place: LvmPlace, volume: LogicalVolume): Promise<void> =>
  changeInTurn(place, 'lvremove', ['-f', path(place, volume)]);

async function wiped(place: LvmPlace, at: Seen, { copy, wipe }: { copy: LvmCopy; wipe: NonNullable<Marked['wipe']> }): Promise<void> {
  const { volume } = copy;
  const device = deviceOf(place, at, copy);
  const all = [span(0n, volume.size)];
  if (place.thinPool !== null) return wipe === 'zero' ? cleared(device, 'zero', await mapped(place, at.group, volume)) : undefined;
  if (wipe === 'none')
    return cleared(device, 'zero', volume.size <= 2n * EDGE ? all : [span(0n, EDGE), span(volume.size - EDGE, volume.size)]);
  return cleared(device, wipe, all);
}

/** Zeros written where nothing is would take room. */
async function mapped(place: LvmPlace, group: VolumeGroup, volume: LogicalVolume): Promise<{ offset: bigint; length: bigint }[]> {
  thinPoolOf(group, place.thinPool ?? '');
  return changedBetween(place, group, { from: null, to: volume });
}
