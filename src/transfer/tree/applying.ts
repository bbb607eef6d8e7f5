// Makes the target's tree what the source's list says, entry by entry in its order, and writes down what it made. What the list does not have
// is removed, what is the same is left alone. A directory gets its own attributes when all that is in it is done.
//
// The list is another's word: every path is one of names, in ascending order, below a directory that the same list just told of; and here
// every name is opened below its directory's descriptor, never through a link.
import { closeSync, constants, ftruncateSync } from 'node:fs';
import type { CrashPoint } from '../../model/crash.ts';
import { FlockError } from '../../model/errors.ts';
import {
  FORMATS,
  hardLinkAt,
  makeDirectoryAt,
  makeLinkAt,
  makeNodeAt,
  O_PATH,
  openAt,
  readable,
  removeAt,
  setModeOfPath,
  statAt,
  withOpen,
  type Stat,
} from '../../host/tree-calls.ts';
import { removeTree } from '../../host/remove-tree.ts';
import type { SourceLink } from '../source-link.ts';
import { beAs, beFileAs, isAttributedAs, type Spot } from './attributes.ts';
import { sumsOf } from './content.ts';
import type { TreeCrashPoint } from './crash-points.ts';
import type { Entry, KnownEntry } from './entry.ts';
import { fetchLeaves } from './fetching.ts';
import { Filling } from './filling.ts';
import type { ManifestReader, ManifestWriter } from './manifest-file.ts';
import { isWithin, nameOf, parentOf } from './paths.ts';
import { Place } from './place.ts';
import type { TreeRecord } from './stream.ts';
import { differences, leafOf, runsOf } from './sums.ts';

export interface ApplyingParts {
  root: number;
  /** What the tree has now, as was looked. */
  there: ManifestReader;
  /** Takes what it has when an entry is done. */
  made: ManifestWriter;
  link: SourceLink;
  /** Nothing may differ from what the list says, for the source stands still. */
  settled: boolean;
  crash: CrashPoint;
  /** Bytes of content that came, in how many pieces; with the list, or asked for beside it. */
  onContent: (bytes: number, frames: number, how: 'listed' | 'asked') => void;
}

interface Open {
  entry: Entry;
  spot: Spot;
  filling: Filling;
}

/** What an entry is made by, in short calls. */
const MAKE: { [T in Exclude<Entry['type'], 'file' | 'hard'>]: (spot: Spot, entry: Entry) => void } = {
  dir: ({ dir, name }) => makeDirectoryAt(dir, name, 0o700),
  link: ({ dir, name }, { target }) => makeLinkAt(dir, name, target),
  fifo: ({ dir, name }, { rdev }) => makeNodeAt(dir, name, { format: FORMATS.fifo, rdev }),
  socket: ({ dir, name }, { rdev }) => makeNodeAt(dir, name, { format: FORMATS.socket, rdev }),
  char: ({ dir, name }, { rdev }) => makeNodeAt(dir, name, { format: FORMATS.char, rdev }),
  block: ({ dir, name }, { rdev }) => makeNodeAt(dir, name, { format: FORMATS.block, rdev }),
};

export class Applying {
  /** Entries done. */
  entries = 0;
  readonly #parts: ApplyingParts;
  readonly #place: Place;
  /** Where the first names of files are looked up. */
  readonly #firsts: Place;
  /** From the root down to where the list is. */
  readonly #directories: { entry: Entry; before: KnownEntry | null }[] = [];
  /** Whose content is coming; `null` filling: it is there already and passes by. */
  #open: Open | null = null;
  #passing = false;

  constructor(parts: ApplyingParts) {
    this.#parts = parts;
    this.#place = new Place(parts.root);
    this.#firsts = new Place(parts.root);
  }

  /** Throws Corrupt for a list that cannot be, NoSpace, and what the disk says. */
  async take(record: TreeRecord): Promise<void> {
    switch (record.record) {
      case 'entry':
        return this.#entry(record.entry, record.content);
      case 'leaf':
        return this.#leaf(record.offset, record.bytes);
      case 'sums':
        return this.#contentOver(record.sums);
      case 'end':
        return this.#end();
    }
  }

  close(): void {
    this.#open?.filling.close();
    this.#open = null;
    this.#place.close();
    this.#firsts.close();
  }

  async #entry(entry: Entry, content: boolean): Promise<void> {
    await this.#contentOver(null);
    this.#leaveUpTo(entry.path);
    this.#checkPlace(entry);
    await this.#removeBefore(entry.path);
    const before = await this.#before(entry);
    if (entry.type === 'file') await this.#file(entry, before, content);
    else if (entry.type === 'hard') this.#hard(entry, before);
    else this.#other(entry, before);
    if (entry.type === 'dir') this.#directories.push({ entry, before });
    this.entries += 1;
    this.#crash('tree.entry.made');
  }

  #checkPlace({ path, type }: Entry): void {
    if (path === '') {
      if (type !== 'dir') throw new FlockError('Corrupt', 'the root of a tree is a directory');
    } else if (this.#directories.at(-1)?.entry.path !== parentOf(path))
      throw new FlockError('Corrupt', `"${readable(path)}" is in no directory of the list`);
  }

  /** What is there by the entry's path and of its kind; anything else by that path is removed. */
  async #before(entry: Entry): Promise<KnownEntry | null> {
    const { there } = this.#parts;
    const before = there.entry?.path === entry.path ? there.entry : null;
    if (!before) return null;
    const same = before.type === entry.type && before.rdev.major === entry.rdev.major && before.rdev.minor === entry.rdev.minor;
    const led = entry.type !== 'link' || before.target === entry.target;
    if (!same || !led) {
      await this.#remove(entry.path);
      return null;
    }
    if (!there.step()) await there.advance();
    return before;
  }

  async #removeBefore(path: string): Promise<void> {
    const { there } = this.#parts;
    while (there.entry && there.entry.path < path) await this.#remove(there.entry.path);
  }

  /** With all that is in it. */
  async #remove(path: string): Promise<void> {
    const { there } = this.#parts;
    this.#place.forget(path);
    this.#firsts.close();
    await removeTree(this.#place.parentOf(path), nameOf(path));
    while (there.entry && isWithin(there.entry.path, path)) if (!there.step()) await there.advance();
  }

  #spot(path: string): Spot {
    return path === '' ? { dir: this.#parts.root, name: '.' } : { dir: this.#place.parentOf(path), name: nameOf(path) };
  }

  // ---- kinds ---------------------------------------------------------------------------------------------------------------------

  #other(entry: Entry, before: KnownEntry | null): void {
    const { type } = entry;
    if (type === 'file' || type === 'hard') throw new FlockError('Internal', `${type} is made elsewhere`);
    if (!before && entry.path !== '') MAKE[type](this.#spot(entry.path), entry);
    // Its attributes follow when it is left.
    if (type === 'dir') return this.#beEnterable(entry, before);
    if (before && isAttributedAs(before, entry)) return this.#parts.made.put(before);
    this.#made(entry, beAs(this.#spot(entry.path), entry));
  }

  /** Its owner, who is not root, may have no right to write in it himself. */
  #beEnterable({ path }: Entry, before: KnownEntry | null): void {
    if (process.geteuid?.() === 0 || !before || (before.mode & 0o700) === 0o700) return;
    const { dir, name } = this.#spot(path);
    withOpen(openAt(dir, name, O_PATH), (fd) => setModeOfPath(fd, before.mode | 0o700));
  }

  #hard(entry: Entry, before: KnownEntry | null): void {
    const spot = this.#spot(entry.path);
    const from = { dir: this.#firsts.parentOf(entry.target), name: nameOf(entry.target) };
    const first = statAt(from.dir, from.name);
    if (first.format === FORMATS.dir || entry.target >= entry.path)
      throw new FlockError('Corrupt', `"${readable(entry.path)}" is another name of "${readable(entry.target)}", which can have none`);
    if (before && statAt(spot.dir, spot.name).ino === first.ino) return this.#made(entry, first);
    if (before) removeAt(spot.dir, spot.name, 'entry');
    hardLinkAt(from, spot.dir, spot.name);
    this.#made(entry, first);
  }

  async #file(entry: Entry, before: KnownEntry | null, content: boolean): Promise<void> {
    if (before && entry.sums !== null && isContentOf(before, entry)) {
      this.#passing = content;
      this.#parts.made.put(isAttributedAs(before, entry) ? before : { ...entry, known: knownOf(beAs(this.#spot(entry.path), entry)) });
      return;
    }
    const spot = this.#spot(entry.path);
    const fd = opened(spot, before !== null);
    if (content) {
      // Not of a new one: ext4 takes that for a file that is replaced, and writes it out when it is closed.
      if (before) ftruncateSync(fd, 0);
      this.#open = { entry, spot, filling: new Filling(fd, entry.size) };
      return;
    }
    try {
      await this.#fetch(entry, before, fd);
      this.#crash('tree.content.written');
      this.#made(entry, beFileAs(this.#spot(entry.path), fd, entry));
    } finally {
      closeSync(fd);
    }
  }

  async #fetch(entry: Entry, before: KnownEntry | null, fd: number): Promise<void> {
    const { size, sums, path } = entry;
    if (sums === null) throw new FlockError('Corrupt', 'a file without content and hashes');
    const leaf = leafOf(size);
    const has = before?.sums ? await inLeavesOf(before, before.sums, { fd, leaf }) : [];
    if (before?.size !== size) ftruncateSync(fd, size);
    const lacking = differences(runsOf(sums, size), has);
    if (lacking.length === 0) return;
    const { bytes, frames } = await fetchLeaves(
      this.#parts.link,
      { fd, path, size, leaf },
      before ? lacking : lacking.filter(({ zero }) => !zero),
    );
    this.#parts.onContent(bytes, frames, 'asked');
  }

  // ---- content that comes with its entry -----------------------------------------------------------------------------------------

  async #leaf(offset: number, bytes: Buffer): Promise<void> {
    if (this.#passing) return;
    if (!this.#open) throw new FlockError('Corrupt', 'content of no file');
    await this.#open.filling.leaf(offset, bytes);
    this.#parts.onContent(bytes.length, 1, 'listed');
  }

  /** `sums`: what the source says that it sent; null: the entry said it before. */
  async #contentOver(sums: Buffer | null): Promise<void> {
    this.#passing = false;
    const open = this.#open;
    if (!open) return;
    this.#open = null;
    const { entry, filling, spot } = open;
    try {
      const got = await filling.end();
      const said = sums ?? entry.sums;
      if (!said?.equals(got)) throw new FlockError('Corrupt', `the content of "${readable(entry.path)}" is not what its hashes say`);
      this.#crash('tree.content.written');
      this.#made({ ...entry, sums: got }, beFileAs(spot, filling.fd, entry));
    } finally {
      filling.close();
    }
  }

  // ---- leaving -------------------------------------------------------------------------------------------------------------------

  /** Directories that the next path is not in are done; null: all are. */
  #leaveUpTo(path: string | null): void {
    for (let last = this.#directories.at(-1); last; last = this.#directories.at(-1)) {
      const { entry, before } = last;
      if (path !== null && path !== entry.path && isWithin(path, entry.path)) return;
      this.#directories.pop();
      const spot = this.#spot(entry.path);
      if (!before || !isAttributedAs(before, entry) || !isUntouched(before, spot)) beAs(spot, entry);
    }
  }

  async #end(): Promise<void> {
    await this.#contentOver(null);
    const { there } = this.#parts;
    while (there.entry) await this.#remove(there.entry.path);
    this.#leaveUpTo(null);
  }

  #made(entry: Entry, stat: Stat): void {
    this.#parts.made.put({ ...entry, known: knownOf(stat) });
  }

  #crash(point: TreeCrashPoint): void {
    this.#parts.crash(point);
  }
}

/** Nobody else writes here: what was just made is as it was made, until it is looked at again. */
const knownOf = ({ ino, ctime }: Stat): KnownEntry['known'] => ({ ino, ctime, sure: true });

const isContentOf = (before: KnownEntry, entry: Entry): boolean =>
  before.size === entry.size && before.sums !== null && entry.sums !== null && before.sums.equals(entry.sums);

function opened({ dir, name }: Spot, isThere: boolean): number {
  if (!isThere) return openAt(dir, name, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600);
  // Its owner, who is not root, may have no right to write it himself.
  if (process.geteuid?.() !== 0) withOpen(openAt(dir, name, O_PATH), (fd) => setModeOfPath(fd, 0o600));
  return openAt(dir, name, constants.O_RDWR);
}

function isUntouched({ known }: KnownEntry, { dir, name }: Spot): boolean {
  const { ctime } = statAt(dir, name);
  return ctime.s === known.ctime.s && ctime.ns === known.ctime.ns;
}

/** The leaves of what is there, of the size that the wanted ones have. */
async function inLeavesOf(before: KnownEntry, sums: Buffer, as: { fd: number; leaf: number }): Promise<ReturnType<typeof runsOf>> {
  if (leafOf(before.size) === as.leaf) return runsOf(sums, before.size);
  return runsOf(await sumsOf(as.fd, { size: before.size, leaf: as.leaf, short: 'refuse' }), before.size, as.leaf);
}
