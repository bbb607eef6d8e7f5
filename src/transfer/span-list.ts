// A list of ranges on the wire and in a plan: sorted, varint delta coded in blocks of 4096 bytes. Pure.
import { FlockError } from '../model/errors.ts';
import { BLOCK, endOf, type Span } from './spans.ts';
import { VarintReader, VarintWriter } from './varint.ts';

export function encodeSpans(spans: readonly Span[]): Buffer {
  const out = new VarintWriter();
  let at = 0;
  for (const span of spans) {
    out.put(span.offset / BLOCK - at);
    out.put(Math.ceil(span.length / BLOCK) * 2 + (span.zero ? 1 : 0));
    at = Math.ceil(endOf(span) / BLOCK);
  }
  return out.bytes();
}

/** Throws Corrupt for ranges that are empty or not within the volume; overlaps cannot be said. */
export function decodeSpans(encoded: Buffer, deviceBytes: number): Span[] {
  const reader = new VarintReader(encoded);
  const spans: Span[] = [];
  let at = 0;
  while (!reader.done) {
    const offset = at + reader.take() * BLOCK;
    const coded = reader.take();
    const length = Math.floor(coded / 2) * BLOCK;
    if (length === 0 || !(offset < deviceBytes) || !(offset + length < deviceBytes + BLOCK))
      throw new FlockError('Corrupt', `a list of ranges has ${length} bytes at ${offset} of a volume of ${deviceBytes} bytes`);
    spans.push({ offset, length: Math.min(length, deviceBytes - offset), zero: coded % 2 === 1 });
    at = offset + length;
  }
  return spans;
}
