// Copying that ends before it has asked for anything.
import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { test } from 'node:test';
import { systemClock } from '../model/clock.ts';
import { noCrash } from '../model/crash.ts';
import type { BlockHandle } from '../pools/pool.ts';
import { BlockPlan } from './block-plan.ts';
import { copyBlocks } from './copying.ts';
import { Meter } from './meter.ts';
import type { SourceLink } from './source-link.ts';

test('a connection that ends while ranges are zeroed fails the round, and nothing else of the process', async () => {
  const connection = new AbortController();
  const link: Pick<SourceLink, 'ended' | 'end' | 'blocks'> = { ended: connection.signal, end: () => undefined, blocks: null };
  const handle: Pick<BlockHandle, 'zero' | 'sync'> = {
    zero: async () => {
      connection.abort(new Error('the wire broke'));
      // A rejection that nobody waits for would end the process in this turn, and fail this test.
      await setImmediate();
    },
    sync: async () => undefined,
  };
  const copying = copyBlocks({
    link: link as SourceLink,
    handle: handle as BlockHandle,
    plan: new BlockPlan([{ offset: 0, length: 4096, zero: true }]),
    journal: null,
    meter: new Meter(0, systemClock, () => undefined),
    explicitZeros: true,
    fillGaps: false,
    clock: systemClock,
    crash: noCrash,
  });
  await assert.rejects(copying, /the wire broke/u);
});
