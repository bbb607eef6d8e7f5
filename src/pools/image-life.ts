// How a copy of an image pool begins, grows and ends on the disk, so that a crash between any two writes leaves something that is
// recognised. Create: label "creating" (books the room) → image → label "ready". Grow: label → image. Remove: label "removing" →
// points → image → label. So a label is there before the first and until the last of its files. All within the copy's turn.
import { join } from 'node:path';
import { beAbsent, syncFolder, tryLockFile } from '../host/files.ts';
import { FlockError, ifFound, isReason } from '../model/errors.ts';
import { allocate, shrinkBack, wiped } from './image-files.ts';
import { listing, readSidecar, sizeOf, writeSidecar, type CopyListing, type Sidecar } from './image-layout.ts';
import { filesOf, imageSize, whileBooking, type Place } from './image-place.ts';
import type { Copy, CopyName } from './pool.ts';

/** The label of a whole copy. Throws NotFound, Corrupt, Conflict. */
export async function ready(place: Place, name: CopyName): Promise<Sidecar> {
  const sidecar = await readSidecar(filesOf(place, name));
  if (sidecar.state === 'ready') return sidecar;
  throw new FlockError('Conflict', `copy ${name} is half made (${sidecar.state}): create or remove it again`);
}

export const sidecarOrNull = (place: Place, name: CopyName): Promise<Sidecar | null> => ifFound(readSidecar(filesOf(place, name)));

/** Makes the copy what its label says, repeating what a crash cut off; its real size. While booking. */
export async function finished(place: Place, name: CopyName, sidecar: Sidecar): Promise<bigint> {
  const { image } = filesOf(place, name);
  const wanted = BigInt(sidecar.label.size);
  const there = await sizeOf(image);
  switch (sidecar.state) {
    case 'removing':
      throw new FlockError('Conflict', `copy ${name} is being removed: let the removal end, then use another copy id`);
    case 'creating':
      await made(place, name, sidecar);
      break;
    case 'ready':
      if (!there)
        throw new FlockError(
          'Corrupt',
          `the label of copy ${name} is there and its image ${image} is gone: restore the file or remove the copy`,
        );
      if (there.size < wanted) await enlarged(place, name, { sidecar, from: there.size, to: wanted });
  }
  return (await imageSize(place, name)).size;
}

async function made(place: Place, name: CopyName, sidecar: Sidecar): Promise<void> {
  const files = filesOf(place, name);
  try {
    await allocate(files.image, { from: 0n, to: BigInt(sidecar.label.size), thick: sidecar.thick });
  } catch (error) {
    await beAbsent(files.image);
    await beAbsent(files.sidecar);
    throw error;
  }
  await syncFolder(place.path);
  place.crash('create:allocated');
  await writeSidecar(files, { ...sidecar, state: 'ready' });
}

/** While booking, after the room was found. */
export async function enlarged(place: Place, name: CopyName, order: { sidecar: Sidecar; from: bigint; to: bigint }): Promise<void> {
  const files = filesOf(place, name);
  const { sidecar, from, to } = order;
  const saying = (size: bigint): Promise<void> => writeSidecar(files, { ...sidecar, label: { ...sidecar.label, size: String(size) } });
  await saying(to);
  place.crash('grow:labelled');
  try {
    await allocate(files.image, { from, to, thick: sidecar.thick });
  } catch (error) {
    await shrinkBack(files.image, from);
    await saying(from);
    throw error;
  }
  place.crash('grow:allocated');
}

/** With the copy locked; its label says "removing". */
export async function removed(place: Place, name: CopyName, sidecar: Sidecar): Promise<void> {
  const files = filesOf(place, name);
  const there = (await listing(place.path)).copies.get(name);
  for (const point of there?.points ?? []) await beAbsent(files.point(point));
  for (const file of there?.unfinished ?? []) await beAbsent(join(place.path, file));
  if (there?.image) await wiped(files.image, sidecar.wipe ?? 'none');
  place.crash('remove:wiped');
  await beAbsent(files.image);
  place.crash('remove:unlinked');
  await beAbsent(files.sidecar);
  await beAbsent(files.lock);
}

/** What a scan found by a copy's name: the copy, made whole if it was half made, or the names of files that nobody can claim. */
export async function mended(place: Place, name: CopyName, there: CopyListing): Promise<Copy | string[]> {
  const sidecar = await readableSidecar(place, name);
  if (sidecar === 'unreadable') return namesOf(name, there);
  if (sidecar === null) return unlabelled(place, name, there);
  if (sidecar.state === 'removing') return removedUnlessBusy(place, name, sidecar);
  if (await isHalf(place, name, sidecar)) await whileBooking(place, () => finishedAgain(place, name));
  for (const file of there.unfinished) await beAbsent(join(place.path, file));
  const { label } = await readSidecar(filesOf(place, name));
  return { name, label, ...(await imageSize(place, name)), points: there.points, device: null };
}

async function readableSidecar(place: Place, name: CopyName): Promise<Sidecar | 'unreadable' | null> {
  try {
    return await sidecarOrNull(place, name);
  } catch (error) {
    if (isReason(error, 'Corrupt')) return 'unreadable';
    throw error;
  }
}

/** Another process may have finished it while this one waited for the lock. */
async function finishedAgain(place: Place, name: CopyName): Promise<void> {
  const sidecar = await sidecarOrNull(place, name);
  if (sidecar) await finished(place, name, sidecar);
}

async function isHalf(place: Place, name: CopyName, sidecar: Sidecar): Promise<boolean> {
  const there = await sizeOf(filesOf(place, name).image);
  return sidecar.state !== 'ready' || !there || there.size < BigInt(sidecar.label.size);
}

async function removedUnlessBusy(place: Place, name: CopyName, sidecar: Sidecar): Promise<string[]> {
  const lock = await tryLockFile(filesOf(place, name).lock, 'exclusive');
  if (!lock) return [];
  try {
    await removed(place, name, sidecar);
  } finally {
    await lock.release();
  }
  return [];
}

/** No label: an image or point is nobody's; a lock or an unfinished file alone is the last trace of something that ended. */
async function unlabelled(place: Place, name: CopyName, there: CopyListing): Promise<string[]> {
  const names = namesOf(name, { ...there, sidecar: false });
  if (names.length > 0) return names;
  for (const file of there.unfinished) await beAbsent(join(place.path, file));
  await beAbsent(filesOf(place, name).lock);
  return [];
}

function namesOf(name: CopyName, there: CopyListing): string[] {
  const names = there.points.map((point) => `${name}.${point}.point`);
  if (there.sidecar) names.unshift(`${name}.json`);
  if (there.image) names.unshift(`${name}.img`);
  return names;
}
