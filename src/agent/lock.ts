// One at a time for each key: a volume's reconciliation and its publishing exclude each other. In-process only.

export type Lock = <T>(key: string, work: () => Promise<T>) => Promise<T>;

export function keyedLock(): Lock {
  const tails = new Map<string, Promise<unknown>>();
  return async (key, work) => {
    const before = tails.get(key) ?? Promise.resolve();
    const mine = before.then(work, work);
    // The next in line must not see this one's error.
    const tail = mine.catch(() => undefined);
    tails.set(key, tail);
    try {
      return await mine;
    } finally {
      if (tails.get(key) === tail) tails.delete(key);
    }
  };
}
