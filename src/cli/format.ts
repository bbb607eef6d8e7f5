// Texts for people: ages, rates, times left, colours. Pure.
import type { Screen } from './context.ts';
import { humanBytes } from '../model/quantity.ts';

const UNITS: readonly (readonly [string, number])[] = [
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
  ['s', 1],
];

/** The two largest units that are not zero: `3m12s`, `5d`, `0s`. */
export function humanSeconds(seconds: number): string {
  let left = Math.max(0, Math.round(seconds));
  const parts: string[] = [];
  for (const [unit, length] of UNITS) {
    const count = Math.floor(left / length);
    left -= count * length;
    if (count > 0) parts.push(`${count}${unit}`);
    else if (parts.length > 0) break;
  }
  return parts.slice(0, 2).join('') || '0s';
}

/** How long ago a timestamp was; `-` without one. */
export const ageOf = (at: string | undefined, now: number): string =>
  at === undefined ? '-' : humanSeconds((now - Date.parse(at)) / 1000);

export const humanRate = (bytesASecond: number): string => `${humanBytes(BigInt(Math.round(bytesASecond)))}/s`;

/** A count of bytes from a record, for people; `-` when nobody has said it yet. */
export const bytesOf = (text: string | undefined): string => (text === undefined ? '-' : humanBytes(BigInt(text)));

const COLOURS = { red: 31, green: 32, yellow: 33, dim: 2, bold: 1 } as const;
export type Paint = (colour: keyof typeof COLOURS, text: string) => string;

/** Colours on a terminal unless NO_COLOR is set (https://no-color.org), plain text otherwise. */
export function paintFor(screen: Screen, env: { [name: string]: string | undefined }): Paint {
  if (!screen.isTerminal || (env['NO_COLOR'] ?? '') !== '' || env['TERM'] === 'dumb') return (_, text) => text;
  return (colour, text) => `\u001B[${COLOURS[colour]}m${text}\u001B[0m`;
}

/** Text from a record, safe for a terminal: control characters cannot move its cursor or change its title. */
// eslint-disable-next-line no-control-regex -- they are what this is about
export const harmless = (text: string): string => text.replaceAll(/[\u0000-\u001F\u007F-\u009F]/gu, ' ');
