// Where an application commits, and what is found there afterwards: the shape that a database and a raw file share.

export interface Committing {
  /** Number of the next commit, by what is there. */
  next: number;
  /** On the disk when it returns. */
  commit(number: number, payload: Uint8Array): void;
  close(): void;
}

export interface Held {
  /** Number of each commit to the checksum of what is there now. */
  commits: Map<number, string>;
  /** What else can be asked about the whole, and the answer. */
  wholeness: { text: string; holds: boolean };
}
