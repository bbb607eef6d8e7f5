// Which inodes are in a directory: a walk by descriptors, which follows no link. What vanishes meanwhile is not there.
import { closeSync } from 'node:fs';
import { Bursts } from './bursts.ts';
import { FORMATS, isVanished, namesIn, openDirectoryAt, statAt, statOf } from './tree-calls.ts';

/** Which of the wanted inodes, and the root's own. */
export async function inodesAmong(root: number, wanted: ReadonlySet<bigint>): Promise<Set<bigint>> {
  const found = new Set<bigint>([statOf(root).ino]);
  const bursts = new Bursts();
  const levels = [entered(root, '.')];
  try {
    for (let level = levels.at(-1); level; level = levels.at(-1)) {
      if (bursts.isOver) await bursts.rest();
      const name = level.names.pop();
      const below = name === undefined ? null : looked(level.fd, name, { wanted, found });
      if (below) levels.push(below);
      if (name === undefined) closeSync((levels.pop() as Level).fd);
    }
  } finally {
    for (const { fd } of levels) closeSync(fd);
  }
  return found;
}

interface Level {
  fd: number;
  names: string[];
}

function entered(dir: number, name: string): Level {
  const fd = openDirectoryAt(dir, name);
  return { fd, names: namesIn(fd) };
}

function looked(dir: number, name: string, { wanted, found }: { wanted: ReadonlySet<bigint>; found: Set<bigint> }): Level | null {
  try {
    const { ino, format } = statAt(dir, name);
    if (wanted.has(ino)) found.add(ino);
    return format === FORMATS.dir ? entered(dir, name) : null;
  } catch (error) {
    if (isVanished(error)) return null;
    throw error;
  }
}
