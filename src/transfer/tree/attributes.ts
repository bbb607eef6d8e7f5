// An entry on the target's disk has the owner, mode, extended attributes and time that the source said. Looks first, and changes only what
// differs. In this order: giving a file away takes its set-uid bit and capabilities, and all of it touches the change time alone.
import {
  attributeOf,
  attributesOf,
  dropAttributeOf,
  O_PATH,
  openAt,
  setAttributeOf,
  setModeOf,
  setModeOfPath,
  setModifiedAt,
  setOwnerAt,
  statAt,
  statOf,
  withOpen,
  type Stat,
} from '../../host/tree-calls.ts';
import { isCarried, type Entry } from './entry.ts';

export interface Spot {
  dir: number;
  name: string;
}

/** How it lies there afterwards. */
export function beAs({ dir, name }: Spot, entry: Entry): Stat {
  const before = statAt(dir, name);
  const given = before.uid !== entry.uid || before.gid !== entry.gid;
  if (given) setOwnerAt(dir, name, entry);
  withOpen(openAt(dir, name, O_PATH), (fd) => {
    if (entry.type !== 'link' && (given || before.mode !== entry.mode)) setModeOfPath(fd, entry.mode);
    beAttributed(fd, entry);
    // A list of who may what is the mode's group too.
    if (entry.type !== 'link' && entry.attributes.length > 0 && statOf(fd).mode !== entry.mode) setModeOfPath(fd, entry.mode);
  });
  if (before.mtime.s !== entry.mtime.s || before.mtime.ns !== entry.mtime.ns) setModifiedAt(dir, name, entry.mtime);
  return statAt(dir, name);
}

/** The same for a file that is open, by shorter ways. */
export function beFileAs({ dir, name }: Spot, fd: number, entry: Entry): Stat {
  const before = statOf(fd);
  if (before.uid !== entry.uid || before.gid !== entry.gid) setOwnerAt(dir, name, entry);
  setModeOf(fd, entry.mode);
  beAttributed(fd, entry);
  if (entry.attributes.length > 0) setModeOf(fd, entry.mode);
  setModifiedAt(dir, name, entry.mtime);
  return statOf(fd);
}

function beAttributed(fd: number, entry: Entry): void {
  const wanted = new Map(entry.attributes);
  const there = attributesOf(fd);
  for (const one of there) if (isCarried(one) && !wanted.has(one)) dropAttributeOf(fd, one);
  for (const [one, value] of wanted)
    if (!there.includes(one) || attributeOf(fd, one)?.equals(value) !== true) setAttributeOf(fd, one, value);
}

/** Whether two entries of one path differ in what beAs sets. */
export function isAttributedAs(one: Entry, other: Entry): boolean {
  const same = one.mode === other.mode && one.uid === other.uid && one.gid === other.gid;
  return same && one.mtime.s === other.mtime.s && one.mtime.ns === other.mtime.ns && areSame(one.attributes, other.attributes);
}

function areSame(some: Entry['attributes'], others: Entry['attributes']): boolean {
  return (
    some.length === others.length && some.every(([name, value], index) => others[index]?.[0] === name && others[index][1].equals(value))
  );
}
