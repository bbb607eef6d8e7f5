// What a local cluster was made as: written once, and read whenever it comes up again.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { writeAtomically } from '../../host/files.ts';
import { FlockError } from '../../model/errors.ts';
import { CONTROLLER, nodeNames, SERVER, type Layout } from './layout.ts';
import type { PoolGround } from './pool-disk.ts';

export interface Description {
  nodes: number;
  /** The server's, on 127.0.0.1. */
  port: number;
  ground: PoolGround;
  /** Of each pool's disk, bytes; `0` for plain folders. */
  diskSize: string;
  /** Folder of the sockets on which CSI is served; absent: nowhere. */
  csi?: string;
}

/** Its processes. */
export const namesOf = ({ nodes }: Description): string[] => [SERVER, CONTROLLER, ...nodeNames(nodes)];

/** null when there is no cluster in the folder. Throws Corrupt. */
export function readDescription({ description, directory }: Layout): Description | null {
  let text: string;
  try {
    text = readFileSync(description, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT' || (error as NodeJS.ErrnoException).code === 'ENOTDIR') return null;
    throw new FlockError('NotPermitted', `${description} cannot be read: is the cluster another user's?`, { cause: error });
  }
  try {
    return JSON.parse(text) as Description;
  } catch (error) {
    throw new FlockError('Corrupt', `${description} is damaged; ${directory} may be removed by hand once nothing of it is mounted`, {
      cause: error,
    });
  }
}

export const writeDescription = (layout: Layout, description: Description): Promise<void> =>
  writeAtomically(layout.description, `${JSON.stringify(description, null, 2)}\n`);

/** A port of 127.0.0.1 that nobody has now. */
export function freePort(): Promise<number> {
  const probe = createServer();
  return new Promise((resolve, reject) => {
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      probe.close(() => resolve(port));
    });
  });
}
