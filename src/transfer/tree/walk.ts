// The walk of a tree, relative to descriptors: every directory is opened by its name in the one above it, no link is followed, no other
// filesystem entered. In the order of paths. What vanishes or turns into something else while it is walked is as it is found at the end.
import { closeSync } from 'node:fs';
import {
  FORMATS,
  isVanished,
  linkAt,
  namesIn,
  openDirectoryAt,
  readable,
  statAt,
  statOf,
  type Device,
  type Stat,
} from '../../host/tree-calls.ts';
import { FlockError } from '../../model/errors.ts';
import type { EntryType } from './entry.ts';
import { childOf, DEEPEST } from './paths.ts';
import { LARGEST_FILE } from './sums.ts';

export interface Walked {
  path: string;
  type: EntryType;
  stat: Stat;
  /** The directory that it is in, and its name there; of the tree's root, the root itself. Open until the walk goes on. */
  dir: number;
  name: string;
  /** Where a link leads; of another name of a file, the first path that had it. */
  target: string;
}

interface Level {
  fd: number;
  path: string;
  names: string[];
  at: number;
}

const TYPE_OF: { [format: number]: Exclude<EntryType, 'hard'> } = {
  [FORMATS.dir]: 'dir',
  [FORMATS.file]: 'file',
  [FORMATS.link]: 'link',
  [FORMATS.fifo]: 'fifo',
  [FORMATS.socket]: 'socket',
  [FORMATS.char]: 'char',
  [FORMATS.block]: 'block',
};

/** Throws Unsupported for a file that cannot be carried. */
export function checkSize(path: string, { size }: Stat): void {
  if (size > LARGEST_FILE)
    throw new FlockError(
      'Unsupported',
      `"${readable(path)}" has ${size} bytes, holes included; files of more than ${LARGEST_FILE} (4 TiB) are not carried: make it smaller (truncate), or take it away`,
    );
}

export class Walk {
  readonly #root: number;
  readonly #dev: Device;
  readonly #levels: Level[] = [];
  /** Of files with several names: the first, and how many more may come. */
  readonly #firsts = new Map<bigint, { path: string; left: number }>();
  #begun = false;

  /** `root`: an opened directory, which stays the caller's. */
  constructor(root: number) {
    this.#root = root;
    this.#dev = statOf(root).dev;
  }

  /** The next entry; null at the end. Throws Unsupported for a tree that cannot be carried. */
  next(): Walked | null {
    if (!this.#begun) return this.#rootItself();
    for (let level = this.#levels.at(-1); level; level = this.#levels.at(-1)) {
      const name = level.names[level.at++];
      if (name === undefined) {
        this.#levels.pop();
        closeSync(level.fd);
        continue;
      }
      const found = this.#look(level, name);
      if (found) return found;
    }
    return null;
  }

  close(): void {
    for (const { fd } of this.#levels.splice(0)) closeSync(fd);
  }

  #rootItself(): Walked {
    this.#begun = true;
    const fd = openDirectoryAt(this.#root, '.');
    this.#levels.push({ fd, path: '', names: namesIn(fd), at: 0 });
    return { path: '', type: 'dir', stat: statOf(fd), dir: fd, name: '.', target: '' };
  }

  #look(level: Level, name: string): Walked | null {
    const path = childOf(level.path, name);
    try {
      const stat = statAt(level.fd, name);
      const type = TYPE_OF[stat.format];
      if (type === undefined) throw new FlockError('Unsupported', `"${readable(path)}" is of no kind that can be carried`);
      const found: Walked = { path, type, stat, dir: level.fd, name, target: type === 'link' ? linkAt(level.fd, name) : '' };
      if (type === 'dir') return this.#enter(found);
      if (type === 'file') checkSize(path, stat);
      return stat.links > 1 ? this.#named(found) : found;
    } catch (error) {
      if (isVanished(error)) return null;
      throw error;
    }
  }

  /** What was opened is what is told of, not what was looked at before. */
  #enter(found: Walked): Walked {
    if (this.#levels.length >= DEEPEST)
      throw new FlockError(
        'Unsupported',
        `"${readable(found.path).slice(0, 200)}…" is more than ${DEEPEST} directories deep: such a tree is not carried`,
      );
    const fd = openDirectoryAt(found.dir, found.name);
    const stat = statOf(fd);
    if (stat.dev.major !== this.#dev.major || stat.dev.minor !== this.#dev.minor) {
      closeSync(fd);
      throw new FlockError(
        'Unsupported',
        `"${readable(found.path)}" is another filesystem (a mount, or a subvolume of its own) within the volume: it is not carried; take it away`,
      );
    }
    this.#levels.push({ fd, path: found.path, names: namesIn(fd), at: 0 });
    return { ...found, stat };
  }

  #named(found: Walked): Walked {
    const { ino, links } = found.stat;
    const first = this.#firsts.get(ino);
    if (!first) {
      this.#firsts.set(ino, { path: found.path, left: links - 1 });
      return found;
    }
    // Once all its names were met it is forgotten: memory goes by what is still open.
    if (--first.left <= 0) this.#firsts.delete(ino);
    return { ...found, type: 'hard', target: first.path };
  }
}
