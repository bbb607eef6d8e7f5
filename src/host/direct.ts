// Files opened for direct IO, so that copying a volume neither fills nor believes the page cache. Knows no pools.
import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { isCode } from './files.ts';
import { asFlockError } from './syscalls.ts';

export interface Direct {
  file: FileHandle;
  /** false: the filesystem refuses direct IO, reads and writes go through the page cache. */
  direct: boolean;
}

/** Opens what is there; never makes a file. */
export async function openDirect(path: string, mode: 'read' | 'write'): Promise<Direct> {
  const flags = mode === 'read' ? constants.O_RDONLY : constants.O_RDWR;
  try {
    return { file: await open(path, flags | constants.O_DIRECT), direct: true };
  } catch (error) {
    if (!isCode(error, 'EINVAL', 'EOPNOTSUPP')) throw asFlockError(`opening ${path}`, error);
  }
  return { file: await open(path, flags), direct: false };
}

/** Fills the buffer whole from `offset`, or throws. */
export async function readWhole(file: FileHandle, buffer: Buffer, offset: bigint): Promise<void> {
  let done = 0;
  while (done < buffer.length) {
    const { bytesRead } = await file.read(buffer, done, buffer.length - done, offset + BigInt(done));
    if (bytesRead === 0) throw asFlockError(`reading ${buffer.length} bytes at ${offset}`, new Error(`the file ends after ${done}`));
    done += bytesRead;
  }
}

/** Writes the buffer whole at `offset`, or throws. */
export async function writeWhole(file: FileHandle, buffer: Buffer, offset: bigint): Promise<void> {
  let done = 0;
  while (done < buffer.length) {
    // Offsets stay below 2^53: no filesystem has larger files.
    const { bytesWritten } = await file.write(buffer, done, buffer.length - done, Number(offset) + done);
    done += bytesWritten;
  }
}
