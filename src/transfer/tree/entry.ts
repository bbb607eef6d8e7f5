// One entry of a tree: what it is, in the form that goes over the wire, into manifests and into digests. What only one side's disk knows of
// it (inode, change time) stands in manifests alone. Checks everything that a peer or a file says. No I/O.
import { FlockError } from '../../model/errors.ts';
import type { Device, Time } from '../../host/tree-calls.ts';
import { hashing } from '../hashing.ts';
import { BytesWriter, type BytesReader } from './bytes.ts';
import { checkedPath } from './paths.ts';
import { LARGEST_FILE, runsOf } from './sums.ts';

/** The order is that of the wire. hard: another name of the file that an earlier entry is. */
export const TYPES = ['dir', 'file', 'link', 'hard', 'fifo', 'socket', 'char', 'block'] as const;
export type EntryType = (typeof TYPES)[number];

export interface Entry {
  path: string;
  type: EntryType;
  /** Of a hard entry all that follows is nothing but `target`: it is the other's. */
  mode: number;
  uid: number;
  gid: number;
  mtime: Time;
  /** Sorted by name. */
  attributes: readonly (readonly [name: string, value: Buffer])[];
  /** Of a file, bytes; else 0. */
  size: number;
  /** Of a file: the hashes of its leaves, see sums.ts; null: not read. */
  sums: Buffer | null;
  /** Where a link leads; of a hard entry, the path of the first. */
  target: string;
  rdev: Device;
}

/** How it lay on this side's disk when it was looked at. */
export interface Known {
  ino: bigint;
  ctime: Time;
  /** Its change time lay before the walk that read it: as long as nothing of this changes, it is as it was read. */
  sure: boolean;
}

export type KnownEntry = Entry & { known: Known };

const LONGEST_TARGET = 4096;
const LONGEST_SUMS = 9 * 1024 * 1024;
const LONGEST_ATTRIBUTE = 64 * 1024;
const MOST_ATTRIBUTES = 4096;
const LONGEST_PATH = 2 ** 20;
/** Above every entry. */
export const LONGEST_ENTRY = 16 * 1024 * 1024;

const NO_DEVICE: Device = { major: 0, minor: 0 };
const NO_TIME: Time = { s: 0, ns: 0 };
/** What an entry does not say. */
export const BARE = { mode: 0, uid: 0, gid: 0, mtime: NO_TIME, attributes: [], size: 0, sums: null, target: '', rdev: NO_DEVICE } as const;

/** All but the path. */
function putBody(out: BytesWriter, entry: Entry): void {
  out.byte(TYPES.indexOf(entry.type));
  if (entry.type === 'hard') return out.text(entry.target);
  out.number(entry.mode);
  out.number(entry.uid);
  out.number(entry.gid);
  out.signed(entry.mtime.s);
  out.number(entry.mtime.ns);
  out.number(entry.attributes.length);
  for (const [name, value] of entry.attributes) {
    out.text(name);
    out.bytes(value);
  }
  putKind(out, entry);
}

function putKind(out: BytesWriter, { type, size, sums, target, rdev }: Entry): void {
  if (type === 'link') out.text(target);
  if (type === 'char' || type === 'block') {
    out.number(rdev.major);
    out.number(rdev.minor);
  }
  if (type !== 'file') return;
  out.number(size);
  out.byte(sums === null ? 0 : 1);
  if (sums !== null) out.bytes(sums);
}

function takeBody(from: BytesReader, path: string): Entry {
  const type = TYPES[from.byte()];
  if (type === undefined) throw new FlockError('Corrupt', 'an entry of a tree of no known type');
  if (type === 'hard') return { path, type, ...BARE, target: checkedPath(from.text(LONGEST_PATH)) };
  const entry: Entry = { path, type, ...BARE, mode: from.number(), uid: from.number(), gid: from.number(), mtime: takeTime(from) };
  if (entry.mode > 0o7777 || entry.uid >= 2 ** 32 || entry.gid >= 2 ** 32)
    throw new FlockError('Corrupt', 'an entry whose owner or mode cannot be');
  entry.attributes = takeAttributes(from);
  takeKind(from, entry);
  return entry;
}

function takeTime(from: BytesReader): Time {
  const time = { s: from.signed(), ns: from.number() };
  if (time.ns >= 1_000_000_000) throw new FlockError('Corrupt', 'a time of more than a second below a second');
  return time;
}

function takeAttributes(from: BytesReader): [string, Buffer][] {
  const count = from.number();
  if (count > MOST_ATTRIBUTES) throw new FlockError('Corrupt', `an entry with ${count} extended attributes`);
  const found: [string, Buffer][] = [];
  for (let index = 0; index < count; index += 1) found.push([checkedAttribute(from.text(255)), Buffer.from(from.bytes(LONGEST_ATTRIBUTE))]);
  return found;
}

function takeKind(from: BytesReader, entry: Entry): void {
  if (entry.type === 'link') entry.target = checkedTarget(from.text(LONGEST_TARGET));
  if (entry.type === 'char' || entry.type === 'block') entry.rdev = { major: from.number(), minor: from.number() };
  if (entry.type !== 'file') return;
  entry.size = from.number();
  if (entry.size > LARGEST_FILE) throw new FlockError('Corrupt', `a file of ${entry.size} bytes, where ${LARGEST_FILE} may be`);
  if (from.byte() === 0) return;
  entry.sums = Buffer.from(from.bytes(LONGEST_SUMS));
  runsOf(entry.sums, entry.size);
}

function checkedTarget(target: string): string {
  if (target === '' || target.includes('\0')) throw new FlockError('Corrupt', 'a symbolic link that leads to no path');
  return target;
}

/** What is carried of extended attributes. Others speak of this machine alone (labels of its security module, of its filesystem). */
export const isCarried = (name: string): boolean =>
  /^(?:user|trusted)\../su.test(name) || name === 'security.capability' || /^system\.posix_acl_(?:access|default)$/u.test(name);

function checkedAttribute(name: string): string {
  if (!isCarried(name) || name.includes('\0')) throw new FlockError('Corrupt', 'an extended attribute that is not carried');
  return name;
}

/** Puts entries in the order of their paths, each telling only in what its path differs from the one before. */
export class EntryWriter {
  readonly #out: BytesWriter;
  #before = '';

  constructor(out: BytesWriter) {
    this.#out = out;
  }

  put(entry: Entry): void {
    const shared = sharedLength(this.#before, entry.path);
    this.#out.number(shared);
    this.#out.text(entry.path, shared);
    this.#before = entry.path;
    putBody(this.#out, entry);
  }

  /** Where a reader may begin. */
  restart(): void {
    this.#before = '';
  }
}

function sharedLength(one: string, other: string): number {
  const most = Math.min(one.length, other.length);
  let shared = 0;
  while (shared < most && one.charCodeAt(shared) === other.charCodeAt(shared)) shared += 1;
  return shared;
}

/** Throws Corrupt for what is out of order, and for paths that are none. */
export class EntryReader {
  #before: string | null = null;

  take(from: BytesReader): Entry {
    const shared = from.number();
    if (shared > (this.#before ?? '').length) throw new FlockError('Corrupt', 'a path that goes on from a longer one than there was');
    const path = checkedPath((this.#before ?? '').slice(0, shared) + from.text(LONGEST_PATH));
    if (this.#before !== null && path <= this.#before) throw new FlockError('Corrupt', 'the entries of a tree are out of order');
    this.#before = path;
    return takeBody(from, path);
  }
}

export function putKnown(out: BytesWriter, known: Known): void {
  out.long(known.ino);
  out.signed(known.ctime.s);
  out.number(known.ctime.ns);
  out.byte(known.sure ? 1 : 0);
}

export const takeKnown = (from: BytesReader): Known => ({ ino: from.long(), ctime: takeTime(from), sure: from.byte() === 1 });

const DIGESTED = 1024 * 1024;

/** One hash over all entries put into it, in order. A file that was not read has none. */
export class TreeDigest {
  readonly #out = new BytesWriter();
  readonly #entries = new EntryWriter(this.#out);
  #chain = Buffer.alloc(0);
  entries = 0;
  bytes = 0;

  put(entry: Entry): void {
    if (entry.type === 'file' && entry.sums === null) throw new FlockError('Internal', 'a file that was not read has no digest');
    this.#entries.put(entry);
    this.entries += 1;
    // Sparse files may add up to more than a number tells exactly.
    this.bytes = Math.min(this.bytes + entry.size, Number.MAX_SAFE_INTEGER);
    if (this.#out.length >= DIGESTED) this.#fold();
  }

  end(): string {
    this.#fold();
    return this.#chain.toString('hex');
  }

  #fold(): void {
    this.#chain = Buffer.from(hashing.digest(Buffer.concat([this.#chain, this.#out.taken()])));
    this.#out.clear();
  }
}
