import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { needsRoot, temporaryFilesystem } from '../testing/folders.ts';
import { poolContract } from './contract.ts';
import { beInitialised } from './image-marker.ts';
import { openImagePool } from './image.ts';

const OVERHEAD = 400n << 20n;

for (const [type, points] of [
  ['xfs', true],
  ['btrfs', true],
  ['ext4', false],
] as const)
  poolContract(`an image pool on ${type}`, { points, attachable: true, skip: needsRoot }, async (t, capacity) => {
    const { path, size } = await temporaryFilesystem(t, { type, size: capacity + capacity / 20n + OVERHEAD });
    const uuid = await beInitialised(path);
    const policy = { reserve: String(size - capacity), overcommit: null };
    return {
      open: (crash) => openImagePool({ name: 'local', path, uuid, policy, ...(crash ? { crash } : {}) }),
      plantForeign: async () => {
        await writeFile(join(path, 'photos.img'), 'holiday');
        return 'photos.img';
      },
      isForeignIntact: async () => (await readFile(join(path, 'photos.img'), 'utf8')) === 'holiday',
      leftovers: async () => (await readdir(path)).filter((file) => /^[0-9a-f]{8}-/u.test(file)),
    };
  });
