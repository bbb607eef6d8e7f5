// A pool of directories as the contract suite asks for a backend. Only tests import it.
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { PoolWorld } from './contract-world.ts';
import { openDirectoryPool } from './directory.ts';
import { beInitialised } from './image-marker.ts';

const isCopies = (file: string): boolean => /^[0-9a-f]{8}-/u.test(file);

/** What of copies lies in the pool's folder. */
export async function ofCopies(path: string): Promise<string[]> {
  const folders = await Promise.all(['.', 'retired', 'journals'].map((folder) => readdir(join(path, folder))));
  return folders.flat().filter(isCopies);
}

/** On an empty filesystem of `size` bytes, of which `capacity` may be booked. */
export async function worldOfDirectories(path: string, { size, capacity }: { size: bigint; capacity: bigint }): Promise<PoolWorld> {
  const uuid = await beInitialised(path);
  const policy = { reserve: String(size - capacity), overcommit: null };
  return {
    open: (crash) => openDirectoryPool({ name: 'shared', path, uuid, policy, ...(crash ? { crash } : {}) }),
    plantForeign: async () => {
      await mkdir(join(path, 'photos'));
      await writeFile(join(path, 'photos', 'beach'), 'holiday');
      return 'photos';
    },
    isForeignIntact: async () => (await readFile(join(path, 'photos', 'beach'), 'utf8')) === 'holiday',
    leftovers: () => ofCopies(path),
  };
}
