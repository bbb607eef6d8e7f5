// A volume's bytes from one node to another, round by round, over real TLS connections between two pools in memory.
import assert from 'node:assert/strict';
import test from 'node:test';
import { alignedBuffer } from '../host/aligned.ts';
import type { BlockHandle, Extent, Pool } from '../pools/pool.ts';
import { isReason } from '../model/errors.ts';
import { roundPoint } from '../model/points.ts';
import {
  aMemoryPool,
  aRig,
  contentOf,
  fill,
  hello,
  MIB,
  MOVE_UID,
  pseudoRandom,
  same,
  SOURCE,
  TARGET,
  withCopy,
  type Rig,
} from '../testing/transfer-rig.ts';
import { dropJournal, readJournal } from './journal.ts';

const SIZE = 24 * MIB;

/** Writes 4096 bytes at each of these offsets. */
const scatter = (rig: Rig, offsets: number[], seed: number): Promise<void> =>
  withCopy({ pool: rig.source, copy: SOURCE.name, mode: 'write' }, async (handle) => {
    for (const offset of offsets) {
      const block = alignedBuffer(4096);
      pseudoRandom(block, seed + offset);
      await handle.write(block, BigInt(offset));
    }
  });

const pointsOfSource = async (rig: Rig): Promise<string[]> => (await rig.source.scan()).copies[0]?.points ?? [];

test('a first round copies what is allocated and both sides agree on the root', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.source, SOURCE.name, { offset: 0, length: 5 * MIB, seed: 1 });
  await fill(rig.source, SOURCE.name, { offset: 10 * MIB + 4096, length: 3 * MIB, seed: 2 });
  const report = await rig.pull({ round: 0 });
  assert.equal(await same(rig, SIZE), true);
  assert.equal(report.bytesSent, BigInt(8 * MIB));
  assert.equal(report.allocated, BigInt(8 * MIB));
  assert.equal(report.dirty, 0n);
  assert.match(report.root ?? '', /^[0-9a-f]{64}$/u);
  const journal = await readJournal(rig.target, TARGET.name);
  assert.equal(journal?.completeRound, 0);
  assert.equal(journal?.root, report.root);
  assert.deepEqual(journal?.rounds, [BigInt(8 * MIB)]);
});

test('while a writer goes on, every round sends what changed, and the final one leaves the same bytes on both sides', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.source, SOURCE.name, { offset: 0, length: SIZE, seed: 1 });
  await rig.pull({ round: 0 });
  await scatter(rig, [0, 8192, 5 * MIB, 5 * MIB + 65536, SIZE - 4096], 7);
  const first = await rig.pull({ round: 1 });
  assert.equal(first.bytesSent, BigInt(4096 * 5));
  await withCopy({ pool: rig.source, copy: SOURCE.name, mode: 'write' }, (handle) => handle.zero(BigInt(3 * MIB), BigInt(2 * MIB)));
  await scatter(rig, [7 * MIB], 8);
  const second = await rig.pull({ round: 2 });
  assert.equal(second.bytesSent, 4096n);
  await scatter(rig, [9 * MIB, 3 * MIB], 9);
  rig.offer.fenced = true;
  const last = await rig.pull({ round: 3, final: true });
  assert.equal(await same(rig, SIZE), true);
  assert.equal(last.root, null);
  assert.deepEqual(last.verified, { round: 3, epoch: 1, bytes: '8192', frames: 1, root: second.root });
  const journal = await readJournal(rig.target, TARGET.name);
  assert.deepEqual(journal?.verified, last.verified);
  assert.equal(journal?.completeRound, 3);
});

test('writes between rounds are told as dirty, and the points of earlier rounds are let go', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.source, SOURCE.name, { offset: 0, length: 2 * MIB, seed: 1 });
  const dirtied = { crash: (name: string): void => void (name === 'transfer.leaves.saved' && writes.push(scatter(rig, [0, 8192], 3))) };
  const writes: Promise<void>[] = [];
  const report = await rig.pull({ round: 0 }, dirtied);
  await Promise.all(writes);
  assert.equal(report.dirty, 8192n);
  await rig.pull({ round: 1 });
  assert.deepEqual(await pointsOfSource(rig), [roundPoint(MOVE_UID, 1)]);
});

test('4096 bytes appended to a large volume are a second round of 4096 bytes', async (t) => {
  const size = 256 * MIB;
  const rig = await aRig(t, { size });
  await fill(rig.source, SOURCE.name, { offset: 0, length: 96 * MIB, seed: 1 });
  await rig.pull({ round: 0 });
  await fill(rig.source, SOURCE.name, { offset: 96 * MIB, length: 4096, seed: 2 });
  assert.equal((await rig.pull({ round: 1 })).bytesSent, 4096n);
});

test('a delta of nothing sends nothing and still shows that the roots agree', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.source, SOURCE.name, { offset: 0, length: MIB, seed: 1 });
  const first = await rig.pull({ round: 0 });
  const second = await rig.pull({ round: 1 });
  assert.equal(second.frames, 0);
  assert.equal(second.root, first.root);
});

const SHAPES: { what: string; make: (rig: Rig) => Promise<void>; sent: number }[] = [
  { what: 'nothing written', make: async () => {}, sent: 0 },
  {
    what: 'zeros written everywhere',
    make: (rig) =>
      withCopy({ pool: rig.source, copy: SOURCE.name, mode: 'write' }, async (handle) => {
        const zeros = alignedBuffer(MIB).fill(0);
        for (let at = 0; at < SIZE; at += MIB) await handle.write(zeros, BigInt(at));
      }),
    sent: 0,
  },
  { what: 'two blocks far apart', make: (rig) => scatter(rig, [4096, SIZE - 8192], 1), sent: 8192 },
  {
    what: 'every other block of 4096 bytes',
    make: (rig) =>
      scatter(
        rig,
        Array.from({ length: 1024 }, (_, index) => index * 8192),
        1,
      ),
    sent: 4 * MIB,
  },
];
for (const { what, make, sent } of SHAPES)
  test(`a volume with ${what} arrives as it is, in one full round`, async (t) => {
    const rig = await aRig(t, { size: SIZE });
    await make(rig);
    const report = await rig.pull({ round: 0 });
    assert.equal(await same(rig, SIZE), true);
    assert.equal(report.bytesSent, BigInt(sent));
  });

test('a stopped volume moves in one round, final at once, and its root is shown', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.source, SOURCE.name, { offset: MIB, length: 3 * MIB, seed: 1 });
  rig.offer.fenced = true;
  const report = await rig.pull({ round: 0, final: true });
  assert.equal(await same(rig, SIZE), true);
  assert.equal(report.verified?.root, report.root);
  assert.match(report.root ?? '', /^[0-9a-f]{64}$/u);
});

test('a round that is complete is reported again, without asking the source', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.source, SOURCE.name, { offset: 0, length: MIB, seed: 1 });
  const report = await rig.pull({ round: 0 });
  await rig.server.close();
  assert.deepEqual(await rig.pull({ round: 0 }), report);
  await assert.rejects(rig.pull({ round: 1 }), (error) => isReason(error, 'Unavailable'));
});

test('a reused copy is compared leaf by leaf, and only what differs is sent', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.source, SOURCE.name, { offset: 0, length: 16 * MIB, seed: 1 });
  await fill(rig.target, TARGET.name, { offset: 0, length: 15 * MIB, seed: 1 });
  await fill(rig.target, TARGET.name, { offset: 20 * MIB, length: 2 * MIB, seed: 5 });
  const report = await rig.pull({ round: 0 }, { target: { pool: rig.target, copy: TARGET.name, fresh: false } });
  assert.equal(await same(rig, SIZE), true);
  assert.equal(report.bytesSent, BigInt(MIB));
  assert.ok(rig.progress.some(({ activity }) => activity === 'comparing'));
});

test('a copy that is called fresh and is not empty is compared all the same', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.target, TARGET.name, { offset: 20 * MIB, length: 2 * MIB, seed: 5 });
  await rig.pull({ round: 0 });
  assert.equal(await same(rig, SIZE), true);
});

test('when the point of the last round is gone, leaves are compared and nothing is discarded', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.source, SOURCE.name, { offset: 0, length: SIZE, seed: 1 });
  await rig.pull({ round: 0 });
  await rig.source.release(SOURCE.name, roundPoint(MOVE_UID, 0));
  await scatter(rig, [5 * MIB], 2);
  const report = await rig.pull({ round: 1 });
  assert.equal(await same(rig, SIZE), true);
  assert.equal(report.bytesSent, BigInt(MIB));
});

test('a source that was restarted between two rounds finds out its leaves again, and the delta stays small', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.source, SOURCE.name, { offset: 0, length: SIZE, seed: 1 });
  await rig.pull({ round: 0 });
  await rig.restartSource();
  await scatter(rig, [5 * MIB], 2);
  const report = await rig.pull({ round: 1 });
  assert.equal(report.bytesSent, 4096n);
  assert.equal(await same(rig, SIZE), true);
});

test('a source without points sends everything once, then what differs, and the roots agree in the final round', async (t) => {
  const rig = await aRig(t, { size: SIZE, points: false });
  await fill(rig.source, SOURCE.name, { offset: 0, length: SIZE, seed: 1 });
  const first = await rig.pull({ round: 0 });
  assert.equal(first.root, null);
  assert.equal(first.dirty, null);
  await scatter(rig, [5 * MIB], 2);
  const second = await rig.pull({ round: 1 });
  assert.equal(second.bytesSent, BigInt(MIB));
  await scatter(rig, [6 * MIB, 7 * MIB], 3);
  rig.offer.fenced = true;
  const last = await rig.pull({ round: 2, final: true });
  assert.equal(last.bytesSent, BigInt(2 * MIB));
  assert.match(last.root ?? '', /^[0-9a-f]{64}$/u);
  assert.equal(last.verified?.root, last.root);
  assert.equal(await same(rig, SIZE), true);
});

test('a dropped journal is no state: the copy is compared and completed', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.source, SOURCE.name, { offset: 0, length: SIZE, seed: 1 });
  await rig.pull({ round: 0 });
  await dropJournal(rig.target, TARGET.name);
  assert.equal(await readJournal(rig.target, TARGET.name), null);
  const report = await rig.pull({ round: 1 });
  assert.equal(report.bytesSent, 0n);
  assert.equal(await same(rig, SIZE), true);
});

test('another epoch is another state: what an earlier one left is compared, not believed', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.source, SOURCE.name, { offset: 0, length: SIZE, seed: 1 });
  await rig.pull({ round: 0 });
  await rig.restartSource({ authorize: async () => rig.offer });
  await fill(rig.target, TARGET.name, { offset: 0, length: MIB, seed: 9 });
  const report = await rig.pull({ round: 0 }, { hello: { ...hello, epoch: 2 } });
  assert.equal(report.bytesSent, BigInt(MIB));
  assert.equal(await same(rig, SIZE), true);
});

test('live bytes are refused as final while the copy is not fenced', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await assert.rejects(rig.pull({ round: 0, final: true }), (error) => isReason(error, 'Conflict') && /not fenced/u.test(error.message));
});

test('a copy that is smaller than the volume is refused', async (t) => {
  const rig = await aRig(t, { size: SIZE, targetSize: SIZE - MIB });
  await assert.rejects(rig.pull({ round: 0 }), (error) => isReason(error, 'NoSpace') && /grow the copy/u.test(error.message));
});

test('a copy that is larger than the volume takes it', async (t) => {
  const rig = await aRig(t, { size: SIZE, targetSize: SIZE + MIB });
  await fill(rig.source, SOURCE.name, { offset: SIZE - MIB, length: MIB, seed: 1 });
  await rig.pull({ round: 0 });
  assert.equal(await same(rig, SIZE), true);
});

test('a volume that grew between two rounds is compared and arrives whole', async (t) => {
  const rig = await aRig(t, { size: SIZE + 4096, targetSize: SIZE + 4 * MIB });
  await fill(rig.source, SOURCE.name, { offset: 0, length: SIZE + 4096, seed: 1 });
  await rig.pull({ round: 0 });
  await rig.source.grow(SOURCE.name, BigInt(SIZE + 3 * MIB));
  await fill(rig.source, SOURCE.name, { offset: SIZE + MIB, length: MIB, seed: 2 });
  await rig.pull({ round: 1 });
  assert.equal(await same(rig, SIZE + 3 * MIB), true);
});

// A pool whose reads can be made to lie.
function lying(pool: Pool, lie: (bytes: Buffer, offset: number, point: string) => void): Pool {
  return new Proxy(pool, {
    get(of, name) {
      if (name !== 'open') {
        const value: unknown = Reflect.get(of, name, of);
        return typeof value === 'function' ? value.bind(of) : value;
      }
      return async (copy: string, point: string, mode: 'read' | 'write'): Promise<BlockHandle> => {
        const handle = await of.open(copy, point, mode);
        return {
          size: handle.size,
          read: async (buffer, offset) => {
            await handle.read(buffer, offset);
            lie(buffer, Number(offset), point);
          },
          write: (buffer, offset) => handle.write(buffer, offset),
          zero: (offset, length) => handle.zero(offset, length),
          sync: () => handle.sync(),
          close: () => handle.close(),
        };
      };
    },
  });
}

const flip = (bytes: Buffer, at: number): void => void bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);

test('a bit that flipped on its way from the source disk is found by the leaves, and the leaf is sent again', async (t) => {
  let lies = 1;
  const source = lying(await aMemoryPool(t, 'source'), (bytes, offset) => {
    // Half a leaf, so that the leaf is read again to be hashed.
    if (offset === 3 * MIB && bytes.length < MIB && lies-- > 0) flip(bytes, 100);
  });
  const rig = await aRig(t, { size: SIZE, source });
  await fill(rig.source, SOURCE.name, { offset: 3 * MIB, length: MIB / 2, seed: 1 });
  const report = await rig.pull({ round: 0 });
  assert.equal(await same(rig, SIZE), true);
  assert.equal(report.bytesSent, BigInt(MIB / 2 + MIB / 2 + 32));
});

test('a source disk that never reads the same twice ends as Corrupt, and the round is not complete', async (t) => {
  let reads = 0;
  const source = lying(await aMemoryPool(t, 'source'), (bytes, offset) => {
    if (offset === 3 * MIB) bytes.writeUInt32LE((reads += 1), 100);
  });
  const rig = await aRig(t, { size: SIZE, source });
  await fill(rig.source, SOURCE.name, { offset: 3 * MIB, length: MIB / 2, seed: 1 });
  await assert.rejects(rig.pull({ round: 0 }), (error) => isReason(error, 'Corrupt') && /two different contents/u.test(error.message));
  assert.equal((await readJournal(rig.target, TARGET.name))?.completeRound, null);
});

test('a target disk that does not keep what is written ends as Corrupt, after a few repairs', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.source, SOURCE.name, { offset: 3 * MIB, length: MIB, seed: 1 });
  const pool = lying(rig.target, (bytes) => flip(bytes, 0));
  await assert.rejects(
    rig.pull({ round: 0 }, { target: { pool, copy: TARGET.name, fresh: true } }),
    (error) => isReason(error, 'Corrupt') && /still differ/u.test(error.message),
  );
  assert.equal((await readJournal(rig.target, TARGET.name))?.completeRound, null);
});

for (const final of [false, true])
  test(`a byte that turned on the target's disk before the read-back of a ${final ? 'final' : 'first'} round is found and mended`, async (t) => {
    const rig = await aRig(t, { size: SIZE });
    await fill(rig.source, SOURCE.name, { offset: 0, length: 4 * MIB, seed: 1 });
    if (final) await rig.pull({ round: 0 });
    await scatter(rig, [2 * MIB], 3);
    rig.offer.fenced = final;
    const turned: Promise<void>[] = [];
    const turn = (name: string): void => {
      if (name === 'transfer.round.copied') turned.push(fill(rig.target, TARGET.name, { offset: 2 * MIB, length: 4096, seed: 66 }));
    };
    const report = await rig.pull({ round: 1, final }, { crash: turn });
    await Promise.all(turned);
    assert.equal(turned.length, 1);
    assert.equal(await same(rig, SIZE), true);
    assert.ok(rig.log.lines.some(({ message }) => /pulled again/u.test(message)));
    assert.ok(report.bytesSent > 4096n);
  });

test('a block that the change tracking missed is found by the roots and sent', async (t) => {
  const honest = await aMemoryPool(t, 'source');
  const source = new Proxy<Pool>(honest, {
    get(of, name) {
      if (name === 'changed')
        return async function* (copy: string, from: string | null, to: string): AsyncIterable<Extent> {
          for await (const extent of of.changed(copy, from, to)) if (from === null || extent.offset !== BigInt(5 * MIB)) yield extent;
        };
      const value: unknown = Reflect.get(of, name, of);
      return typeof value === 'function' ? value.bind(of) : value;
    },
  });
  const rig = await aRig(t, { size: SIZE, source });
  await fill(rig.source, SOURCE.name, { offset: 0, length: 8 * MIB, seed: 1 });
  await rig.pull({ round: 0 });
  // Restarted, it hashes all its leaves anew.
  await rig.restartSource();
  await scatter(rig, [5 * MIB, 7 * MIB], 2);
  await rig.pull({ round: 1 });
  assert.equal(await same(rig, SIZE), true);
});

test('an aborted round ends with the reason of the signal, promptly', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.source, SOURCE.name, { offset: 0, length: SIZE, seed: 1 });
  const stop = new AbortController();
  const reason = new Error('no longer wanted');
  const crash = (name: string): void => void (name === 'transfer.block.written' && stop.abort(reason));
  await assert.rejects(rig.pull({ round: 0 }, { signal: stop.signal, crash }), reason);
  await rig.pull({ round: 0 });
  assert.equal(await same(rig, SIZE), true);
});

test('a move that is dropped at the source ends at once, and its target is told nothing more', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.source, SOURCE.name, { offset: 0, length: SIZE, seed: 1 });
  const crash = (name: string): void => void (name === 'transfer.block.written' && rig.server.drop(MOVE_UID));
  await assert.rejects(rig.pull({ round: 0 }, { crash }), (error) => isReason(error, 'Unavailable'));
});

test('contents of source and target are compared by this test itself', async (t) => {
  const rig = await aRig(t, { size: MIB });
  await fill(rig.source, SOURCE.name, { offset: 0, length: 4096, seed: 1 });
  assert.equal(await same(rig, MIB), false);
  assert.equal(
    (await contentOf(rig.target, TARGET.name, MIB)).every((byte) => byte === 0),
    true,
  );
});
