import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isReason } from '../model/errors.ts';
import { exceptions } from './lvm-exceptions.ts';

const CHUNK = 4096;
const PER_AREA = CHUNK / 16;

/** A store with these chunks of the origin excepted, in this order. */
function store(chunks: readonly number[], header: { magic?: number; valid?: number; version?: number } = {}): Buffer {
  const areas = Math.floor(chunks.length / PER_AREA) + 1;
  const bytes = Buffer.alloc(CHUNK * (1 + areas * (PER_AREA + 1)));
  const { magic = 0x70416e53, valid = 1, version = 1 } = header;
  [magic, valid, version, CHUNK / 512].forEach((word, index) => bytes.writeUInt32LE(word, index * 4));
  chunks.forEach((chunk, index) => {
    const area = Math.floor(index / PER_AREA);
    const at = CHUNK * (1 + area * (PER_AREA + 1)) + (index % PER_AREA) * 16;
    bytes.writeBigUInt64LE(BigInt(chunk), at);
    bytes.writeBigUInt64LE(BigInt(2 + index + area), at + 8);
  });
  return bytes;
}

const read = async (bytes: Buffer): Promise<[number, number][]> => {
  const found = await exceptions(
    async (into, offset) => void bytes.copy(into, 0, Number(offset)),
    (size) => Buffer.alloc(size),
  );
  return found.map(({ offset, length }) => [Number(offset) / CHUNK, Number(length) / CHUNK]);
};

for (const [about, chunks, wanted] of [
  ['nothing', [], []],
  ['one chunk', [7], [[7, 1]]],
  [
    'chunks out of order, sorted',
    [9, 2, 5],
    [
      [2, 1],
      [5, 1],
      [9, 1],
    ],
  ],
  [
    'neighbours, as one range',
    [4, 3, 5, 0],
    [
      [0, 1],
      [3, 3],
    ],
  ],
  ['an area that is just full', Array.from({ length: PER_AREA }, (_, index) => index), [[0, PER_AREA]]],
  [
    'more than one area',
    Array.from({ length: 2 * PER_AREA + 3 }, (_, index) => 2 * index),
    Array.from({ length: 2 * PER_AREA + 3 }, (_, index) => [2 * index, 1]),
  ],
] as const)
  test(`reads a table of ${about}`, async () => {
    assert.deepEqual(await read(store(chunks)), wanted);
  });

for (const [about, header, reason] of [
  ['a store that overflowed', { valid: 0 }, 'NotFound'],
  ['what is no store', { magic: 1 }, 'Corrupt'],
  ['a version that is not known', { version: 2 }, 'Corrupt'],
] as const)
  test(`refuses ${about}`, async () => {
    await assert.rejects(read(store([1], header)), (error: Error) => isReason(error, reason));
  });
