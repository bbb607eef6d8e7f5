// Callers of one process take turns at a thing that has a name. Locks between processes are files, in src/host/files.ts.

const last = new Map<string, Promise<unknown>>();

/** Runs `work` after everything that was asked before it for the same name, whether that succeeded or not. */
export async function inTurn<T>(name: string, work: () => Promise<T>): Promise<T> {
  const before = last.get(name) ?? Promise.resolve();
  const mine = before.then(work, work);
  const settled = mine.catch(() => {});
  last.set(name, settled);
  try {
    return await mine;
  } finally {
    if (last.get(name) === settled) last.delete(name);
  }
}
