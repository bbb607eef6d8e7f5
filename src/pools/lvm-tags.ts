// A copy's label as one tag of its LV, so that it changes in one write of the volume group's metadata. LVM takes letters, digits and a few
// signs in tags, at most 1024 of them: values are percent-encoded with `+` for `%`. The size is not in it, for the LV itself has one.
import Value from 'typebox/value';
import { FlockError, Invalid } from '../model/errors.ts';
import { CopyLabel } from '../model/label.ts';

/** How far making or removing the copy got: `creating` is to be cleared, `cloning` filled, `growing` cleared from its old end. */
export type CopyState = 'creating' | 'cloning' | 'ready' | 'growing' | 'removing';
const STATES: readonly string[] = ['creating', 'cloning', 'ready', 'growing', 'removing'] satisfies CopyState[];

export interface Marked {
  state: CopyState;
  label: CopyLabel;
  /** Only while removing: what happens to the bytes. */
  wipe?: 'none' | 'discard' | 'zero';
  /** Only while growing: up to where it was whole, bytes. */
  from?: string;
}

const LABEL = 'flock:1:copy&';
/** Of an LV that is a point in time. */
export const POINT_TAG = 'flock:1:point';
const LONGEST = 1024;

const encoded = (value: string): string =>
  encodeURIComponent(value)
    .replaceAll(/[!'()*~]/gu, hex)
    .replaceAll('%', '+');
const hex = (sign: string): string => `%${sign.charCodeAt(0).toString(16)}`;
const decoded = (value: string): string => decodeURIComponent(value.replaceAll('+', '%'));

/** Throws Invalid when it is too long for a tag. */
export function tagOf({ state, label, wipe, from }: Marked): string {
  const { size: _size, ...rest } = label;
  const fields = { state, wipe, from, ...rest };
  const words = Object.entries(fields).flatMap(([key, value]) => (value === undefined ? [] : [`${key}=${encoded(String(value))}`]));
  const tag = `${LABEL}${words.join('&')}`;
  if (tag.length > LONGEST) throw new Invalid(`the label of volume ${label.volume} is too long for LVM: give the volume a shorter name`);
  return tag;
}

/** What the tags of an LV of this size say; null: nothing of ours. Throws Corrupt. */
export function readTags(tags: readonly string[], name: string, size: bigint): Marked | null {
  const [tag, ...more] = labelTags(tags);
  if (tag === undefined) return null;
  if (more.length > 0) throw corrupt(name, 'it has more than one label');
  try {
    return markedOf(fieldsOf(tag), name, size);
  } catch (error) {
    if (error instanceof FlockError) throw error;
    throw corrupt(name, String(error));
  }
}

/** Those that `--deltag` is to take away when a new label is added. */
export const labelTags = (tags: readonly string[]): string[] => tags.filter((tag) => tag.startsWith(LABEL));

function fieldsOf(tag: string): Map<string, string> {
  const words = tag.slice(LABEL.length).split('&');
  return new Map(words.map((word) => [word.slice(0, word.indexOf('=')), decoded(word.slice(word.indexOf('=') + 1))]));
}

/** Of each field of a label; others are text. */
const TYPES: { [field: string]: string | undefined } = Object.fromEntries(
  Object.entries(CopyLabel.properties).map(([field, schema]) => [field, (schema as { type?: string }).type]),
);

function typed(key: string, value: string): unknown {
  switch (TYPES[key]) {
    case 'boolean':
      return value === 'true' || (value === 'false' ? false : value);
    case 'integer':
    case 'number':
      return Number(value);
    default:
      return value;
  }
}

function markedOf(fields: ReadonlyMap<string, string>, name: string, size: bigint): Marked {
  const plain = Object.fromEntries([...fields].map(([key, value]) => [key, typed(key, value)]));
  const { state, wipe, from, ...rest } = plain;
  const label = { ...rest, size: String(size) };
  if (!Value.Check(CopyLabel, label)) {
    const [first] = Value.Errors(CopyLabel, label);
    throw corrupt(name, `${first?.instancePath} ${first?.message}`);
  }
  if (!isState(state)) throw corrupt(name, `its state is ${String(state)}`);
  return { state, label, ...(isWipe(wipe) ? { wipe } : {}), ...(typeof from === 'string' ? { from } : {}) };
}

const isState = (value: unknown): value is CopyState => typeof value === 'string' && STATES.includes(value);
const isWipe = (value: unknown): value is NonNullable<Marked['wipe']> => value === 'none' || value === 'discard' || value === 'zero';

const corrupt = (name: string, why: string): FlockError =>
  new FlockError(
    'Corrupt',
    `the label (LV tag) of copy ${name} cannot be read (${why}): the copy is neither served nor changed. Bring the tag back as it was, or delete the volume`,
  );
