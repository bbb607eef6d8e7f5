// Names and ids: the patterns by which every text from outside is judged before it reaches a path, a command or a record.
import { Invalid } from './errors.ts';

/** Names of objects and nodes: DNS-1123 subdomain, at most 253 characters. */
export const NAME_PATTERN = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$';
/** Pools: also a label's value and part of a topology key, at most 63 characters. */
export const POOL_NAME_PATTERN = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$';
/** Copies and points: ours alone, so that nothing a user typed is ever in a path. */
export const ID_PATTERN = '^[a-z0-9]{1,32}$';
export const UID_PATTERN = '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$';
/** The first 12 digits of a UID: an id, or the beginning of one. */
export const shortUid = (uid: string): string => uid.replaceAll('-', '').slice(0, 12);
/** As Go writes durations: 250ms, 2s, 1h30m. */
export const DURATION_PATTERN = '^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$';

const check = (what: string, pattern: string, longest: number, rule: string) => {
  const expression = new RegExp(pattern, 'u');
  return (text: string): string => {
    if (text.length > longest || !expression.test(text)) throw new Invalid(`${what} ${printable(text)} is not valid: ${rule}`);
    return text;
  };
};

/** A text of unknown origin, made safe to show: quoted, escaped, cut. */
export const printable = (text: string): string =>
  text.length > 60 ? `${JSON.stringify(text.slice(0, 60))}… (${text.length} characters)` : JSON.stringify(text);

const dns = 'use lower-case letters, digits, "-" and ".", at most';
export const objectName = check('name', NAME_PATTERN, 253, `${dns} 253 characters, and begin and end with a letter or digit`);
export const nodeName = check('node name', NAME_PATTERN, 253, `${dns} 253 characters, and begin and end with a letter or digit`);
export const poolName = check(
  'pool name',
  POOL_NAME_PATTERN,
  63,
  'use lower-case letters, digits and "-", at most 63 characters, and begin and end with a letter or digit',
);

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const;

/** Milliseconds of a duration like `2s` or `1h30m`. Throws Invalid. */
export function durationMs(text: string): number {
  if (!new RegExp(DURATION_PATTERN, 'u').test(text))
    throw new Invalid(`duration ${printable(text)} is not valid: write it like 250ms, 2s, 5m or 24h`);
  let total = 0;
  for (const [, number, unit] of text.matchAll(/([0-9.]+)(ms|s|m|h)/gu)) total += Number(number) * UNITS[unit as keyof typeof UNITS];
  return total;
}
