// A rate that is held, and changed while bytes flow. Judged by counted bytes and a clock of the test's own.
import assert from 'node:assert/strict';
import test from 'node:test';
import { systemClock } from '../model/clock.ts';
import { fakeClock } from '../testing/fake-clock.ts';
import { aRig, fill, MIB, same, SOURCE } from '../testing/transfer-rig.ts';
import { TokenBucket } from './pacing.ts';
import { serveTransfers } from './sender.ts';

test('a bucket lets through what its rate allows, also after the rate was changed in the middle of a wait', async () => {
  const clock = fakeClock();
  const bucket = new TokenBucket(clock);
  const { signal } = new AbortController();
  let sent = 0;
  const flow = async (): Promise<void> => {
    while (sent < 100 * MIB) {
      await bucket.take(MIB, signal);
      sent += MIB;
    }
  };
  bucket.setRate(2 * MIB);
  const flowing = flow();
  await clock.advance(5000);
  assert.ok(Math.abs(sent - 10 * MIB) <= MIB, `${sent} bytes in 5 s at 2 MiB/s`);
  bucket.setRate(8 * MIB);
  const before = sent;
  await clock.advance(5000);
  assert.ok(Math.abs(sent - before - 40 * MIB) <= 2 * MIB, `${sent - before} bytes in 5 s at 8 MiB/s`);
  bucket.setRate(null);
  await clock.advance(1000);
  await flowing;
  assert.equal(sent, 100 * MIB);
});

test('who waits for a bucket goes with the signal', async () => {
  const bucket = new TokenBucket(fakeClock());
  const stop = new AbortController();
  bucket.setRate(1);
  await bucket.take(MIB, stop.signal);
  const waiting = bucket.take(MIB, stop.signal);
  stop.abort(new Error('over'));
  await assert.rejects(waiting, /over/u);
});

test('the target tells its limit to the source, which asks the kernel to hold it, and tells it again when it changes', async (t) => {
  const rig = await aRig(t, { size: 40 * MIB });
  await fill(rig.source, SOURCE.name, { offset: 0, length: 40 * MIB, seed: 1 });
  const told: { fd: number; rate: number | null }[] = [];
  await rig.server.close();
  rig.server = await serveTransfers(rig.sourceOptions(), (fd, rate) => void told.push({ fd, rate }));
  let limit: number | null = 500 * MIB;
  const clock = {
    ...systemClock,
    // The limit is looked at each second: here as often as can be.
    sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms === 1000 ? 1 : ms, signal),
  };
  const crash = (name: string): void => void (name === 'transfer.round.copied' && (limit = null));
  const changed = async (): Promise<void> => {
    while (told.length < 2) await new Promise((resolve) => setImmediate(resolve));
  };
  await Promise.all([changed(), rig.pull({ round: 0 }, { limit: () => limit, clock, crash })]);
  assert.deepEqual(
    told.map(({ rate }) => rate),
    [500 * MIB, null],
  );
  assert.ok(told.every(({ fd }) => Number.isInteger(fd) && fd > 2));
  assert.equal(await same(rig, 40 * MIB), true);
});

test('where the kernel refuses, the bucket holds the rate: bytes leave as the clock lets them', async (t) => {
  const clock = fakeClock();
  const rig = await aRig(t, { size: 8 * MIB });
  await fill(rig.source, SOURCE.name, { offset: 0, length: 8 * MIB, seed: 1 });
  await rig.server.close();
  let sent = 0;
  rig.server = await serveTransfers({ ...rig.sourceOptions(), clock, onBytes: (bytes) => void (sent += bytes) }, () => {
    throw new Error('not here');
  });
  const pulling = rig.pull({ round: 0 }, { limit: () => 2 * MIB });
  const leaving = async (bytes: number): Promise<void> => {
    while (sent < bytes) await new Promise((resolve) => setImmediate(resolve));
  };
  await leaving(MIB);
  await clock.settle();
  assert.equal(sent, MIB);
  for (let mib = 2; mib <= 8; mib += 1) {
    await clock.advance(505);
    await leaving(mib * MIB);
    assert.equal(sent, mib * MIB);
  }
  await pulling;
  assert.equal(await same(rig, 8 * MIB), true);
});
