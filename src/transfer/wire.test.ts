// The heartbeat: who works in silence is alive, who is silent is dead. Time is the test's own.
import assert from 'node:assert/strict';
import test from 'node:test';
import { isReason } from '../model/errors.ts';
import { fakeClock } from '../testing/fake-clock.ts';
import { aTcpProxy } from '../testing/tcp-proxy.ts';
import { aRig, fill, MIB, same, SOURCE } from '../testing/transfer-rig.ts';

const SIZE = 4 * MIB;

test('a source that takes minutes to answer is waited for, because its heart beats', async (t) => {
  const clock = fakeClock();
  const rig = await aRig(t, { size: SIZE, clock });
  await fill(rig.source, SOURCE.name, { offset: 0, length: MIB, seed: 1 });
  const asked = Promise.withResolvers<void>();
  const looked = Promise.withResolvers<void>();
  await rig.restartSource({
    authorize: async () => {
      asked.resolve();
      await looked.promise;
      return rig.offer;
    },
  });
  const pulling = rig.pull({ round: 0 });
  await asked.promise;
  // Each beat has the time to arrive before the next.
  for (let seconds = 0; seconds < 300; seconds += 5) {
    await clock.advance(5000);
    for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }
  looked.resolve();
  await pulling;
  assert.equal(await same(rig, SIZE), true);
});

test('a source that is silent for 20 seconds is given up, and the round is Unavailable', async (t) => {
  const clock = fakeClock();
  const rig = await aRig(t, { size: SIZE, clock });
  await fill(rig.source, SOURCE.name, { offset: 0, length: SIZE, seed: 1 });
  const proxy = await aTcpProxy(t, () => rig.server.port);
  const swallowed = Promise.withResolvers<void>();
  proxy.onPiece = (_, at) => {
    if (at > 0) swallowed.resolve();
    return at > 0 ? 'swallow' : true;
  };
  const pulling = rig.pull({ round: 0 }, { source: { host: '127.0.0.1', port: proxy.port, node: 'node-a' } });
  const outcome = assert.rejects(pulling, (error) => isReason(error, 'Unavailable') && /silent for 20 s/u.test(error.message));
  await swallowed.promise;
  await clock.advance(26_000);
  await outcome;
});
