// A part of something, as configurations say it. No I/O.
import { parseQuantity } from '../model/quantity.ts';

/** Bytes of a quantity, or of a percentage of `size`. */
export function reserved(reserve: string, size: bigint): bigint {
  const percent = /^([0-9]{1,2}(?:\.[0-9]{1,3})?)%$/u.exec(reserve)?.[1];
  return percent === undefined ? parseQuantity(reserve) : (size * BigInt(Math.round(Number(percent) * 1000))) / 100_000n;
}
