// Files of every kind in a directory that moves: planted once, and at every place where the volume is served next compared by a walker that
// the moves have not, and changed, so that there is something for the next one. Knows no volumes.
import {
  appendFileSync,
  chmodSync,
  chownSync,
  closeSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { FORMATS, makeNodeAt } from '../../src/host/tree-calls.ts';
import type { Chance } from '../../src/simulation/chance.ts';
import { toldTree } from '../../src/testing/trees.ts';

const FILES = 24;
/** Of the largest file, several leaves. */
const LARGE = 700_000;

export class Planted {
  readonly #chance: Chance;
  #told: ReturnType<typeof toldTree> | null = null;
  #changes = 0;

  constructor(chance: Chance) {
    this.#chance = chance;
  }

  /** Throws when anything is not as it was left. */
  visit(root: string): void {
    if (this.#told === null) this.#plant(root);
    else this.#compare(toldTree(root), this.#told);
    this.#change(root);
    this.#told = toldTree(root);
  }

  #bytes(length: number): Buffer {
    return Buffer.from(Array.from({ length }, () => this.#chance.below(256)));
  }

  #plant(root: string): void {
    const at = (name: string): string => join(root, name);
    mkdirSync(at('deep/er'), { recursive: true });
    for (let index = 0; index < FILES; index += 1) writeFileSync(at(`deep/file-${index}`), this.#bytes(this.#chance.below(9_000)));
    writeFileSync(at('deep/er/large'), this.#bytes(LARGE));
    writeFileSync(Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0xff, 0x0a])]), 'odd');
    writeFileSync(at('sparse'), 'begin');
    truncateSync(at('sparse'), 5 << 20);
    linkSync(at('deep/er/large'), at('second name'));
    symlinkSync('/etc/passwd', at('deep/link'));
    const deep = openSync(at('deep'), 'r');
    makeNodeAt(deep, 'fifo', { format: FORMATS.fifo, rdev: { major: 0, minor: 0 } });
    closeSync(deep);
    chownSync(at('deep/file-1'), 999, 998);
    chmodSync(at('deep/file-1'), 0o4750);
  }

  #compare(found: ReturnType<typeof toldTree>, told: ReturnType<typeof toldTree>): void {
    const paths = new Set([...Object.keys(found), ...Object.keys(told)]);
    const wrong = [...paths].filter((path) => !isDeepStrictEqual(found[path], told[path]));
    if (wrong.length > 0)
      throw new Error(wrong.map((path) => `"${path}" is ${JSON.stringify(found[path])} and was ${JSON.stringify(told[path])}`).join('; '));
  }

  #change(root: string): void {
    this.#changes += 1;
    const any = join(root, 'deep', `file-${this.#chance.below(FILES)}`);
    rmSync(any, { force: true });
    writeFileSync(any, this.#bytes(this.#chance.below(90_000)));
    appendFileSync(join(root, 'second name'), 'more');
    writeFileSync(join(root, 'sparse'), `change ${this.#changes}`, { flag: 'r+' });
    mkdirSync(join(root, `new-${this.#changes}`));
    if (this.#changes > 1) renameSync(join(root, `new-${this.#changes - 1}`), join(root, `new-${this.#changes}`, 'within'));
  }
}
