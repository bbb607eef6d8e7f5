// Chance that a seed alone decides: the same seed gives the same numbers on every machine. Knows nothing of what is decided with them.

export class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
    // Neighbouring seeds begin far apart.
    for (let turns = 0; turns < 4; turns += 1) this.next();
  }

  /** From 0, below 1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from 0, below `count`. */
  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  between(least: number, most: number): number {
    return least + this.next() * (most - least);
  }

  happens(likelihood: number): boolean {
    return this.next() < likelihood;
  }

  /** Mostly small, now and then large: times between things that do not know of each other. */
  around(mean: number): number {
    return -mean * Math.log(1 - this.next());
  }

  /** One of them; null of none. */
  pick<T>(list: readonly T[]): T | null {
    return list.length === 0 ? null : (list[this.below(list.length)] as T);
  }

  /** Another stream, so that what draws from one does not shift the other. */
  fork(): Chance {
    return new Chance(Math.floor(this.next() * 2 ** 32));
  }
}
