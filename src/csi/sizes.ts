// Sizes of calls: one window in, one size out, rounded up once. Counts are bytes and bigint.
import { LARGEST, roundUp } from '../model/quantity.ts';
import { status } from '@grpc/grpc-js';
import { invalid, Refused } from './errors.ts';
import type { CapacityRange } from './generated/csi.ts';

export interface SizeWindow {
  /** 0n: not said. */
  required: bigint;
  /** null: none. */
  limit: bigint | null;
}

/** Of what a volume lies in. */
export interface Granularity {
  unit: bigint;
  /** What the filesystem needs at least. */
  least: bigint;
}

/** For callers that do not say. */
const USUAL = 1n << 30n;

export function windowOf(range: CapacityRange | undefined): SizeWindow {
  const { requiredBytes: required, limitBytes } = range ?? { requiredBytes: 0n, limitBytes: 0n };
  if (required < 0n || limitBytes < 0n) throw invalid('capacity_range has a negative size');
  if (limitBytes > 0n && limitBytes < required)
    throw new Refused(status.OUT_OF_RANGE, `limit_bytes ${limitBytes} is below required_bytes ${required}`);
  return { required, limit: limitBytes === 0n ? null : limitBytes };
}

/** Throws OUT_OF_RANGE when no size that is possible lies in the window. */
export function sizeFor(window: SizeWindow, { unit, least }: Granularity): bigint {
  const { limit } = window;
  const wanted = window.required > 0n ? window.required : limit !== null && limit < USUAL ? (limit / unit) * unit : USUAL;
  const size = roundUp(wanted > least ? wanted : least, unit);
  if (limit !== null && size > limit)
    throw new Refused(
      status.OUT_OF_RANGE,
      `no possible size lies between ${window.required} and ${limit} bytes: sizes are multiples of ${unit}, and at least ${least}`,
    );
  if (size >= LARGEST) throw new Refused(status.OUT_OF_RANGE, `${window.required} bytes are more than a volume can have`);
  return size;
}

export const isWithin = (size: bigint, { required, limit }: SizeWindow): boolean => size >= required && (limit === null || size <= limit);
