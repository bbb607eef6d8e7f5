// The contract over the registry in memory.
import { randomUUID } from 'node:crypto';
import { systemClock } from '../model/clock.ts';
import { clientContract } from './contract.ts';
import { LocalClient } from './local-client.ts';
import { Registry } from './registry.ts';
import { MemoryTable } from './table.ts';

clientContract('the registry in memory', async () => {
  const registry = new Registry({ table: new MemoryTable(), clock: systemClock, uid: randomUUID });
  return { client: new LocalClient({ registry, clock: systemClock }), namespace: 'flock-system', close: () => {} };
});
