// Ends this process at a named place once, when a file says so: for tests of programs that are started again by themselves, and must not be
// ended there for ever. Knows no place.
import { readFileSync, rmSync } from 'node:fs';
import { noCrash, type CrashPoint } from '../model/crash.ts';

/** The file holds a point's name. It is removed first, so that the next life passes the place. */
export function killByFile(file: string | undefined, kill: () => void = end): CrashPoint {
  if (file === undefined || file === '') return noCrash;
  return (name) => {
    if (wanted(file) !== name) return;
    rmSync(file, { force: true });
    kill();
  };
}

/** The first process of a container cannot kill itself: the kernel protects it from its own. */
function end(): void {
  process.kill(process.pid, 'SIGKILL');
  process.exit(137);
}

function wanted(file: string): string | null {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return null;
  }
}
