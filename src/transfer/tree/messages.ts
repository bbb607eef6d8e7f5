// What is asked about trees on a connection that was welcomed, and the check of it. Knows no sockets.
import Type, { type Static } from 'typebox';
import { FlockError } from '../../model/errors.ts';
import { BytesReader, BytesWriter } from './bytes.ts';
import { checkedPath } from './paths.ts';
import { LARGEST_LEAF } from './sums.ts';

/** TREE_OPEN: the target asks for the list of a round. Paths are hexadecimal, for they are bytes. */
export const OpenMessage = Type.Object({
  round: Type.Integer({ minimum: 0, maximum: 1_000_000 }),
  final: Type.Boolean(),
  /** The last path that the target has anything of; files beyond it come with their content. Null: it has nothing. */
  after: Type.Union([Type.Null(), Type.String({ pattern: '^(?:[0-9a-f]{2})*$', maxLength: 60_000 })]),
  /** Believe nothing that is known from earlier: digests did not agree. */
  afresh: Type.Boolean(),
});
export type OpenMessage = Static<typeof OpenMessage>;

export const OpenedMessage = Type.Object({ settled: Type.Boolean() });

/** TREE_DIRTY: what changed since the last round that the source listed. */
export const TreeDirtyMessage = Type.Object({
  bytes: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
  /** How long a walk takes when nothing has to be read, ms. */
  walkMs: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
});

/** TREE_FETCH: parts of one file, by leaves of this size. */
export interface Fetch {
  path: string;
  /** Of the file when it was listed: nothing beyond is sent. */
  size: number;
  leaf: number;
  ranges: { first: number; count: number }[];
}

/** Ranges in one request, and their leaves. */
export const MOST_RANGES = 4096;

export function encodeFetch({ path, size, leaf, ranges }: Fetch): Buffer {
  const out = new BytesWriter();
  out.text(path);
  out.number(size);
  out.number(leaf);
  out.number(ranges.length);
  for (const { first, count } of ranges) {
    out.number(first);
    out.number(count);
  }
  return Buffer.from(out.taken());
}

/** Throws Corrupt. */
export function decodeFetch(bytes: Buffer): Fetch {
  const from = new BytesReader(bytes);
  const path = checkedPath(from.text(2 ** 20));
  const size = from.number();
  const leaf = from.number();
  const count = from.number();
  if (leaf < 4096 || leaf > LARGEST_LEAF || count > MOST_RANGES)
    throw new FlockError('Corrupt', `${count} ranges of leaves of ${leaf} bytes were asked for`);
  const ranges: Fetch['ranges'] = [];
  for (let index = 0; index < count; index += 1) ranges.push({ first: from.number(), count: from.number() });
  return { path, size, leaf, ranges };
}

export const hexOf = (path: string): string => Buffer.from(path, 'latin1').toString('hex');
export const pathOf = (hex: string): string => checkedPath(Buffer.from(hex, 'hex').toString('latin1'));
