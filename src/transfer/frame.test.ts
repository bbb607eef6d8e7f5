// The codec and everything else that takes bytes of unknown origin: what is sent arrives, and what nobody sends is refused and harms nothing.
import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { FlockError } from '../model/errors.ts';
import { decodeHeader, encodeHeader, FRAME, header, HEADER, type Header } from './frame.ts';
import { decodeLeaves, encodeLeaves } from './leaf-list.ts';
import { LEAF } from './leaves.ts';
import { decodeManifest, encodeManifest, type Manifest } from './manifest.ts';
import { errorOf } from './messages.ts';
import { FrameParser } from './parser.ts';
import type { Span } from './spans.ts';

const hash = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes));
const block = fc.record({ req: fc.nat(), offset: fc.nat({ max: 2 ** 40 }), rawLen: fc.integer({ min: 1, max: LEAF }), hash });
const anyHeader: fc.Arbitrary<Header> = fc.oneof(
  block.map((of) => header(FRAME.DATA, { ...of, wireLen: of.rawLen })),
  block.map((of) => header(FRAME.ZERO, of)),
  block.filter(({ rawLen }) => rawLen > 1).map((of) => header(FRAME.DATA, { ...of, codec: 1, wireLen: of.rawLen - 1 })),
  block.filter(({ rawLen }) => rawLen > 1).map((of) => header(FRAME.PACKED, { ...of, codec: 1, wireLen: 1 })),
  block.map((of) => header(FRAME.READ, of)),
  fc.record({ req: fc.nat(), flags: fc.constantFrom(0, 1), wireLen: fc.nat({ max: 65536 }) }).map((of) => header(FRAME.ROOT, of)),
);

interface Taken {
  header: Header;
  payload: Buffer;
}

const collecting = (): { parser: FrameParser; taken: Taken[]; placed: () => number } => {
  const taken: Taken[] = [];
  let placed = 0;
  const parser = new FrameParser({
    place: (of) => {
      placed += of.wireLen;
      return Buffer.alloc(of.wireLen);
    },
    frame: (of, payload) => void taken.push({ header: of, payload }),
  });
  return { parser, taken, placed: () => placed };
};

test('a header that was encoded is decoded to the same', () => {
  fc.assert(fc.property(anyHeader, (of) => assert.deepEqual(decodeHeader(encodeHeader(of)), of)));
});

test('frames arrive whole however the stream is cut', () => {
  const small = anyHeader.filter(({ wireLen }) => wireLen < 5000);
  fc.assert(
    fc.property(
      fc.array(small, { maxLength: 6 }),
      fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 40 }),
      (headers, cuts) => {
        const stream = Buffer.concat(headers.map((of, index) => Buffer.concat([encodeHeader(of), Buffer.alloc(of.wireLen, index + 1)])));
        const { parser, taken } = collecting();
        for (let at = 0, turn = 0; at < stream.length; turn += 1) {
          const length = cuts[turn % cuts.length] as number;
          parser.push(stream.subarray(at, at + length));
          at += length;
        }
        assert.deepEqual(
          taken.map((one) => one.header),
          headers,
        );
        taken.forEach(({ payload }, index) => assert.ok(payload.every((byte) => byte === index + 1)));
      },
    ),
  );
});

test('random bytes are refused as Corrupt, before anything is allocated for them', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: HEADER, maxLength: 400 }), (bytes) => {
      const { parser, placed } = collecting();
      assert.throws(() => parser.push(Buffer.from(bytes)), { reason: 'Corrupt' });
      assert.equal(placed(), 0);
      assert.throws(() => parser.push(encodeHeader(header(FRAME.PING))), { reason: 'Corrupt' });
    }),
  );
});

test('a byte that turned in a header is refused, or is another header within every limit', () => {
  fc.assert(
    fc.property(anyHeader, fc.nat({ max: HEADER - 1 }), fc.integer({ min: 1, max: 255 }), (of, at, change) => {
      const bytes = encodeHeader(of);
      bytes.writeUInt8(bytes.readUInt8(at) ^ change, at);
      const { parser, placed } = collecting();
      try {
        parser.push(bytes);
      } catch (error) {
        const version = at === 3;
        assert.ok(error instanceof FlockError && error.reason === (version ? 'Unsupported' : 'Corrupt'));
      }
      assert.ok(placed() <= LEAF);
    }),
    { numRuns: 500 },
  );
});

for (const [what, of] of [
  ['a payload of 4 GiB', header(FRAME.DATA, { rawLen: LEAF, wireLen: 0xffff_ffff })],
  ['a payload longer than its block', header(FRAME.DATA, { rawLen: 4096, wireLen: 8192 })],
  ['a compressed block that is no smaller', header(FRAME.DATA, { codec: 1, rawLen: 4096, wireLen: 4096 })],
  ['a compressed block of nothing', header(FRAME.PACKED, { codec: 1, rawLen: 4096, wireLen: 0 })],
  ['zeros that are compressed', header(FRAME.ZERO, { codec: 1, rawLen: 4096 })],
  ['a compressed control frame', header(FRAME.ROOT, { codec: 1, wireLen: 64 })],
  ['a block of nothing', header(FRAME.ZERO, {})],
  ['a block above a leaf', header(FRAME.READ, { rawLen: LEAF + 1 })],
  ['an offset beyond every volume', header(FRAME.READ, { rawLen: 4096, offset: Number.MAX_SAFE_INTEGER })],
  ['a control frame that speaks of a block', header(FRAME.ROOT, { rawLen: 4096 })],
] as const)
  test(`a header with ${what} is refused`, () => {
    assert.throws(() => decodeHeader(encodeHeader(of)), { reason: 'Corrupt' });
  });

const SIZE = 1 << 30;
const manifestOf = (spans: Span[], deviceBytes = SIZE): Manifest => ({
  head: {
    version: 1,
    moveUid: 'fedcba98-7654-4321-8fed-cba987654321',
    volumeUid: '01234567-89ab-4cde-8f01-23456789abcd',
    epoch: 1,
    deviceBytes,
    leafBytes: LEAF,
    hash: 'blake3',
    cbt: 'full',
    poolUuid: 'pool',
    point: 'live',
    settled: true,
    base: null,
    round: 0,
    final: true,
    allocated: 0,
  },
  spans,
});

const anySpans = fc
  .array(fc.record({ gap: fc.nat({ max: 100 }), blocks: fc.integer({ min: 1, max: 100 }), zero: fc.boolean() }), { maxLength: 200 })
  .map((parts) => {
    let at = 0;
    return parts.map(({ gap, blocks, zero }) => {
      const span = { offset: at + gap * 4096, length: blocks * 4096, zero };
      at = span.offset + span.length;
      return span;
    });
  });

test('a manifest that was encoded is decoded to the same', () => {
  fc.assert(fc.property(anySpans, (spans) => assert.deepEqual(decodeManifest(encodeManifest(manifestOf(spans))), manifestOf(spans))));
});

test('a manifest that would be too long lists more bytes in fewer extents, and all of those that changed', () => {
  const spans = Array.from({ length: 20_000 }, (_, index) => ({ offset: index * 40_960, length: 4096, zero: index % 3 === 0 }));
  const { spans: listed } = decodeManifest(encodeManifest(manifestOf(spans), 4096));
  assert.ok(listed.length < 1500);
  for (const { offset, length } of spans)
    assert.ok(listed.some((one) => !one.zero && one.offset <= offset && offset + length <= one.offset + one.length));
});

test('a manifest never lists a byte beyond its volume, nor out of order, whatever bytes it is made of', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.integer({ min: 1, max: 2000 }), (bytes, size) => {
      const encoded = Buffer.concat([encodeManifest(manifestOf([], size * 1000)), bytes]);
      try {
        let end = 0;
        for (const { offset, length } of decodeManifest(encoded).spans) {
          assert.ok(offset >= end && length > 0 && offset + length <= size * 1000);
          end = offset + length;
        }
      } catch (error) {
        assert.ok(error instanceof FlockError && error.reason === 'Corrupt');
      }
    }),
    { numRuns: 500 },
  );
});

test('a list of leaves that was encoded is decoded to the same, and no leaf beyond the volume is taken', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat({ max: 5000 }), { maxLength: 300 }), (leaves) => {
      const sorted = leaves.sort((a, b) => a - b);
      assert.deepEqual(decodeLeaves(encodeLeaves(sorted), 5001), sorted);
      const last = sorted.at(-1);
      if (last !== undefined) assert.throws(() => decodeLeaves(encodeLeaves(sorted), last), { reason: 'Corrupt' });
    }),
  );
});

test("a peer's error keeps its reason and loses its control characters; an unknown reason is Internal", () => {
  const said = (error: object): FlockError => errorOf(Buffer.from(JSON.stringify(error)), 'node a');
  assert.equal(said({ reason: 'Forbidden', message: 'no' }).reason, 'Forbidden');
  assert.equal(said({ reason: 'Harmless', message: 'a\u001b[2Jb\nc' }).reason, 'Internal');
  assert.equal(said({ reason: 'Harmless', message: 'a\u001b[2Jb\nc' }).message, 'node a: a [2Jb c');
  assert.throws(() => said({ message: 1 }), { reason: 'Corrupt' });
});
