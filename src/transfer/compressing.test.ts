// When blocks are compressed, by what a test says of wire and samples; and what hostile payloads come to.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import test from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import type { Clock } from '../model/clock.ts';
import { isReason } from '../model/errors.ts';
import { fakeClock } from '../testing/fake-clock.ts';
import { aRig, MIB, same, SOURCE, withCopy, type Rig } from '../testing/transfer-rig.ts';
import { alignedBuffer } from '../host/aligned.ts';
import { Compression, decompressed } from './compressing.ts';
import { FRAME, header } from './frame.ts';
import { hashing } from './hashing.ts';
import { LEAF } from './leaves.ts';
import { pack } from './packing.ts';
import { rawBytes } from './payload.ts';
import { serveTransfers } from './sender.ts';

/** Of a wire that takes so many bytes a second, and blocks that became `ratio` at `speed`. */
async function worth({ wire, ratio, speed }: { wire: number; ratio: number; speed: number }): Promise<boolean> {
  const clock = fakeClock();
  const compression = new Compression(clock);
  for (let block = 0; block < 40; block += 1) {
    const taken = compression.sending(LEAF);
    await clock.advance((LEAF * 1000) / wire);
    taken();
  }
  compression.saw({ bytes: LEAF, smaller: LEAF * ratio, ms: (LEAF * 1000) / speed });
  return compression.isWorth;
}

const CASES: [sentence: string, seen: Parameters<typeof worth>[0], is: boolean][] = [
  ['database pages over 1 Gb/s are compressed', { wire: 115e6, ratio: 0.3, speed: 400e6 }, true],
  ['what is compressed already is not', { wire: 115e6, ratio: 1, speed: 400e6 }, false],
  ['nothing is on a wire that is faster than a processor', { wire: 500e6, ratio: 0.3, speed: 400e6 }, false],
  ['nothing is while processors are busy', { wire: 115e6, ratio: 0.3, speed: 90e6 }, false],
  ['nothing is even tried on a fast wire', { wire: 1000e6, ratio: 0.1, speed: 5000e6 }, false],
];
for (const [sentence, seen, is] of CASES) test(sentence, async () => assert.equal(await worth(seen), is));

test('before the wire is known nothing is compressed, then a sample is taken, and now and then another', async () => {
  const clock = fakeClock();
  const compression = new Compression(clock);
  assert.equal(compression.isWorth, false);
  for (let block = 0; block < 10; block += 1) {
    const taken = compression.sending(LEAF);
    await clock.advance(10);
    taken();
  }
  assert.equal(compression.isWorth, true);
  compression.saw({ bytes: LEAF, smaller: LEAF, ms: 3 });
  const tried = Array.from({ length: 320 }, () => compression.isWorth).filter(Boolean).length;
  assert.equal(tried, 5);
});

const text = (length: number): Buffer => Buffer.alloc(length, 'the same words again and again; ');

test('a block comes out as it went in, packed and compressed, whatever is in it', () => {
  const page = fc.constantFrom('zeros', 'noise', 'text');
  fc.assert(
    fc.property(fc.array(page, { minLength: 1, maxLength: 24 }), (pages) => {
      const block = alignedBuffer(LEAF).subarray(0, pages.length * 4096);
      pages.forEach((what, at) => {
        const bytes = what === 'zeros' ? Buffer.alloc(4096) : what === 'noise' ? randomBytes(4096) : text(4096);
        bytes.copy(block, at * 4096);
      });
      const before = Buffer.from(block);
      const packed = pack(block);
      const smaller = zstdCompressSync(block.subarray(0, packed));
      if (packed === 0 || smaller.length >= block.length) return;
      smaller.copy(block);
      const type = packed === block.length ? FRAME.DATA : FRAME.PACKED;
      const of = header(type, { codec: 1, rawLen: block.length, wireLen: smaller.length, hash: hashing.digest(before) });
      assert.deepEqual(rawBytes(of, block), before);
    }),
    { numRuns: 100 },
  );
});

const bomb = zstdCompressSync(Buffer.alloc(512 * MIB));
const HOSTILE: [what: string, type: typeof FRAME.DATA | typeof FRAME.PACKED, payload: Buffer, rawLen: number][] = [
  ['a bomb', FRAME.DATA, bomb, LEAF],
  ['a bomb in place of pages', FRAME.PACKED, bomb, LEAF],
  ['a block that is shorter than it says', FRAME.DATA, zstdCompressSync(text(8192)), LEAF],
  ['a block that is longer than it says', FRAME.DATA, zstdCompressSync(text(8193)), 8192],
  ['pages as long as the block', FRAME.PACKED, zstdCompressSync(text(8192)), 8192],
  ['noise', FRAME.DATA, randomBytes(500), LEAF],
  ['half of a compressed block', FRAME.DATA, zstdCompressSync(text(LEAF)).subarray(0, 40), LEAF],
];
for (const [what, type, payload, rawLen] of HOSTILE)
  test(`${what} is refused as Corrupt`, () => {
    const buffer = alignedBuffer(LEAF);
    payload.copy(buffer);
    assert.throws(
      () => rawBytes(header(type, { codec: 1, rawLen, wireLen: Math.min(payload.length, LEAF - 1) }), buffer),
      (error) => isReason(error, 'Corrupt'),
    );
  });

test('random payloads are refused, or are at most as long as the block', () => {
  const valid = zstdCompressSync(text(8192));
  fc.assert(
    fc.property(
      fc.nat({ max: valid.length - 1 }),
      fc.integer({ min: 1, max: 255 }),
      fc.integer({ min: 1, max: 8192 }),
      (at, change, most) => {
        const bytes = Buffer.from(valid);
        bytes.writeUInt8(bytes.readUInt8(at) ^ change, at);
        try {
          assert.ok(decompressed(bytes, most).length <= most);
        } catch (error) {
          assert.ok(isReason(error, 'Corrupt'));
        }
      },
    ),
    { numRuns: 500 },
  );
});

test('a window larger than a block is not made for a peer', () => {
  // Magic number, no content size, a window of 128 MiB, then a raw block of nothing that is the last.
  const bytes = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, (27 - 10) << 3, 0x01, 0x00, 0x00]);
  assert.throws(
    () => decompressed(bytes, LEAF),
    (error) => isReason(error, 'Corrupt'),
  );
});

/** Time passes as soon as somebody waits for a moment, and only then: a processor needs none. What waits long waits for its end. */
function quickClock(): Clock {
  let elapsed = 0;
  return {
    now: () => elapsed,
    monotonic: () => elapsed,
    sleep: async (ms, signal) => {
      if (ms < 1000) await new Promise((resolve) => setImmediate(resolve));
      else await new Promise((resolve) => signal?.addEventListener('abort', resolve, { once: true }));
      signal?.throwIfAborted();
      elapsed += ms;
    },
  };
}

async function aVolumeOfText(t: Parameters<typeof aRig>[0], megabytes: number): Promise<Rig> {
  const rig = await aRig(t, { size: megabytes * MIB });
  await withCopy({ pool: rig.source, copy: SOURCE.name, mode: 'write' }, async (handle) => {
    for (let at = 0; at < megabytes; at += 1) {
      const block = alignedBuffer(MIB);
      text(MIB).copy(block);
      block.writeUInt32LE(at);
      await handle.write(block, BigInt(at * MIB));
    }
  });
  return rig;
}

test('where a limit is low a volume that gets smaller takes fewer bytes, and arrives as it was; without leave it does not', async (t) => {
  for (const compression of ['auto', 'off'] as const) {
    const rig = await aVolumeOfText(t, 40);
    await rig.server.close();
    rig.server = await serveTransfers({ ...rig.sourceOptions(), compression, clock: quickClock() }, () => {
      throw new Error('not here');
    });
    const { bytesTotal, bytesSent } = await rig.pull({}, { limit: () => 20e6 });
    assert.equal(await same(rig, 40 * MIB), true);
    assert.equal(bytesTotal, BigInt(40 * MIB));
    if (compression === 'off') assert.equal(bytesSent, bytesTotal);
    // A sample at least, whatever that says of the others.
    else assert.ok(bytesSent < bytesTotal - BigInt(MIB / 2), `${bytesSent} bytes of ${bytesTotal}`);
    await rig.server.close();
  }
});
