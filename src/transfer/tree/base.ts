// What is known of a tree from earlier: the manifest that was being written when a crash came, as far as it goes, and from there on the
// last whole one. Asked in the order of paths.
import { ManifestReader, partOf } from './manifest-file.ts';
import type { KnownEntry } from './entry.ts';

export class Base {
  readonly #whole: ManifestReader;
  #part: ManifestReader | null;

  private constructor(whole: ManifestReader, part: ManifestReader) {
    this.#whole = whole;
    this.#part = part;
  }

  static async open(path: string): Promise<Base> {
    return new Base(await ManifestReader.open(path), await ManifestReader.open(partOf(path)));
  }

  /** What was known of this path; null: nothing. */
  async at(path: string): Promise<KnownEntry | null> {
    if (this.#part) {
      await forward(this.#part, path);
      if (this.#part.entry) return this.#part.entry.path === path ? this.#part.entry : null;
      await this.#part.close();
      this.#part = null;
    }
    await forward(this.#whole, path);
    return this.#whole.entry?.path === path ? this.#whole.entry : null;
  }

  async close(): Promise<void> {
    await this.#whole.close();
    await this.#part?.close();
  }
}

async function forward(reader: ManifestReader, path: string): Promise<void> {
  while (reader.entry && reader.entry.path < path) if (!reader.step()) await reader.advance();
}
