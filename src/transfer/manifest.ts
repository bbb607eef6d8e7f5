// The manifest of a round: what it reads, from which point, since which base, and the extents to copy, varint delta coded in blocks of
// 4096 bytes. Sent by the source, checked and kept by the target. Knows no disk and no wire.
import { FlockError } from '../model/errors.ts';
import { hashing } from './hashing.ts';
import { LEAF } from './leaves.ts';
import { ManifestHead, parse } from './messages.ts';
import { decodeSpans, encodeSpans } from './span-list.ts';
import { coalesce, type Span } from './spans.ts';

/** Bytes of an encoded manifest; also what the target takes at most. */
export const MANIFEST_LIMIT = 32 * 1024 * 1024;
const HEAD_LIMIT = 16 * 1024;

export interface Manifest {
  head: ManifestHead;
  /** Sorted, without overlaps, on 4096 bytes but for the volume's end. */
  spans: Span[];
}

/** Coalesced further where the list would be too long: never one request an extent. */
export function encodeManifest(manifest: Manifest, limit = MANIFEST_LIMIT): Buffer {
  const head = Buffer.from(JSON.stringify(manifest.head));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(head.length);
  let spans = manifest.spans;
  for (let gap = LEAF; ; gap *= 2) {
    const encoded = Buffer.concat([length, head, encodeSpans(spans)]);
    if (encoded.length <= limit) return encoded;
    if (gap > manifest.head.deviceBytes * 2) throw new FlockError('Unsupported', `the list of changes is above ${limit} bytes`);
    spans = coalesce(
      spans.map((span) => ({ ...span, zero: false })),
      gap,
    );
  }
}

/** Throws Corrupt for all that is not a manifest: too long, out of order, beyond the volume. */
export function decodeManifest(encoded: Buffer): Manifest {
  if (encoded.length < 4 || encoded.length > MANIFEST_LIMIT) throw new FlockError('Corrupt', `a manifest of ${encoded.length} bytes`);
  const length = encoded.readUInt32BE(0);
  if (length > HEAD_LIMIT || 4 + length > encoded.length) throw new FlockError('Corrupt', `a manifest whose head has ${length} bytes`);
  const head = parse(ManifestHead, encoded.subarray(4, 4 + length), "the manifest's head");
  if (head.leafBytes !== LEAF || head.hash !== hashing.name)
    throw new FlockError('Unsupported', `the source hashes leaves of ${head.leafBytes} bytes by ${head.hash}; upgrade the older node`);
  return { head, spans: decodeSpans(encoded.subarray(4 + length), head.deviceBytes) };
}

export const manifestHash = (encoded: Buffer): string => hashing.digest(encoded).toString('hex');
