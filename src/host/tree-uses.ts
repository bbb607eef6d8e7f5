// What is told about users of a directory: the directory, and who may have something of it. No knowledge of processes or mounts.
import { isCode } from './files.ts';
import type { Mount } from './mountinfo.ts';

export interface Tree {
  /** Opened. */
  root: number;
  /** Every path by which this machine's own folders tell the tree. */
  paths: readonly string[];
  /** The pool's. */
  folder: string;
  /** As stat tells it. */
  dev: bigint;
  /** That the folder lies on. */
  mount: Mount;
}

/** Something on the tree's filesystem, which may be in the tree or not. */
export interface Suspect {
  /** null: `how` says it all, for it is no process. */
  pid: string | null;
  how: string;
  ino: bigint;
}

export const isWithinAny = (path: string, of: readonly string[]): boolean =>
  of.some((each) => path === each || path.startsWith(`${each}/`));

/** What vanished, and what this user may not see. */
export function orNull<T>(ask: () => T): T | null {
  try {
    return ask();
  } catch (error) {
    if (isCode(error, 'ENOENT', 'EACCES', 'EPERM', 'ESRCH', 'ENOTDIR', 'ELOOP', 'EINVAL')) return null;
    throw error;
  }
}
