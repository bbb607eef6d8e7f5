// The answers of thin_delta and thin_dump, line by line: which blocks two thin volumes do not share, which blocks one has. No I/O.
import { FlockError } from '../model/errors.ts';

/** Bytes; `gone`: mapped before and not any more, so it reads as zeros. */
export interface MappedRange {
  offset: bigint;
  length: bigint;
  kind: 'data' | 'gone';
}

const SECTOR = 512n;
const WORD = /([a-z_]+)="([^"]*)"/gu;

const KINDS: { [tag: string]: MappedRange['kind'] } = {
  different: 'data',
  right_only: 'data',
  left_only: 'gone',
  single_mapping: 'data',
  range_mapping: 'data',
};

/** Sorted as the tools write them; neighbours of one kind are one range. Throws Internal when the text has no size of blocks. */
export function* mappedRanges(lines: Iterable<string>): Iterable<MappedRange> {
  let last: MappedRange | null = null;
  for (const next of rangesIn(lines)) {
    if (last?.kind === next.kind && last.offset + last.length === next.offset) last.length += next.length;
    else {
      if (last) yield last;
      last = next;
    }
  }
  if (last) yield last;
}

function* rangesIn(lines: Iterable<string>): Iterable<MappedRange> {
  let block = 0n;
  for (const line of lines) {
    const tag = /^\s*<([a-z_]+)/u.exec(line)?.[1] ?? '';
    const words = new Map([...line.matchAll(WORD)].map(([, key = '', value = '']) => [key, value]));
    if (tag === 'superblock') block = BigInt(words.get('data_block_size') ?? '0') * SECTOR;
    const kind = KINDS[tag];
    if (kind === undefined) continue;
    if (block === 0n) throw new FlockError('Internal', 'the map of a thin volume does not say how large its blocks are');
    yield rangeOf(words, kind, block);
  }
}

function rangeOf(words: ReadonlyMap<string, string>, kind: MappedRange['kind'], block: bigint): MappedRange {
  const begin = words.get('begin') ?? words.get('origin_begin') ?? words.get('origin_block') ?? '0';
  return { offset: BigInt(begin) * block, length: BigInt(words.get('length') ?? '1') * block, kind };
}
