// What a scan of a directory pool makes of one copy: the copy, made whole and put where its label says; or what is wrong with it. An error of
// one copy stays with that copy.
import { join } from 'node:path';
import { beAbsent, tryLockFile } from '../host/files.ts';
import { isReason, messageOf } from '../model/errors.ts';
import { beAt, pathBy, RETIRED, treeOf, treePaths, type DirectoryPlace } from './directory-place.ts';
import { finished, removed } from './directory-life.ts';
import { listing, readSidecar, type CopyListing, type Sidecar } from './image-layout.ts';
import { filesOf, whileBooking } from './image-place.ts';
import type { Copy, CopyName, Inventory } from './pool.ts';

const NOTHING: Inventory = { copies: [], unlabelled: [], foreign: [] };

/** In the copy's turn. Throws InUse when another agent uses the pool. */
export async function lookedAt(place: DirectoryPlace, name: CopyName, there: CopyListing): Promise<Inventory> {
  try {
    return await mended(place, name, there);
  } catch (error) {
    if (isReason(error, 'InUse')) throw error;
    const sidecar = await readableOrNull(place, name);
    const damage = `copy ${name} cannot be looked after: ${messageOf(error)}`;
    if (!sidecar) return { ...NOTHING, unlabelled: [{ name, damage }] };
    return { ...NOTHING, copies: [{ ...copyOf(name, sidecar), damage }] };
  }
}

async function mended(place: DirectoryPlace, name: CopyName, there: CopyListing): Promise<Inventory> {
  const sidecar = await sidecarOrNull(place, name);
  if (sidecar === null) return withoutLabel(place, name, there);
  if (sidecar.state === 'removing') return removedUnlessBusy(place, name, sidecar);
  if (sidecar.state !== 'ready')
    await whileBooking(place, async () => void (await finished(place, name, (await sidecarOrNull(place, name)) ?? sidecar)));
  for (const file of there.unfinished) await beAbsent(join(place.path, file));
  const after = await readSidecar(filesOf(place, name));
  if ((await treeOf(place, name)) === null) return { ...NOTHING, copies: [{ ...copyOf(name, after), damage: gone(place, name) }] };
  await inItsPlace(place, name, after);
  const path = await treeOf(place, name);
  const used = path === null ? null : await place.limits.used(path, after.project);
  return { ...NOTHING, copies: [{ ...copyOf(name, after), ...(path === null ? {} : { folder: path }), allocated: used }] };
}

const gone = (place: DirectoryPlace, name: CopyName): string =>
  `the directory of copy ${name} is neither in ${place.path} nor in its folder ${RETIRED}: somebody took it away. Bring it back, or delete the volume`;

const copyOf = (name: CopyName, { label }: Sidecar): Copy => ({
  name,
  label,
  size: BigInt(label.size),
  allocated: null,
  points: [],
  device: null,
});

/** Who holds it, in this process or another, has it where he wants it. */
export async function inItsPlace(place: DirectoryPlace, name: CopyName, { label }: Sidecar): Promise<void> {
  const wanted = pathBy(treePaths(place, name), label);
  if ((await treeOf(place, name)) === wanted) return;
  const lock = await tryLockFile(filesOf(place, name).lock, 'exclusive');
  if (!lock) return;
  try {
    await beAt(place, name, wanted);
  } finally {
    await lock.release();
  }
}

async function removedUnlessBusy(place: DirectoryPlace, name: CopyName, { project }: Sidecar): Promise<Inventory> {
  const lock = await tryLockFile(filesOf(place, name).lock, 'exclusive');
  if (!lock) return NOTHING;
  try {
    await removed(place, name, project);
  } finally {
    await lock.release();
  }
  return NOTHING;
}

/** A directory lost its label; a lock or an unfinished file alone is the last trace of something that ended. */
async function withoutLabel(place: DirectoryPlace, name: CopyName, there: CopyListing): Promise<Inventory> {
  const path = await treeOf(place, name);
  if (path !== null)
    return {
      ...NOTHING,
      unlabelled: [
        {
          name,
          damage: `the label of copy ${name} is not there, its directory is at ${path}: the copy is neither served nor changed. Bring the label back as it was, or delete the volume`,
        },
      ],
      foreign: [name],
    };
  for (const file of there.unfinished) await beAbsent(join(place.path, file));
  await beAbsent(filesOf(place, name).lock);
  return NOTHING;
}

export async function sidecarOrNull(place: DirectoryPlace, name: CopyName): Promise<Sidecar | null> {
  try {
    return await readSidecar(filesOf(place, name));
  } catch (error) {
    if (isReason(error, 'NotFound')) return null;
    throw error;
  }
}

const readableOrNull = (place: DirectoryPlace, name: CopyName): Promise<Sidecar | null> => sidecarOrNull(place, name).catch(() => null);

/** Copies by name, and what is nobody's. */
export async function contents(place: DirectoryPlace): Promise<{ copies: Map<CopyName, CopyListing>; foreign: string[] }> {
  const { copies, foreign } = await listing(place.path);
  const nameless: string[] = [];
  for (const file of foreign) {
    if (file === RETIRED) continue;
    if (!isOurs(place, file)) nameless.push(file);
    else if (!copies.has(file)) copies.set(file, { image: false, sidecar: false, points: [], unfinished: [] });
  }
  return { copies, foreign: nameless };
}

function isOurs(place: DirectoryPlace, file: string): boolean {
  try {
    treePaths(place, file);
    return true;
  } catch {
    return false;
  }
}
