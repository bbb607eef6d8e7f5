// Kubernetes' quantities as whole bytes. Sizes are bigint everywhere: beyond 2^53 a number loses its last bits.
import { Invalid } from './errors.ts';
import { printable } from './names.ts';

export const QUANTITY_PATTERN = '^[0-9]+(\\.[0-9]+)?([kMGTPE]|[KMGTPE]i|[eE][0-9]{1,2})?$';

/** The largest size: what a signed 64-bit count of bytes can say. */
export const LARGEST = 2n ** 63n - 1n;

const SUFFIX: { [suffix: string]: bigint } = {
  '': 1n,
  k: 10n ** 3n,
  M: 10n ** 6n,
  G: 10n ** 9n,
  T: 10n ** 12n,
  P: 10n ** 15n,
  E: 10n ** 18n,
  Ki: 2n ** 10n,
  Mi: 2n ** 20n,
  Gi: 2n ** 30n,
  Ti: 2n ** 40n,
  Pi: 2n ** 50n,
  Ei: 2n ** 60n,
};

/** Bytes of a quantity such as `1.5Gi`, `1e9` or `512`; a fraction of a byte is rounded up. Throws Invalid, also for `100m` and what is above 2^63 - 1. */
export function parseQuantity(text: string): bigint {
  const match = /^([0-9]{1,40})(?:\.([0-9]{1,40}))?(?:([kMGTPE]|[KMGTPE]i)|[eE]([0-9]{1,2}))?$/u.exec(text);
  if (!match) throw new Invalid(`size ${printable(text)} is not valid: write bytes or a number with a suffix, such as 512Mi, 10Gi or 1e9`);
  const [, whole = '0', fraction = '', suffix = '', exponent = '0'] = match;
  const unit = (SUFFIX[suffix] ?? 1n) * 10n ** BigInt(exponent);
  const scaled = BigInt(whole + fraction) * unit;
  const divisor = 10n ** BigInt(fraction.length);
  const bytes = (scaled + divisor - 1n) / divisor;
  if (bytes > LARGEST) throw new Invalid(`size ${printable(text)} is above the largest possible, ${LARGEST} bytes (8Ei - 1)`);
  return bytes;
}

/** Like parseQuantity, but a size of 0 is an error too. */
export function parseSize(text: string): bigint {
  const bytes = parseQuantity(text);
  if (bytes === 0n) throw new Invalid(`size ${printable(text)} is not valid: it must be more than 0`);
  return bytes;
}

/** For people: three digits and a binary unit, `1.46 GiB`. */
export function humanBytes(bytes: bigint): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let value = Number(bytes);
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toPrecision(3)} ${units[unit]}`;
}

/** `1 volume`, `2 volumes`. */
export const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`;

export const roundUp = (value: bigint, unit: bigint): bigint => ((value + unit - 1n) / unit) * unit;

/** As people write that many bytes, exactly: `2Gi`, or the plain number. */
export function quantityOf(bytes: bigint): string {
  const found = (['Gi', 'Mi'] as const).find((suffix) => bytes > 0n && bytes % UNITS_WRITTEN[suffix] === 0n);
  return found === undefined ? String(bytes) : `${bytes / UNITS_WRITTEN[found]}${found}`;
}

const UNITS_WRITTEN = { Gi: 2n ** 30n, Mi: 2n ** 20n } as const;
