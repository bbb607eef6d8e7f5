// An application that writes all the while, outside of every process that is killed: what it was told is on the disk is kept here, and is
// compared byte by byte where the volume is served next. Knows nothing of moves.
import { createHash } from 'node:crypto';
import { open, readFile, type FileHandle } from 'node:fs/promises';
import type { Chance } from '../../src/simulation/chance.ts';

const BLOCK = 4096;
/** Bytes that it works on. */
const AREA = 4 << 20;
/** Between two writes, ms. */
const BREATH = 3;

const hash = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex').slice(0, 16);

/** What blocks held while something was taken of the volume: what is in it is one of these, in every block. */
export interface Span {
  before: Buffer;
  /** Written since, by number of the block. */
  since: Map<number, Buffer[]>;
}

export class Application {
  readonly #expected = Buffer.alloc(AREA);
  readonly #chance: Chance;
  #file: FileHandle | null = null;
  #running: Promise<void> | null = null;
  #stopped = false;
  #written = 0;
  #span: Span | null = null;
  #underway: { block: Buffer; index: number } | null = null;

  constructor(chance: Chance) {
    this.#chance = chance;
  }

  /** Reads everything, and then writes until it is stopped. Throws when a byte is not as it was acknowledged. */
  async start(path: string): Promise<void> {
    const file = await open(path, 'r+').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' && this.#written === 0) return open(path, 'w+');
      throw error;
    });
    this.#file = file;
    if (this.#written === 0) await this.#fill(file);
    else await this.#compare(file);
    this.#stopped = false;
    this.#running = this.#write(file);
    this.#running.catch(() => undefined);
  }

  async #fill(file: FileHandle): Promise<void> {
    for (let at = 0; at < AREA; at += 4) this.#expected.writeUInt32LE(Math.floor(this.#chance.next() * 2 ** 32), at);
    await file.write(this.#expected, 0, AREA, 0);
    await file.sync();
    this.#written = 1;
  }

  async #compare(file: FileHandle): Promise<void> {
    const found = Buffer.alloc(AREA);
    const { bytesRead } = await file.read(found, 0, AREA, 0);
    if (bytesRead === AREA && found.equals(this.#expected)) return;
    const block = Array.from({ length: AREA / BLOCK }, (_, index) => index).find(
      (index) => !found.subarray(index * BLOCK, (index + 1) * BLOCK).equals(this.#expected.subarray(index * BLOCK, (index + 1) * BLOCK)),
    );
    throw new Error(`what was acknowledged is not there: ${hash(found)} instead of ${hash(this.#expected)}, first in block ${block}`);
  }

  async #write(file: FileHandle): Promise<void> {
    while (!this.#stopped) {
      this.#written += 1;
      const block = Buffer.alloc(BLOCK, `write ${this.#written} `);
      const index = this.#chance.below(AREA / BLOCK);
      this.#underway = { block, index };
      this.#keep(block, index);
      await file.write(block, 0, BLOCK, index * BLOCK);
      await file.datasync();
      block.copy(this.#expected, index * BLOCK);
      this.#underway = null;
      await new Promise((resolve) => setTimeout(resolve, BREATH));
    }
  }

  #keep(block: Buffer, index: number): void {
    const { since } = this.#span ?? {};
    since?.set(index, [...(since.get(index) ?? []), block]);
  }

  /** What is acknowledged now, and all that may come until the span is over. */
  begin(): Span {
    this.#span = { before: Buffer.from(this.#expected), since: new Map() };
    if (this.#underway) this.#keep(this.#underway.block, this.#underway.index);
    return this.#span;
  }

  end(): void {
    this.#span = null;
  }

  /** Nothing is open when it returns. Throws when a write failed. */
  async stop(): Promise<void> {
    this.#stopped = true;
    try {
      await this.#running;
    } finally {
      await this.#file?.close();
      this.#file = null;
      this.#running = null;
    }
  }
}

/** Throws when a block of the file is none that was there during the span: what was acknowledged before it is in what was taken. */
export async function checkTaken(path: string, { before, since }: Span): Promise<void> {
  const found = await readFile(path);
  for (let index = 0; index * BLOCK < AREA; index += 1) {
    const range = [index * BLOCK, (index + 1) * BLOCK] as const;
    const block = found.subarray(...range);
    if (![before.subarray(...range), ...(since.get(index) ?? [])].some((one) => one.equals(block)))
      throw new Error(`block ${index} of ${path} is none that was there when it was taken`);
  }
}
