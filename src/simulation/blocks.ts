// Bytes on the disks of the simulation: blocks that are texts, so that whoever reads one knows who wrote it, and when.
import type { MemoryDisk } from '../pools/memory.ts';

export type MemoryCopy = MemoryDisk['copies'] extends Map<string, infer C> ? C : never;

export const BLOCK = 4096;

const padded = (text: string): Buffer => Buffer.concat([Buffer.from(text), Buffer.alloc(BLOCK)]).subarray(0, BLOCK);

/** A block as text; '' where nothing was written. */
export const textAt = (live: MemoryCopy['live'], block: bigint): string => {
  const bytes = live.get(block);
  if (!bytes) return '';
  const end = bytes.indexOf(0);
  return bytes.toString('utf8', 0, end < 0 ? bytes.length : end);
};
export const writeText = (live: MemoryCopy['live'], block: bigint, text: string): void => void live.set(block, padded(text));

/** Which of all writes a block's text is, in their order; -1: it is none. */
export const writtenAt = (text: string): number => Number(/ write (\d+)$/u.exec(text)?.[1] ?? -1);
