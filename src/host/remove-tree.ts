// Removes an entry of a tree, and of a directory all that is in it, innermost first; by descriptors, so that no link leads out and no depth is
// too deep. Safe to repeat.
import { closeSync } from 'node:fs';
import { FORMATS, namesIn, openDirectoryAt, removeAt, statAt } from './tree-calls.ts';
import { Bursts } from './bursts.ts';

interface Level {
  fd: number;
  /** Its own name in the one above. */
  name: string;
  names: string[];
}

export async function removeTree(dir: number, name: string): Promise<void> {
  if (!isDirectory(dir, name)) return removeAt(dir, name, 'entry');
  const bursts = new Bursts();
  const levels: Level[] = [entered(dir, name)];
  try {
    for (let level = levels.at(-1); level; level = levels.at(-1)) {
      if (bursts.isOver) await bursts.rest();
      const next = level.names.pop();
      if (next === undefined) leave(levels, dir);
      else if (isDirectory(level.fd, next)) levels.push(entered(level.fd, next));
      else removeAt(level.fd, next, 'entry');
    }
  } finally {
    for (const { fd } of levels) closeSync(fd);
  }
}

const isDirectory = (dir: number, name: string): boolean => statAt(dir, name).format === FORMATS.dir;

function entered(dir: number, name: string): Level {
  const fd = openDirectoryAt(dir, name);
  return { fd, name, names: namesIn(fd) };
}

function leave(levels: Level[], dir: number): void {
  const { fd, name } = levels.pop() as Level;
  closeSync(fd);
  removeAt(levels.at(-1)?.fd ?? dir, name, 'directory');
}
