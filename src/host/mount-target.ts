// Whether a path may become a mount point. A mount hides what is at its path: neither the agent's own files nor anybody else's are hidden.
// Looks only.
import { lstat, readdir, realpath } from 'node:fs/promises';
import { FlockError, Invalid } from '../model/errors.ts';
import { ifThere } from './files.ts';
import { isMounted } from './mounts.ts';

/** Folders that this node lives by. */
export type Reserved = readonly string[];

/** Throws Invalid for a path that can be none, InUse when it would hide something. One that is a mount point already is judged by who mounts. */
export async function checkMountTarget(target: string, what: 'folder' | 'device', reserved: Reserved): Promise<void> {
  for (const place of reserved) checkApart(target, (await ifThere(realpath(place))) ?? place);
  if (what === 'device' || (await isMounted(target))) return;
  const there = await ifThere(lstat(target));
  if (!there) return;
  if (!there.isDirectory())
    throw new Invalid(`mount point ${target} is no folder: a volume with a filesystem needs one; choose another path`);
  const [first, ...others] = (await readdir(target)).toSorted();
  if (first === undefined) return;
  const more = others.length === 0 ? '' : ` and ${others.length} more`;
  throw new FlockError(
    'InUse',
    `${target} is not empty: ${first}${more} would be hidden while the volume is mounted there. Choose an empty folder, or move that away`,
  );
}

function checkApart(target: string, place: string): void {
  const hides = isWithin(place, target);
  if (!hides && !isWithin(target, place)) return;
  const why = hides
    ? `it would hide ${place}, where this node keeps its own files`
    : `it is inside ${place}, where only this node's own files belong`;
  throw new Invalid(`${target} cannot be a mount point: ${why}; choose a folder elsewhere`);
}

const isWithin = (path: string, folder: string): boolean => path === folder || path.startsWith(folder === '/' ? '/' : `${folder}/`);
