// What a look at the volume group makes of the pool: copies, made whole where their tags say that they are half made; broken points dropped,
// stores and thin pools that fill up enlarged. An error of one copy stays with that copy.
import { isReason, messageOf } from '../model/errors.ts';
import type { VolumeGroup } from '../host/lvm-report.ts';
import { isAttached } from './lvm-access.ts';
import { labelGone, type LvmCopy, type LabelledCopy } from './lvm-layout.ts';
import { deviceOf, dropped, finished, removed } from './lvm-life.ts';
import { changeInTurn, path, seen, type LvmPlace, type Seen } from './lvm-place.ts';
import { extension, storeExtension, thinPoolOf } from './lvm-room.ts';
import type { Copy, CopyName, Inventory } from './pool.ts';

export interface CopyTurns {
  inTurn: <T>(name: CopyName, work: () => Promise<T>) => Promise<T>;
  /** Somebody of this process acts on it: zeroing a large one takes long, and a look must not wait for it. */
  isBusy: (name: CopyName) => boolean;
}

export async function scanned(place: LvmPlace, first: Seen, turns: CopyTurns): Promise<Inventory> {
  const failures = new Map<CopyName, string>();
  let touched = await enlargedWhereFull(place, first);
  for (const volume of first.listing.stray) {
    await dropped(place, volume);
    touched = true;
  }
  for (const copy of first.listing.copies.values()) touched = (await mended(place, copy, { turns, failures })) || touched;
  const at = touched ? await seen(place) : first;
  const inventory: Inventory = { copies: [], unlabelled: [], foreign: at.listing.foreign.map(({ name }) => name) };
  for (const copy of at.listing.copies.values()) await addTo(inventory, { place, at, copy, failure: failures.get(copy.name) });
  return inventory;
}

const needsMending = ({ marked, brokenPoints }: LvmCopy): boolean =>
  (marked !== null && typeof marked !== 'string' && marked.state !== 'ready') || brokenPoints.length > 0;

/** True: something was done. */
async function mended(place: LvmPlace, copy: LvmCopy, of: { turns: CopyTurns; failures: Map<CopyName, string> }): Promise<boolean> {
  if (!needsMending(copy) || of.turns.isBusy(copy.name)) return false;
  try {
    await of.turns.inTurn(copy.name, () => mend(place, copy.name));
  } catch (error) {
    // Somebody has it open: it is gone on with later.
    if (!isReason(error, 'InUse', 'NotFound')) of.failures.set(copy.name, `copy ${copy.name} cannot be looked after: ${messageOf(error)}`);
  }
  return true;
}

/** In the copy's turn: what was half made before it may be whole or gone now. */
async function mend(place: LvmPlace, name: CopyName): Promise<void> {
  const at = await seen(place);
  const copy = at.listing.copies.get(name);
  if (!copy) return;
  for (const point of copy.brokenPoints) await dropped(place, point);
  const { marked } = copy;
  if (marked === null || typeof marked === 'string' || marked.state === 'ready') return;
  if (marked.state === 'removing' || marked.state === 'cloning') await removed(place, at, copy);
  else await finished(place, at, { ...copy, marked });
}

async function addTo(inventory: Inventory, of: { place: LvmPlace; at: Seen; copy: LvmCopy; failure: string | undefined }): Promise<void> {
  const { place, at, copy, failure } = of;
  const { name, marked } = copy;
  if (marked === null || typeof marked === 'string') {
    inventory.unlabelled.push({ name, damage: failure ?? marked ?? labelGone(name) });
    inventory.foreign.push(name, ...[...copy.points.values()].map((point) => point.name));
    return;
  }
  const labelled = { ...copy, marked };
  if (!isWhole(labelled) && failure === undefined) return;
  const damage = failure ?? sickness(at.group, copy);
  const device = (await isAttached(deviceOf(place, at, copy))) ? copy.volume.device : null;
  inventory.copies.push({ ...shape(labelled), device, ...(damage === null ? {} : { damage }) });
}

const isWhole = ({ marked }: LabelledCopy): boolean => marked.state === 'ready' || marked.state === 'growing';

function shape({ name, marked, volume, points }: LabelledCopy): Omit<Copy, 'device'> {
  const { size, dataPercent, layout } = volume;
  const allocated = layout.includes('thin') ? (size * BigInt(Math.round((dataPercent ?? 0) * 100))) / 10_000n : size;
  return { name, label: marked.label, size, allocated, points: [...points.keys()] };
}

function sickness({ name: group, missing }: VolumeGroup, { name, volume }: LvmCopy): string | null {
  if (volume.health === '' || volume.layout.includes('raid1')) return null;
  return `copy ${name} is not whole: LVM calls it ${volume.health}, and ${missing} disks of volume group ${group} are missing. Bring the disk back, or delete the volume`;
}

/** Before they are full: a store that overflows is lost, a thin pool that does so stops its writers. */
async function enlargedWhereFull(place: LvmPlace, { group, listing }: Seen): Promise<boolean> {
  const wanted = place.thinPool === null ? stores(place, { group, listing }) : thinPool(place, group);
  for (const words of wanted) await changeInTurn(place, 'lvextend', words);
  return wanted.length > 0;
}

function stores(place: LvmPlace, { group, listing }: Seen): string[][] {
  const points = [...listing.copies.values()].flatMap((copy) => [...copy.points.values()]);
  return points.flatMap((point) => {
    const more = storeExtension(group, point);
    return more === null ? [] : [['-L', `+${more}b`, path(place, point)]];
  });
}

function thinPool(place: LvmPlace, group: VolumeGroup): string[][] {
  const words = extension(group, thinPoolOf(group, place.thinPool ?? ''), place.policy.autoextend);
  return words === null ? [] : [[...words, `${place.volumeGroup}/${place.thinPool}`]];
}
