// In which order a round writes: what its journal calls done is on the disk by then, so that a power cut takes nothing that is not asked for
// again.
import assert from 'node:assert/strict';
import test from 'node:test';
import type { BlockHandle, Pool } from '../pools/pool.ts';
import { aMemoryPool, aRig, fill, MIB, SOURCE } from '../testing/transfer-rig.ts';

/** Tells of every sync of a handle that the pool opens. */
const telling = (pool: Pool, synced: () => void): Pool =>
  new Proxy(pool, {
    get: (of, name) => {
      const value: unknown = Reflect.get(of, name, of);
      if (name !== 'open') return typeof value === 'function' ? value.bind(of) : value;
      return async (...asked: Parameters<Pool['open']>): Promise<BlockHandle> => {
        const handle = await of.open(...asked);
        const sync = async (): Promise<void> => {
          await handle.sync();
          synced();
        };
        return {
          size: handle.size,
          read: (...of) => handle.read(...of),
          write: (...of) => handle.write(...of),
          zero: (...of) => handle.zero(...of),
          sync,
          close: () => handle.close(),
        };
      };
    },
  });

test('what is recorded as written was synced before', async (t) => {
  let syncs = 0;
  let records = 0;
  const target = telling(await aMemoryPool(t, 'target'), () => void (syncs += 1));
  const rig = await aRig(t, { size: 24 * MIB, target });
  rig.crash.target = (point) => {
    if (point !== 'transfer.progress.recorded') return;
    records += 1;
    assert.ok(syncs >= records, `${records} times progress was recorded, and ${syncs} times the disk was synced`);
  };
  await fill(rig.source, SOURCE.name, { offset: 0, length: 16 * MIB, seed: 1 });
  await rig.pull({ round: 0 });
  assert.ok(records > 0);
});
