// How long tasks of this machine waited, by the kernel's pressure figures (PSI). A kernel that has none, or is told not to count, says
// nothing: that is no pressure.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

export const PRESSURE_FOLDER = '/proc/pressure';

/** Time in which some task waited, since the machine was started, ms. */
export interface Waited {
  io: number;
  cpu: number;
}

/** null: the kernel does not say. */
export async function readWaited(folder = PRESSURE_FOLDER): Promise<Waited | null> {
  const [io, cpu] = await Promise.all([totalIn(join(folder, 'io')), totalIn(join(folder, 'cpu'))]);
  return io === null && cpu === null ? null : { io: io ?? 0, cpu: cpu ?? 0 };
}

/** `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`: the averages reach back further than a look at the machine takes. */
async function totalIn(file: string): Promise<number | null> {
  try {
    const said = /^some .*\btotal=(\d+)$/mu.exec(await readFile(file, 'utf8'))?.[1];
    return said === undefined ? null : Number(said) / 1000;
  } catch {
    return null;
  }
}
