// What may be said to mkfs for a volume, by allow-list: how many inodes, how much is kept back, how large nodes are. Nothing that another kernel could
// not mount, for volumes move, and nothing that names files or devices. No I/O.
import { Invalid } from './errors.ts';
import { printable } from './names.ts';
import type { Filesystem } from './volume.ts';

const ALLOWED: { [F in Filesystem]: { [option: string]: RegExp } } = {
  ext4: { '-N': /^[1-9][0-9]{0,9}$/u, '-i': /^[1-9][0-9]{3,7}$/u, '-m': /^[0-9](\.[0-9]{1,2})?$/u },
  xfs: { '-i': /^(maxpct=[0-9]{1,2}|size=(512|1024|2048))$/u },
  btrfs: { '-n': /^(16384|32768|65536)$/u, '-m': /^(single|dup)$/u },
};

/** Words for mkfs. Throws Invalid, naming what is not possible and what is. */
export function formatWords(filesystem: Filesystem, text: string): string[] {
  const words = text.split(/\s+/u).filter((word) => word !== '');
  const allowed = ALLOWED[filesystem];
  for (let at = 0; at < words.length; at += 2) {
    const [option = '', value = ''] = words.slice(at, at + 2);
    if (!Object.hasOwn(allowed, option) || !allowed[option]?.test(value))
      throw new Invalid(
        `formatOptions: ${printable(`${option} ${value}`.trim())} is not possible for ${filesystem}; ${Object.keys(allowed).join(', ')} are, with a value each`,
      );
  }
  return words;
}
