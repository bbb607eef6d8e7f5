// Whether a copy of an image pool is what its label says. Only looks: nothing is mended here, because bytes that are gone cannot be
// guessed, and a file that was filled up again would pass for the copy.
import { FlockError, ifFound, isReason } from '../model/errors.ts';
import { readSidecar, sizeOf, type Sidecar } from './image-layout.ts';
import { filesOf, notThere, type Place } from './image-place.ts';
import type { CopyName } from './pool.ts';

export const sidecarOrNull = (place: Place, name: CopyName): Promise<Sidecar | null> => ifFound(readSidecar(filesOf(place, name)));

/** Like sidecarOrNull; what cannot be read is told by its message. */
export async function sidecarOrWhy(place: Place, name: CopyName): Promise<Sidecar | string | null> {
  try {
    return await sidecarOrNull(place, name);
  } catch (error) {
    if (isReason(error, 'Corrupt')) return error.message;
    throw error;
  }
}

/** The label of a whole copy. In its turn. Throws NotFound, Corrupt, Conflict. */
export async function whole(place: Place, name: CopyName): Promise<Sidecar> {
  const sidecar = await sidecarOrNull(place, name);
  if (!sidecar) throw await withoutLabel(place, name);
  if (sidecar.state !== 'ready')
    throw new FlockError('Conflict', `copy ${name} is half made (${sidecar.state}): it is finished at the next look at its pool`);
  await checkDamage(place, name, sidecar);
  return sidecar;
}

/** Throws Corrupt. */
export async function checkDamage(place: Place, name: CopyName, sidecar: Sidecar): Promise<void> {
  const damage = await damageOf(place, name, sidecar);
  if (damage !== null) throw new FlockError('Corrupt', damage);
}

/** What is wrong with the image, and the way out; null when it is as the label says, or as far as a crash can have left it. */
export async function damageOf(place: Place, name: CopyName, sidecar: Sidecar): Promise<string | null> {
  const { image } = filesOf(place, name);
  const found = await sizeOf(image);
  const { least, most } = lengths(sidecar);
  const wayOut = 'The copy is neither served nor changed. Bring the file back as it was, or delete the volume';
  if (!found) return least === null ? null : `the image ${image} of copy ${name} is gone. ${wayOut}`;
  if (!found.regular) return `the image ${image} of copy ${name} is no regular file. ${wayOut}`;
  if (found.size >= (least ?? 0n) && found.size <= most) return null;
  return `the image ${image} of copy ${name} has ${found.size} bytes, and its label says ${sidecar.label.size}. ${wayOut}`;
}

/** Between which sizes the image is, bytes; no least: it need not be there yet, or any more. */
function lengths({ state, label, to }: Sidecar): { least: bigint | null; most: bigint } {
  const size = BigInt(label.size);
  switch (state) {
    case 'ready':
      return { least: size, most: size };
    case 'growing':
      return { least: size, most: BigInt(to ?? size) };
    case 'creating':
    case 'removing':
      return { least: null, most: size };
  }
}

/** NotFound, or Corrupt when only the label is gone. */
async function withoutLabel(place: Place, name: CopyName): Promise<FlockError> {
  const found = await sizeOf(filesOf(place, name).image);
  return found ? new FlockError('Corrupt', labelGone(place, name)) : notThere(place, name);
}

export const labelGone = (place: Place, name: CopyName): string =>
  `files of copy ${name} are in ${place.path}, but its label ${filesOf(place, name).sidecar} is gone: the copy is neither served nor changed. Bring the label back as it was, or delete the volume`;
