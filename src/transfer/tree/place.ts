// The tree that is being filled, by descriptors from its root: opens the directory of a path, name by name and without following a link, and
// remembers where it is, for entries come in the order of a walk.
import { closeSync } from 'node:fs';
import { openDirectoryAt } from '../../host/tree-calls.ts';
import { namesOf, parentOf } from './paths.ts';

export class Place {
  readonly #root: number;
  /** Opened directories from the root's child down to where it is. */
  readonly #levels: { name: string; fd: number }[] = [];

  constructor(root: number) {
    this.#root = root;
  }

  /** The directory that holds the path; the root holds itself. Valid until the next call. */
  parentOf(path: string): number {
    return this.directory(parentOf(path));
  }

  directory(path: string): number {
    const names = namesOf(path);
    let same = 0;
    while (same < names.length && this.#levels[same]?.name === names[same]) same += 1;
    this.#leave(same);
    for (const name of names.slice(same)) this.#levels.push({ name, fd: openDirectoryAt(this.#here, name) });
    return this.#here;
  }

  /** What lies below the path may have become another: it is opened anew. */
  forget(path: string): void {
    this.#leave(Math.max(0, namesOf(path).length - 1));
  }

  close(): void {
    this.#leave(0);
  }

  get #here(): number {
    return this.#levels.at(-1)?.fd ?? this.#root;
  }

  #leave(depth: number): void {
    while (this.#levels.length > depth) closeSync(this.#levels.pop()?.fd ?? -1);
  }
}
