import { poolContract } from './contract.ts';
import { memoryDisk, MemoryPool } from './memory.ts';

const UUID = '11111111-2222-4333-8444-555555555555';

for (const traits of [
  { points: true, attachable: true },
  { points: false, attachable: false },
])
  poolContract(`a pool in memory ${traits.points ? 'with' : 'without'} points`, traits, async (_, capacity) => {
    const disk = memoryDisk(UUID, capacity);
    return {
      open: async (crash) => new MemoryPool({ name: 'local', disk, ...traits, ...(crash ? { crash } : {}) }),
      plantForeign: async () => {
        disk.foreign.push('photos');
        return 'photos';
      },
      isForeignIntact: async () => disk.foreign.includes('photos'),
      leftovers: async () => [...disk.copies.keys()],
    };
  });
