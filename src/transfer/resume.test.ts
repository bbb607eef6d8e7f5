// What breaks in the middle goes on from where the journal proves it: connections cut, processes that end between any two writes.
import assert from 'node:assert/strict';
import test from 'node:test';
import { isReason } from '../model/errors.ts';
import { aRig, fill, MIB, same, SOURCE, TARGET, type Rig } from '../testing/transfer-rig.ts';
import { aTcpProxy } from '../testing/tcp-proxy.ts';
import { TRANSFER_CRASH_POINTS } from './crash-points.ts';
import { readJournal } from './journal.ts';

const SIZE = 160 * MIB;

for (const percent of [10, 50, 99])
  test(`a connection cut at ${percent} % goes on, and less than 1.2 times the volume is sent in all`, async (t) => {
    const rig = await aRig(t, { size: SIZE });
    await fill(rig.source, SOURCE.name, { offset: 0, length: SIZE, seed: 1 });
    const proxy = await aTcpProxy(t, () => rig.server.port);
    const cutAt = (SIZE * percent) / 100;
    let cut = false;
    proxy.onPiece = (_, at) => cut || at < cutAt || !(cut = true);
    const through = { source: { host: '127.0.0.1', port: proxy.port, node: 'node-a' } };
    await assert.rejects(rig.pull({ round: 0 }, through), (error) => isReason(error, 'Unavailable'));
    const report = await rig.pull({ round: 0 }, through);
    assert.equal(await same(rig, SIZE), true);
    assert.ok(proxy.bytes < 1.2 * SIZE, `${proxy.bytes} bytes crossed the wire`);
    assert.equal(report.bytesSent + report.bytesResumed, BigInt(SIZE));
    assert.ok(Number(report.bytesResumed) >= cutAt - 64 * MIB);
    const journal = await readJournal(rig.target, TARGET.name);
    assert.equal(journal?.bytesResumed, report.bytesResumed);
  });

test('a bit that is turned on the wire breaks the connection, and the round goes on over the next one', async (t) => {
  const rig = await aRig(t, { size: 24 * MIB });
  await fill(rig.source, SOURCE.name, { offset: 0, length: 24 * MIB, seed: 1 });
  const proxy = await aTcpProxy(t, () => rig.server.port);
  let turned = false;
  proxy.onPiece = (piece, at) => {
    if (at > 8 * MIB && !turned) piece.writeUInt8(piece.readUInt8(50) ^ 4, 50);
    turned ||= at > 8 * MIB;
    return true;
  };
  const through = { source: { host: '127.0.0.1', port: proxy.port, node: 'node-a' } };
  await assert.rejects(rig.pull({ round: 0 }, through));
  await rig.pull({ round: 0 }, through);
  assert.equal(await same(rig, 24 * MIB), true);
});

const SMALL = 12 * MIB;
/** More than is written between two records. */
const TWO_RECORDS = 40 * MIB;

class Crashed extends Error {}

/** Ends whoever passes `point` for the nth time; as a process that ends does, it takes its connection along. */
const crashing = (point: string, nth: number): { hit: () => boolean; at: (name: string) => void } => {
  let left = nth;
  return {
    hit: () => left <= 0,
    at: (name) => {
      if (name === point && --left === 0) throw new Crashed(point);
    },
  };
};

async function untilComplete(rig: Rig, order: { round: number; final: boolean }): Promise<void> {
  for (let attempt = 0; attempt < 3; attempt += 1) {
    try {
      await rig.pull(order);
      return;
    } catch (error) {
      if (!(error instanceof Crashed) && !isReason(error, 'Unavailable', 'Internal')) throw error;
    }
  }
  assert.fail(`round ${order.round} did not complete`);
}

for (const point of TRANSFER_CRASH_POINTS.filter((name) => !name.startsWith('transfer.scrub')))
  for (const nth of [1, 2])
    test(`a process that ends at ${point} (passing ${nth}) loses nothing, and the move goes on`, async (t) => {
      const rig = await aRig(t, { size: SMALL });
      await fill(rig.source, SOURCE.name, { offset: 0, length: SMALL - MIB, seed: 1 });
      const crash = crashing(point, nth);
      rig.crash.source = crash.at;
      rig.crash.target = crash.at;
      await untilComplete(rig, { round: 0, final: false });
      await fill(rig.source, SOURCE.name, { offset: 5 * MIB, length: 3 * MIB, seed: 2 });
      await untilComplete(rig, { round: 1, final: false });
      await untilComplete(rig, { round: 2, final: false });
      await fill(rig.source, SOURCE.name, { offset: 7 * MIB, length: 3 * MIB + 4096, seed: 3 });
      rig.offer.fenced = true;
      await untilComplete(rig, { round: 3, final: true });
      assert.equal(crash.hit(), true);
      assert.equal(await same(rig, SMALL), true);
      const journal = await readJournal(rig.target, TARGET.name);
      assert.equal(journal?.verified?.round, 3);
      const sent = Number(journal?.bytesSent ?? 0n);
      assert.ok(sent <= SMALL + 10 * MIB + 64 * MIB, `${sent} bytes`);
    });

test('a round that was begun and not completed is taken along by a final one of another number', async (t) => {
  const rig = await aRig(t, { size: TWO_RECORDS });
  await fill(rig.source, SOURCE.name, { offset: 0, length: TWO_RECORDS, seed: 1 });
  await rig.pull({ round: 0 });
  await fill(rig.source, SOURCE.name, { offset: 5 * MIB, length: 20 * MIB, seed: 2 });
  rig.crash.target = crashing('transfer.progress.recorded', 1).at;
  await assert.rejects(rig.pull({ round: 1 }), Crashed);
  // Back to what the base had: the delta from the base alone would not speak of it.
  const handle = await rig.source.open(SOURCE.name, 'live', 'write');
  await handle.zero(0n, BigInt(MIB));
  await handle.close();
  rig.offer.fenced = true;
  const report = await rig.pull({ round: 2, final: true });
  assert.equal(await same(rig, TWO_RECORDS), true);
  assert.equal(report.verified?.round, 2);
});

test('what was copied before its point was lost is compared, not sent again', async (t) => {
  const rig = await aRig(t, { size: TWO_RECORDS });
  await fill(rig.source, SOURCE.name, { offset: 0, length: TWO_RECORDS - MIB, seed: 1 });
  rig.crash.target = crashing('transfer.progress.recorded', 1).at;
  await assert.rejects(rig.pull({ round: 0 }), Crashed);
  const sent = Number((await readJournal(rig.target, TARGET.name))?.bytesSent);
  for (const point of (await rig.source.scan()).copies[0]?.points ?? []) await rig.source.release(SOURCE.name, point);
  await fill(rig.source, SOURCE.name, { offset: TWO_RECORDS - MIB, length: MIB, seed: 4 });
  const report = await rig.pull({ round: 0 });
  assert.equal(await same(rig, TWO_RECORDS), true);
  assert.ok(Number(report.bytesSent) <= TWO_RECORDS - sent + MIB, `${report.bytesSent} bytes`);
});
