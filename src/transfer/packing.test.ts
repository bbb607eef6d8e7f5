// A block without its zeros comes out as it went in, and what is no such block is refused.
import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { alignedBuffer } from '../host/aligned.ts';
import { isReason } from '../model/errors.ts';
import { LEAF } from './leaves.ts';
import { pack, unpack } from './packing.ts';
import { BLOCK } from './spans.ts';

/** Pages: zeros, zeros but for one byte, or full. */
const anyBlock = fc
  .array(fc.constantFrom('zeros', 'last', 'full'), { minLength: 1, maxLength: 40 })
  .chain((pages) => fc.nat({ max: BLOCK - 1 }).map((short) => ({ pages, short })));

function blockOf({ pages, short }: { pages: string[]; short: number }): Buffer {
  const block = alignedBuffer(LEAF)
    .fill(0)
    .subarray(0, pages.length * BLOCK);
  pages.forEach((what, page) => {
    if (what === 'full') block.fill(page + 1, page * BLOCK, (page + 1) * BLOCK);
    if (what === 'last') block[(page + 1) * BLOCK - 1] = page + 1;
  });
  // The end of a volume may be no whole page.
  return block.subarray(0, block.length - short);
}

test('every block comes out as it went in, and takes no more room on the way', () => {
  fc.assert(
    fc.property(anyBlock, (of) => {
      const block = blockOf(of);
      const before = Buffer.from(block);
      const packed = pack(block);
      assert.ok(packed <= before.length);
      if (packed > 0 && packed < before.length) unpack(block, packed);
      if (packed === 0) assert.ok(before.every((byte) => byte === 0));
      else assert.deepEqual(block, before);
    }),
    { numRuns: 300 },
  );
});

test('of a block of every other page half is left, and a bit a page', () => {
  const block = blockOf({ pages: Array.from({ length: 32 }, (_, page) => (page % 2 === 0 ? 'full' : 'zeros')), short: 0 });
  assert.equal(pack(block), 16 * BLOCK + 4);
});

for (const packed of [0, 1, 3, BLOCK, 2 * BLOCK, 3 * BLOCK + 3])
  test(`${packed} bytes that are no packed block of 32 pages are refused`, () => {
    const block = blockOf({ pages: Array.from({ length: 32 }, () => 'full'), short: 0 });
    assert.throws(
      () => unpack(block, packed),
      (error) => isReason(error, 'Corrupt'),
    );
  });
