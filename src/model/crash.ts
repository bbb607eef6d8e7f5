// Named places between two writes. The real processes pass them by, or are killed there by tests; the simulation stops a node there.

/** Called at each named point; may throw or never return. */
export type CrashPoint = (name: string) => void;

export const noCrash: CrashPoint = () => {};

/** Kills this process with SIGKILL at the nth passing of a point: `NAME` or `NAME:n`. */
export function killAt(specification: string | undefined, kill: () => void = () => process.kill(process.pid, 'SIGKILL')): CrashPoint {
  if (!specification) return noCrash;
  // Names have colons of their own: only a number behind the last one is a count.
  const [, wanted = '', count = '1'] = /^(.*?)(?::([0-9]+))?$/u.exec(specification) ?? [];
  let left = Number(count);
  return (name) => {
    if (name === wanted && --left === 0) kill();
  };
}
