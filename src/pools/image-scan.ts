// What a scan makes of one copy's files: the copy, made whole if its label says that it is half made; or what is wrong with it. An error of
// one copy stays with that copy, for the pool's other volumes do not depend on it.
import { join } from 'node:path';
import { beAbsent, tryLockFile } from '../host/files.ts';
import { isReason, messageOf } from '../model/errors.ts';
import { damageOf, labelGone, sidecarOrNull, sidecarOrWhy } from './image-damage.ts';
import { listing, sizeOf, type CopyListing, type Sidecar } from './image-layout.ts';
import { finished, removed } from './image-life.ts';
import { filesOf, whileBooking, type Place } from './image-place.ts';
import type { Copy, CopyName, Inventory } from './pool.ts';

const NOTHING: Inventory = { copies: [], unlabelled: [], foreign: [] };

/** In the copy's turn; `there` may be from before it. Throws InUse when another agent uses the pool. */
export async function lookedAt(place: Place, name: CopyName, there: CopyListing): Promise<Inventory> {
  try {
    return await mended(place, name, there);
  } catch (error) {
    if (isReason(error, 'InUse')) throw error;
    return broken(place, name, { there, damage: `copy ${name} cannot be looked after: ${messageOf(error)}` });
  }
}

async function mended(place: Place, name: CopyName, there: CopyListing): Promise<Inventory> {
  const sidecar = await sidecarOrWhy(place, name);
  if (typeof sidecar === 'string') return unlabelled(name, there, sidecar);
  if (sidecar === null) return withoutLabel(place, name);
  if (sidecar.state === 'removing') return removedUnlessBusy(place, name, sidecar);
  const damage = await damageOf(place, name, sidecar);
  if (damage !== null) return damaged(place, name, { there, sidecar, damage });
  if (sidecar.state !== 'ready') await whileBooking(place, () => finishedAgain(place, name));
  for (const file of there.unfinished) await beAbsent(join(place.path, file));
  const after = await sidecarOrNull(place, name);
  return after ? found(await copyOf(place, name, { there, sidecar: after })) : NOTHING;
}

const found = (copy: Copy): Inventory => ({ ...NOTHING, copies: [copy] });

/** Another process may have finished it while this one waited for the lock. What there is no room or no point for any more is taken back. */
async function finishedAgain(place: Place, name: CopyName): Promise<void> {
  const sidecar = await sidecarOrNull(place, name);
  try {
    if (sidecar) await finished(place, name, sidecar);
  } catch (error) {
    if (!isReason(error, 'NoSpace', 'NotFound')) throw error;
  }
}

async function copyOf(place: Place, name: CopyName, of: { there: CopyListing; sidecar: Sidecar }): Promise<Copy> {
  const { label } = of.sidecar;
  const image = await sizeOf(filesOf(place, name).image);
  return { name, label, size: BigInt(label.size), allocated: image?.allocated ?? 0n, points: of.there.points, device: null };
}

async function damaged(place: Place, name: CopyName, of: { there: CopyListing; sidecar: Sidecar; damage: string }): Promise<Inventory> {
  return found({ ...(await copyOf(place, name, of)), damage: of.damage });
}

/** After an error that nobody foresaw. */
async function broken(place: Place, name: CopyName, { there, damage }: { there: CopyListing; damage: string }): Promise<Inventory> {
  const sidecar = await sidecarOrWhy(place, name);
  if (sidecar === null || typeof sidecar === 'string') return unlabelled(name, there, damage);
  const { label } = sidecar;
  return found({ name, label, size: BigInt(label.size), allocated: 0n, points: there.points, device: null, damage });
}

async function removedUnlessBusy(place: Place, name: CopyName, sidecar: Sidecar): Promise<Inventory> {
  const lock = await tryLockFile(filesOf(place, name).lock, 'exclusive');
  if (!lock) return NOTHING;
  try {
    await removed(place, name, sidecar);
  } finally {
    await lock.release();
  }
  return NOTHING;
}

/** An image or a point lost its label, or is nobody's; a lock or an unfinished file alone is the last trace of something that ended. */
async function withoutLabel(place: Place, name: CopyName): Promise<Inventory> {
  const there = (await listing(place.path)).copies.get(name);
  if (!there) return NOTHING;
  if (there.image || there.points.length > 0) return unlabelled(name, { ...there, sidecar: false }, labelGone(place, name));
  for (const file of there.unfinished) await beAbsent(join(place.path, file));
  await beAbsent(filesOf(place, name).lock);
  return NOTHING;
}

const unlabelled = (name: CopyName, there: CopyListing, damage: string): Inventory => ({
  copies: [],
  unlabelled: [{ name, damage }],
  foreign: namesOf(name, there),
});

function namesOf(name: CopyName, there: CopyListing): string[] {
  const names = there.points.map((point) => `${name}.${point}.point`);
  if (there.sidecar) names.unshift(`${name}.json`);
  if (there.image) names.unshift(`${name}.img`);
  return names;
}
