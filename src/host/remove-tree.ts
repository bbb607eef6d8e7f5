// Removes an entry of a tree, and of a directory all that is in it, innermost first; by descriptors, so that no link leads out and no depth is
// too deep. Safe to repeat.
import { closeSync } from 'node:fs';
import { sayingProtected } from './protected.ts';
import { FORMATS, namesIn, openDirectoryAt, removeAt, statAt } from './tree-calls.ts';
import { Bursts } from './bursts.ts';

interface Level {
  fd: number;
  /** Its own name in the one above. */
  name: string;
  names: string[];
}

export async function removeTree(dir: number, name: string): Promise<void> {
  if (!isDirectory(dir, name)) return removed(dir, name);
  const bursts = new Bursts();
  const levels: Level[] = [entered(dir, name)];
  try {
    for (let level = levels.at(-1); level; level = levels.at(-1)) {
      if (bursts.isOver) await bursts.rest();
      const next = level.names.pop();
      if (next === undefined) await leave(levels, dir);
      else if (isDirectory(level.fd, next)) levels.push(entered(level.fd, next));
      else await removed(level.fd, next);
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

const removed = (dir: number, name: string): Promise<void> => sayingProtected(dir, name, () => removeAt(dir, name, 'entry'));

async function leave(levels: Level[], dir: number): Promise<void> {
  const { fd, name } = levels.pop() as Level;
  closeSync(fd);
  const above = levels.at(-1)?.fd ?? dir;
  await sayingProtected(above, name, () => removeAt(above, name, 'directory'));
}
