// One look at a whole tree on this side's disk: the walk, joined with what was known before, so that a file is opened only when it may have
// changed. What is said of an entry is true when it is said; whoever writes meanwhile is found by the next look.
import { closeSync } from 'node:fs';
import {
  attributeOf,
  attributesOf,
  isBefore,
  isSameTime,
  isVanished,
  O_PATH,
  openAt,
  openDirectoryAt,
  openFileAt,
  readable,
  statOf,
  type Stat,
  type Time,
} from '../../host/tree-calls.ts';
import { FlockError } from '../../model/errors.ts';
import type { Base } from './base.ts';
import { BARE, isCarried, type Entry, type Known, type KnownEntry } from './entry.ts';
import { Bursts } from '../../host/bursts.ts';
import { checkSize, Walk, type Walked } from './walk.ts';

export interface ScanOptions {
  root: number;
  /** null: nothing is believed, all is read. */
  base: Base | null;
  /** The disk's clock when the walk began, after a flush. */
  start: Time;
  /** Files that changed since then are read again, whatever is known of them. */
  readSince?: Time;
  /** Files that are opened even if they are known: their content is asked for. */
  isAsked?: (path: string) => boolean;
  /** Nobody may write: whatever changes meanwhile is an error. */
  settled: boolean;
  signal: AbortSignal;
}

export interface Scanned {
  /** Its `sums` are null when it is a file that has to be read. */
  entry: KnownEntry;
  /** Then the file, opened; closed by whoever got it. */
  fd: number | null;
}

export class Scan {
  readonly #options: ScanOptions;
  readonly #walk: Walk;
  readonly #bursts = new Bursts();

  constructor(options: ScanOptions) {
    this.#options = options;
    this.#walk = new Walk(options.root);
  }

  async next(): Promise<Scanned | null> {
    const { base, signal, settled } = this.#options;
    for (;;) {
      if (this.#bursts.isOver) await this.#bursts.rest();
      signal.throwIfAborted();
      const walked = this.#walk.next();
      if (!walked) return null;
      const before = base ? await base.at(walked.path) : null;
      try {
        return this.#isKnown(before, walked) ? { entry: before, fd: null } : this.#looked(walked);
      } catch (error) {
        if (settled || !isVanished(error)) throw error;
      }
    }
  }

  close(): void {
    this.#walk.close();
  }

  /** How a file lies there after it was read: whether what was read may be believed later. */
  after(scanned: Scanned, sums: Buffer): KnownEntry {
    const { entry, fd } = scanned;
    if (fd === null) return { ...entry, sums };
    const { ctime, mtime, size } = statOf(fd);
    const changed = !isSameTime(ctime, entry.known.ctime) || !isSameTime(mtime, entry.mtime) || size !== entry.size;
    if (changed && this.#options.settled)
      throw new FlockError(
        'Conflict',
        `"${readable(entry.path)}" changed while it was read, and nobody may write it: is the pool's folder used by others?`,
      );
    return { ...entry, sums, known: { ...entry.known, sure: entry.known.sure && !changed } };
  }

  #isKnown(before: KnownEntry | null, { type, stat, target }: Walked): before is KnownEntry {
    if (!before?.known.sure || before.type !== type || before.target !== target) return false;
    if (before.known.ino !== stat.ino || !isSameTime(before.known.ctime, stat.ctime) || !isSameTime(before.mtime, stat.mtime)) return false;
    return type !== 'file' || this.#isContentKnown(before, stat);
  }

  #isContentKnown({ path, size, sums }: KnownEntry, stat: Stat): boolean {
    return size === stat.size && sums !== null && !this.#isToRead(path, stat);
  }

  #isToRead(path: string, { ctime }: Stat): boolean {
    const { readSince, isAsked } = this.#options;
    return (readSince !== undefined && !isBefore(ctime, readSince)) || isAsked?.(path) === true;
  }

  #looked(walked: Walked): Scanned {
    const { path, type, target, stat } = walked;
    // The other name tells all; but it has to be known again by its own inode.
    if (type === 'hard') return { entry: { path, type, ...BARE, target, known: this.#known(stat) }, fd: null };
    if (type === 'file') return this.#file(walked);
    const fd = type === 'dir' ? openDirectoryAt(walked.dir, walked.name) : openAt(walked.dir, walked.name, O_PATH);
    try {
      return { entry: { ...entryOf(walked, stat, fd), known: this.#known(stat) }, fd: null };
    } finally {
      closeSync(fd);
    }
  }

  /** It may be another by now than what was looked at: what was opened is what is told of. */
  #file(walked: Walked): Scanned {
    const fd = openFileAt(walked.dir, walked.name);
    try {
      const stat = statOf(fd);
      if (stat.format !== walked.stat.format)
        throw new FlockError('Conflict', `"${readable(walked.path)}" is no file any more`, { cause: { code: 'ESTALE' } });
      checkSize(walked.path, stat);
      const entry = { ...entryOf(walked, stat, fd), size: stat.size, known: this.#known(stat) };
      if (stat.size > 0) return { entry, fd };
      closeSync(fd);
      return { entry: { ...entry, sums: Buffer.alloc(0) }, fd: null };
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  }

  #known({ ino, ctime }: Stat): Known {
    return { ino, ctime, sure: isBefore(ctime, this.#options.start) };
  }
}

function entryOf({ path, type, target }: Walked, stat: Stat, fd: number): Entry {
  const { mode, uid, gid, mtime, rdev } = stat;
  return { ...BARE, path, type, mode, uid, gid, mtime, target, rdev, attributes: carried(fd) };
}

function carried(fd: number): [string, Buffer][] {
  const found: [string, Buffer][] = [];
  for (const name of attributesOf(fd)) {
    const value = isCarried(name) ? attributeOf(fd, name) : null;
    if (value) found.push([name, value]);
  }
  return found;
}
