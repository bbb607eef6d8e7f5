// Callers of one process take turns at a thing that has a name: a volume, a path, a copy's file. Locks between processes are files, in
// files.ts. Knows none of the things.

/** Runs `work` after everything that was asked before it for the same name, whether that succeeded or not. */
export type Turns = <T>(name: string, work: () => Promise<T>) => Promise<T>;

export function turns(): Turns {
  const last = new Map<string, Promise<unknown>>();
  return async (name, work) => {
    const before = last.get(name) ?? Promise.resolve();
    const mine = before.then(work, work);
    // The next in line must not see this one's error.
    const settled = mine.catch(() => undefined);
    last.set(name, settled);
    try {
      return await mine;
    } finally {
      if (last.get(name) === settled) last.delete(name);
    }
  };
}
