// What people type, judged before anything is sent: each wrong text gives one error that says how to write it.
import { Option } from 'commander';
import type { Kind } from '../model/kind.ts';
import { Invalid } from '../model/errors.ts';
import { Moves } from '../model/move.ts';
import { durationMs, nodeName, objectName, poolName, printable } from '../model/names.ts';
import { parseQuantity, parseSize } from '../model/quantity.ts';
import { Snapshots } from '../model/snapshot.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { Volumes } from '../model/volume.ts';

/** A name as it is, or with its kind before it as `-o name` writes it: `volume.flock.dev/db`, `vol/db`. */
const named =
  (judge: (text: string) => string, ...kinds: Pick<Kind, 'group' | 'singular' | 'plural' | 'shortNames'>[]) =>
  (text: string): string => {
    const [, before, name = ''] = /^([a-z.]+)\/([^/]+)$/u.exec(text) ?? [];
    const words = kinds.flatMap(({ group, singular, plural, shortNames }) =>
      [singular, plural, ...shortNames].flatMap((word) => [word, `${word}.${group}`]),
    );
    return judge(before !== undefined && words.includes(before) ? name : text);
  };

export const volumeArgument = named(objectName, Volumes);
export const snapshotArgument = named(objectName, Snapshots);
/** Of a move, or of its volume. */
export const moveArgument = named(objectName, Moves, Volumes);
export const nodeArgument = named(nodeName, StorageNodes);
/** Of something that is to be made. */
export const newNameArgument = (text: string): string => objectName(text);
export const poolArgument = (text: string): string => poolName(text);

/** A size as it was written. */
export function sizeArgument(text: string): string {
  parseSize(text);
  return text;
}

/** Bytes a second as they were written; 0 is no limit. */
export function rateArgument(text: string): string {
  parseQuantity(text);
  return text;
}

export function durationArgument(text: string): string {
  durationMs(text);
  return text;
}

/** A whole number from 1 to `most`. */
export const countArgument =
  (most: number) =>
  (text: string): number => {
    const count = /^[0-9]{1,4}$/u.test(text) ? Number(text) : 0;
    if (count < 1 || count > most) throw new Invalid(`${printable(text)} is not a number from 1 to ${most}`);
    return count;
  };

/** `HOST:PORT`; port 0 lets the system choose. */
export function listenArgument(text: string): { host: string; port: number } {
  const match = /^(\[[0-9a-f:.]+\]|[A-Za-z0-9.-]+):([0-9]{1,5})$/u.exec(text);
  const port = Number(match?.[2] ?? Number.NaN);
  if (!match || !(port <= 65_535)) throw new Invalid(`address ${printable(text)} is not valid: write it like 127.0.0.1:9806 or [::1]:9806`);
  return { host: (match[1] ?? '').replaceAll(/[[\]]/gu, ''), port };
}

/** An address to listen at, said in the help as a person writes it. */
export const listenOption = (flags: string, what: string, [host, port]: [host: string, port: number]): Option =>
  new Option(flags, what).argParser(listenArgument).default({ host, port }, `${host}:${port}`);

export const FORMATS = ['table', 'json', 'yaml', 'name'] as const;
export type Format = (typeof FORMATS)[number];

export const outputOption = (): Option => new Option('-o, --output <format>', 'how to show it').choices(FORMATS).default('table');
export const watchOption = (): Option => new Option('-w, --watch', 'go on showing changes until Ctrl-C');
