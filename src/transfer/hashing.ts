// The hash that proves bytes: BLAKE3, behind one small interface so that another may take its place. Knows neither wire nor disk.
import { blake3 } from '@napi-rs/blake-hash';

/** Length of a hash, bytes. */
export const HASH = 32;

export interface Hashing {
  readonly name: string;
  digest(bytes: Buffer): Buffer;
}

/** The hash of every transfer. */
export const hashing: Hashing = { name: 'blake3', digest: (bytes) => blake3(bytes) };
