// Where a long-running process logs: on a full disk lines are lost, and the process goes on. Knows no line's meaning.
import { fstatSync, writeSync } from 'node:fs';
import { isSystemError } from '../model/errno.ts';

/**
 * Writes whole lines to a file that is open, at its end. A stream of Node's would be broken for good by the first failure. null: no file, but a
 * terminal or a pipe.
 */
export function logOutput(fd: number): ((text: string) => void) | null {
  if (!fstatSync(fd).isFile()) return null;
  let lost = 0;
  return (text) => {
    try {
      // What was cut off before it ends here.
      if (lost > 0) write(fd, `\n${JSON.stringify({ level: 40, msg: `${lost} lines of this log were lost: its disk was full` })}\n`);
      lost = 0;
      write(fd, text);
    } catch (error) {
      if (!isSystemError(error)) throw error;
      lost += 1;
    }
  };
}

function write(fd: number, text: string): void {
  const bytes = Buffer.from(text);
  let done = 0;
  while (done < bytes.length) done += writeSync(fd, bytes, done);
}
