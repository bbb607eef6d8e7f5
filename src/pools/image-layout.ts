// What lies in the folder of an image pool, by name: `<copy>.img` the bytes, `<copy>.json` the label, `<copy>.<point>.point` a held point
// in time, `<copy>.lock` the lock (never renamed, as the label is), `*.new` a file being written. Everything else is foreign.
import { lstat, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import Type, { type Static } from 'typebox';
import Value from 'typebox/value';
import { isCode, writeAtomically } from '../host/files.ts';
import { FlockError, Invalid } from '../model/errors.ts';
import { CopyLabel, copyName } from '../model/label.ts';
import { ID_PATTERN, printable, UID_PATTERN } from '../model/names.ts';

/** Begins the names of the pool's own furniture. */
const OWN = '.flock-';
export const MARKER = '.flock-pool.json';
export const POOL_LOCK = '.flock-pool.lock';
export const JOURNALS = 'journals';

/** What the label's file holds: the label, how far making or removing the copy got, and how its room is held. */
const Sidecar = Type.Object({
  version: Type.Literal(1),
  state: Type.Enum(['creating', 'ready', 'growing', 'removing']),
  /** Only while growing: the size that it is to have, bytes; the label has the size before. */
  to: Type.Optional(Type.String({ pattern: '^[0-9]{1,19}$' })),
  /** Only while removing: what happens to the bytes. */
  wipe: Type.Optional(Type.Enum(['none', 'discard', 'zero'])),
  /** Only while creating: the point that it begins with. */
  from: Type.Optional(Type.Object({ copy: Type.String(), point: Type.String() })),
  /** Its blocks are allocated and stay so. */
  thick: Type.Boolean(),
  /** Of a directory: the number that its quota goes by. */
  project: Type.Optional(Type.Integer()),
  label: CopyLabel,
});
export type Sidecar = Static<typeof Sidecar>;

const UID = UID_PATTERN.slice(1, -1);
const ID = ID_PATTERN.slice(1, -1);
const COPY = new RegExp(`^${UID}-${ID}$`, 'u');
const POINT = new RegExp(ID_PATTERN, 'u');
const OURS = new RegExp(`^(${UID}-${ID})(?:\\.(${ID}))?\\.(img|json|lock|point)(\\.new)?$`, 'u');

/** Names are ours alone: nothing else ever reaches a path. */
export function checkedCopy(name: string): string {
  if (name.length > 80 || !COPY.test(name)) throw new Invalid(`copy ${printable(name)} is not valid: it is <volume uid>-<copy id>`);
  return name;
}

export function checkedPoint(point: string): string {
  if (!POINT.test(point)) throw new Invalid(`point ${printable(point)} is not valid: lower-case letters and digits, at most 32`);
  return point;
}

/** Paths of one copy. */
export class CopyFiles {
  readonly name: string;
  readonly image: string;
  readonly sidecar: string;
  readonly lock: string;
  private readonly base: string;

  constructor(folder: string, name: string) {
    this.name = checkedCopy(name);
    this.base = join(folder, name);
    this.image = `${this.base}.img`;
    this.sidecar = `${this.base}.json`;
    this.lock = `${this.base}.lock`;
  }

  point(point: string): string {
    return `${this.base}.${checkedPoint(point)}.point`;
  }
}

/** What is there by one copy's name. */
export interface CopyListing {
  image: boolean;
  sidecar: boolean;
  points: string[];
  /** Names of files that were being written. */
  unfinished: string[];
}

/** Names in the folder, sorted into what they are. */
export interface Listing {
  copies: Map<string, CopyListing>;
  foreign: string[];
}

export async function listing(folder: string): Promise<Listing> {
  const found: Listing = { copies: new Map(), foreign: [] };
  for (const file of (await readdir(folder)).sort()) {
    if (file.startsWith(OWN) || file === JOURNALS || file === 'lost+found') continue;
    if (!sortInto(found, file)) found.foreign.push(file);
  }
  return found;
}

function sortInto(found: Listing, file: string): boolean {
  const [, name, point, kind, unfinished] = OURS.exec(file) ?? [];
  if (!name || (kind === 'point') !== (point !== undefined)) return false;
  const copy = found.copies.get(name) ?? { image: false, sidecar: false, points: [], unfinished: [] };
  found.copies.set(name, copy);
  if (unfinished) copy.unfinished.push(file);
  else if (point) copy.points.push(point);
  else if (kind === 'img') copy.image = true;
  else if (kind === 'json') copy.sidecar = true;
  return true;
}

/** Throws NotFound, Corrupt. */
export async function readSidecar(files: CopyFiles): Promise<Sidecar> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(await readFile(files.sidecar, 'utf8'));
  } catch (error) {
    if (isCode(error, 'ENOENT')) throw new FlockError('NotFound', `there is no copy with the label ${files.sidecar}`, { cause: error });
    throw damaged(files, String(error));
  }
  if (!Value.Check(Sidecar, parsed)) {
    const [first] = Value.Errors(Sidecar, parsed);
    throw damaged(files, `${first?.instancePath ?? ''} ${first?.message ?? ''}`);
  }
  if (copyName(parsed.label) !== files.name) throw damaged(files, `it is the label of copy ${copyName(parsed.label)}`);
  return parsed;
}

const damaged = (files: CopyFiles, why: string): FlockError =>
  new FlockError(
    'Corrupt',
    `the label ${files.sidecar} of copy ${files.name} cannot be read (${why}): the copy is neither served nor changed. Bring the label back as it was, or delete the volume`,
  );

export const writeSidecar = (files: CopyFiles, sidecar: Sidecar): Promise<void> =>
  writeAtomically(files.sidecar, `${JSON.stringify(sidecar, null, 2)}\n`);

/** Size of a file, null when it is not there; `regular` false: it is a folder, a link or the like. */
export async function sizeOf(path: string): Promise<{ size: bigint; allocated: bigint; regular: boolean } | null> {
  try {
    const found = await lstat(path, { bigint: true });
    return { size: found.size, allocated: found.blocks * 512n, regular: found.isFile() };
  } catch (error) {
    if (isCode(error, 'ENOENT')) return null;
    throw error;
  }
}
