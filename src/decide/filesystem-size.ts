// How small a volume may be: what its filesystem needs. One table for whoever orders volumes and whoever makes them. Pure.
import { Invalid } from '../model/errors.ts';
import { humanBytes } from '../model/quantity.ts';
import type { Filesystem } from '../model/volume.ts';
import type { Why } from './observed.ts';

/** Below these, in bytes, mkfs refuses, or makes something crippled. */
export const SMALLEST: { readonly [F in Filesystem]: bigint } = { ext4: 8n << 20n, xfs: 300n << 20n, btrfs: 128n << 20n };

/** Why a volume of that many bytes cannot have that filesystem (null: none), or null when it can. */
export function whyTooSmall(filesystem: Filesystem | null, size: bigint): Why | null {
  const least = filesystem === null ? 0n : SMALLEST[filesystem];
  if (size >= least) return null;
  return { reason: 'TooSmall', message: `${humanBytes(size)} are too small for ${filesystem}: it needs at least ${inMebibytes(least)}` };
}

/** As it may be typed. */
const inMebibytes = (bytes: bigint): string => `${bytes >> 20n}Mi`;

/** Throws Invalid for a volume too small for its filesystem. */
export function checkFilesystemSize(filesystem: Filesystem | null, size: bigint): void {
  const why = whyTooSmall(filesystem, size);
  if (why) throw new Invalid(why.message);
}
