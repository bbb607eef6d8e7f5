// What an application was told to be committed, as it logged it outside its volume, and the judgement of what is found in the volume. Pure.
import { createHash } from 'node:crypto';
import { FlockError } from '../../model/errors.ts';

export interface Acknowledged {
  number: number;
  /** Of number and payload, see checksumOf. */
  checksum: string;
  /** When, ms since 1970. */
  at: number;
}

export const checksumOf = (number: number, payload: Uint8Array): string =>
  createHash('sha256').update(`${number}:`).update(payload).digest('hex');

export const lineOf = ({ number, checksum, at }: Acknowledged): string => `${number} ${checksum} ${at}\n`;

const LINE = /^(?<number>[1-9][0-9]*) (?<checksum>[0-9a-f]{64}) (?<at>[0-9]+)$/u;

/** A last line without an end is just being written. Throws Corrupt for what is no log. */
export function parseLog(text: string): Acknowledged[] {
  const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n');
  lines.pop();
  return lines.map((line, index) => {
    const { number, checksum, at } = LINE.exec(line)?.groups ?? {};
    if (number === undefined || checksum === undefined || at === undefined)
      throw new FlockError('Corrupt', `line ${index + 1} of the log of acknowledged commits is none: ${line.slice(0, 100)}`);
    return { number: Number(number), checksum, at: Number(at) };
  });
}

export interface Proof {
  acknowledged: number;
  found: number;
  /** Numbers that are not in the volume. */
  lost: number[];
  /** Numbers that are there with another content. */
  changed: number[];
}

/** Every line of the log against what the volume holds: number to checksum. One number twice with two contents is a loss that was covered up. */
export function prove(log: readonly Acknowledged[], held: ReadonlyMap<number, string>): Proof {
  const lost = log.filter(({ number }) => !held.has(number)).map(({ number }) => number);
  const changed = log.filter(({ number, checksum }) => held.has(number) && held.get(number) !== checksum).map(({ number }) => number);
  return { acknowledged: log.length, found: log.length - lost.length - changed.length, lost, changed };
}

export const isProven = ({ acknowledged, found }: Proof): boolean => acknowledged > 0 && found === acknowledged;

/** Between the last commit before it was stopped and the first after, ms; null as long as there is none after. */
export function pauseOf(log: readonly Acknowledged[], before: number): number | null {
  const [last, first] = [log[before - 1], log[before]];
  return last === undefined || first === undefined ? null : first.at - last.at;
}

/** The first commit after the stop continues the numbers: nothing was committed twice, at most one that nobody was told of lies between. */
export function goesOn(log: readonly Acknowledged[], before: number): boolean {
  const [last, first] = [log[before - 1], log[before]];
  return last !== undefined && first !== undefined && first.number > last.number && first.number <= last.number + 2;
}
