// How a copy of an image pool begins, grows and ends on the disk, so that a crash between any two writes leaves something that is
// recognised. Create, clone: label "creating" (books the room) → image → label "ready". Grow: label "growing" (books the room) → image → label
// "ready" with the new size. Remove: label "removing" → points → image → label. So a label is there before the first and until the last of
// its files, and an image that is not as its label says was changed by somebody else. All within the copy's turn.
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { beAbsent, syncFolder } from '../host/files.ts';
import { cloneFile } from '../host/syscalls.ts';
import { FlockError } from '../model/errors.ts';
import { checkDamage } from './image-damage.ts';
import { allocate, shrinkBack, wiped } from './image-files.ts';
import { listing, sizeOf, writeSidecar, type Sidecar } from './image-layout.ts';
import { filesOf, imageSize, notThere, type Place } from './image-place.ts';
import type { CopyName, PointOf } from './pool.ts';

/** Makes the copy what its label says, repeating what a crash cut off; its real size. While booking. Throws NoSpace when it is taken back. */
export async function finished(place: Place, name: CopyName, sidecar: Sidecar): Promise<bigint> {
  if (sidecar.state === 'removing')
    throw new FlockError('Conflict', `copy ${name} is being removed: let the removal end, then use another copy id`);
  await checkDamage(place, name, sidecar);
  if (sidecar.state === 'creating') await made(place, name, sidecar);
  if (sidecar.state === 'growing') await grown(place, name, sidecar);
  return (await imageSize(place, name)).size;
}

async function made(place: Place, name: CopyName, sidecar: Sidecar): Promise<void> {
  const files = filesOf(place, name);
  try {
    const from = sidecar.from ? await cloned(place, files.image, sidecar.from) : 0n;
    await allocate(files.image, { from, to: BigInt(sidecar.label.size), thick: sidecar.thick });
  } catch (error) {
    await beAbsent(files.image);
    await beAbsent(files.sidecar);
    throw error;
  }
  await syncFolder(place.path);
  place.crash('create:allocated');
  await writeSidecar(files, readyOf(sidecar, sidecar.label.size));
}

/** The image shares the blocks of that point; its size, bytes. Throws NotFound when the point is gone. */
async function cloned(place: Place, image: string, { copy, point }: PointOf): Promise<bigint> {
  const path = filesOf(place, copy).point(point);
  const source = await sizeOf(path);
  if (!source) throw notThere(place, `${copy} at ${point}`);
  await using from = await open(path, constants.O_RDONLY);
  await using to = await open(image, constants.O_RDWR | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW, 0o600);
  await cloneFile(to.fd, from.fd);
  return source.size;
}

/** While booking, after the room was found. */
export async function enlarged(place: Place, name: CopyName, sidecar: Sidecar, to: bigint): Promise<void> {
  const growing: Sidecar = { ...sidecar, state: 'growing', to: String(to) };
  await writeSidecar(filesOf(place, name), growing);
  place.crash('grow:labelled');
  await grown(place, name, growing);
}

/** From the size before: what a crash had allocated is allocated again. */
async function grown(place: Place, name: CopyName, sidecar: Sidecar): Promise<void> {
  const files = filesOf(place, name);
  const { size } = sidecar.label;
  const to = sidecar.to ?? size;
  try {
    await allocate(files.image, { from: BigInt(size), to: BigInt(to), thick: sidecar.thick });
  } catch (error) {
    await shrinkBack(files.image, BigInt(size));
    await writeSidecar(files, readyOf(sidecar, size));
    throw error;
  }
  place.crash('grow:allocated');
  await writeSidecar(files, readyOf(sidecar, to));
}

const readyOf = ({ version, thick, label }: Sidecar, size: string): Sidecar => ({
  version,
  state: 'ready',
  thick,
  label: { ...label, size },
});

/** With the copy locked: from here on it goes, whatever happens. */
export async function begunToRemove(place: Place, name: CopyName, there: Sidecar, wipe: 'none' | 'discard' | 'zero'): Promise<Sidecar> {
  const sidecar: Sidecar = there.state === 'removing' ? there : { ...there, state: 'removing', wipe };
  await writeSidecar(filesOf(place, name), sidecar);
  place.crash('remove:labelled');
  return sidecar;
}

/** With the copy locked; its label says "removing", or cannot be read. */
export async function removed(place: Place, name: CopyName, { wipe = 'none' }: Pick<Sidecar, 'wipe'>): Promise<void> {
  const files = filesOf(place, name);
  const there = (await listing(place.path)).copies.get(name);
  for (const point of there?.points ?? []) await beAbsent(files.point(point));
  for (const file of there?.unfinished ?? []) await beAbsent(join(place.path, file));
  // What a link leads to is not ours.
  if ((await sizeOf(files.image))?.regular) await wiped(files.image, wipe);
  place.crash('remove:wiped');
  await beAbsent(files.image);
  place.crash('remove:unlinked');
  await beAbsent(files.sidecar);
  await beAbsent(files.lock);
}
