// Paths within a tree: components joined by NUL, so that sorting them as strings is the order of a walk, a directory before what is in it.
// Every character is one byte (latin1), for a name need not be text. The tree's root is the empty path. No I/O.
import { FlockError } from '../../model/errors.ts';
import { readable } from '../../host/tree-calls.ts';

const LONGEST_NAME = 255;
/** Directories within directories; each is an open descriptor while it is walked. */
export const DEEPEST = 2000;
const LONGEST_PATH = DEEPEST * (LONGEST_NAME + 1);

export const childOf = (path: string, name: string): string => (path === '' ? name : `${path}\0${name}`);
export const parentOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('\0')));
export const nameOf = (path: string): string => path.slice(path.lastIndexOf('\0') + 1);
export const namesOf = (path: string): string[] => (path === '' ? [] : path.split('\0'));
export const isWithin = (path: string, directory: string): boolean =>
  path === directory || directory === '' || path.startsWith(`${directory}\0`);

/** Of unknown origin. Throws Corrupt for all that is no path of names: `..`, slashes, nothing between two NULs. */
export function checkedPath(path: string): string {
  if (path.length > LONGEST_PATH) throw new FlockError('Corrupt', `a path of ${path.length} bytes`);
  const names = namesOf(path);
  if (names.length > DEEPEST || !names.every(isName))
    throw new FlockError('Corrupt', `"${readable(path.slice(0, 300))}" is no path of a tree`);
  return path;
}

const isName = (name: string): boolean =>
  name !== '' && name !== '.' && name !== '..' && name.length <= LONGEST_NAME && !name.includes('/');
