// The format of /proc/<pid>/mountinfo. No I/O.

export interface Mount {
  /** major:minor of the filesystem. */
  number: string;
  /** What of the filesystem is mounted: `/` or a folder of it. */
  root: string;
  target: string;
  options: string[];
  filesystem: string;
  source: string;
  superOptions: string[];
}

/** Blanks, tabs, newlines and backslashes are written as three octal digits. */
export const unescaped = (text: string): string => {
  if (!text.includes('\\')) return text;
  // By bytes, for the digits are those of bytes and names are UTF-8.
  const bytes = Buffer.from(text).toString('latin1');
  const plain = bytes.replaceAll(/\\([0-7]{3})/gu, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
  return Buffer.from(plain, 'latin1').toString('utf8');
};

function parseLine(line: string): Mount | null {
  const [left, right] = line.split(' - ', 2);
  const [, , number, root, target, options] = (left ?? '').split(' ');
  const [filesystem, source, superOptions] = (right ?? '').split(' ');
  if (!number || !root || !target || !options || !filesystem) return null;
  return {
    number,
    root: unescaped(root),
    target: unescaped(target),
    options: options.split(','),
    filesystem,
    source: unescaped(source ?? ''),
    superOptions: (superOptions ?? '').split(','),
  };
}

/** `major:minor` of a device number as stat gives it. */
export const deviceNumber = (dev: number): string =>
  `${(BigInt(dev) >> 8n) & 0xfffn}:${(BigInt(dev) & 0xffn) | ((BigInt(dev) >> 12n) & 0xfff00n)}`;

export const parseMounts = (text: string): Mount[] =>
  text
    .split('\n')
    .map(parseLine)
    .filter((mount) => mount !== null);
