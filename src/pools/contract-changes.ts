// The part of the contract about points in time: a point never changes, and what `changed` tells is enough to make the one from the other.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aCopy } from '../testing/labels.ts';
import { readAll, written } from './contract-bytes.ts';
import { rejects, type PoolFactory, type PoolTraits } from './contract-world.ts';
import type { BlockHandle, Extent, Pool } from './pool.ts';

const MiB = 1n << 20n;
const BLOCK = 4096;

async function collect(extents: AsyncIterable<Extent>): Promise<Extent[]> {
  const found: Extent[] = [];
  for await (const extent of extents) found.push({ ...extent });
  return found;
}

/** Numbers that look random and are the same in every run. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

export function changesContract(make: PoolFactory, traits: PoolTraits): void {
  if (traits.blocks !== false) historyContract(make, traits);
  if (traits.points) pointsContract(make, traits);
  else
    test('has no points, and says so', async (t) => {
      const pool = await (await make(t, 64n * MiB)).open();
      const { name, label } = aCopy();
      await pool.create(name, MiB, label);
      await rejects(pool.freeze(name, 'p1'), 'Unsupported');
      await pool.release(name, 'p1');
    });
}

function historyContract(make: PoolFactory, traits: PoolTraits): void {
  test('what changed since nothing is all that is not zeros, of a history of writes and zeroes', async (t) => {
    const pool = await (await make(t, 64n * MiB)).open();
    for (const seed of [1, 2, 3, 4, 5].slice(0, traits.histories)) await checkHistory(pool, seed, []);
  });
}

function pointsContract(make: PoolFactory, { block = BLOCK, zeros = true, histories = 12 }: PoolTraits): void {
  test('a point is held until it is released, however often it is asked for, by the next process too', async (t) => {
    const world = await make(t, 64n * MiB);
    const pool = await world.open();
    const { name, label } = aCopy();
    await pool.create(name, MiB, label);
    const blocks = await pool.open(name, 'live', 'write');
    t.after(() => blocks.close());
    await blocks.write(written(BLOCK, 1), 0n);
    await pool.freeze(name, 'p1');
    await blocks.write(written(BLOCK, 2), 0n);
    await pool.freeze(name, 'p1');
    const next = await world.open();
    assert.deepEqual((await next.scan()).copies[0]?.points, ['p1']);
    assert.ok((await readAll(next, name, 'p1')).subarray(0, BLOCK).equals(written(BLOCK, 1)));
    await rejects(pool.open(name, 'p1', 'write'), 'NotPermitted');
    await pool.release(name, 'p1');
    await pool.release(name, 'p1');
    assert.deepEqual((await pool.scan()).copies[0]?.points, []);
  });

  test('asking for a point that is gone is NotFound', async (t) => {
    const pool = await (await make(t, 64n * MiB)).open();
    const { name, label } = aCopy();
    await pool.create(name, MiB, label);
    await pool.freeze(name, 'p1');
    await rejects(collect(pool.changed(name, 'p0', 'p1')), 'NotFound');
    await rejects(collect(pool.changed(name, 'p0', 'live')), 'NotFound');
    await rejects(collect(pool.changed(name, null, 'p9')), 'NotFound');
    await rejects(pool.open(name, 'p9', 'read'), 'NotFound');
  });

  test('what grew since a point and was not written is not told, and what was written there is', async (t) => {
    const pool = await (await make(t, 64n * MiB)).open();
    const { name, label } = aCopy();
    await pool.create(name, MiB, label);
    await pool.freeze(name, 'p1');
    await pool.grow(name, 3n * MiB);
    if (zeros) assert.deepEqual(await collect(pool.changed(name, 'p1', 'live')), []);
    const blocks = await pool.open(name, 'live', 'write');
    await blocks.write(written(BLOCK, 1), 2n * MiB);
    await blocks.close();
    await pool.freeze(name, 'p2');
    const grown = zeros ? { offset: 2n * MiB, length: BigInt(block) } : { offset: MiB, length: 2n * MiB };
    assert.deepEqual(await collect(pool.changed(name, 'p1', 'p2')), [{ ...grown, kind: 'DATA' }]);
  });

  test('what was zeroed since a point is told, and nothing else', async (t) => {
    const pool = await (await make(t, 64n * MiB)).open();
    const { name, label } = aCopy();
    await pool.create(name, MiB, label);
    const blocks = await pool.open(name, 'live', 'write');
    t.after(() => blocks.close());
    await blocks.write(written(Number(MiB), 1), 0n);
    await pool.freeze(name, 'p1');
    await blocks.zero(65536n, 131072n);
    await blocks.sync();
    assert.deepEqual(await collect(pool.changed(name, 'p1', 'live')), [{ offset: 65536n, length: 131072n, kind: zeros ? 'ZERO' : 'DATA' }]);
  });

  test('between any two points of a history, what changed makes the one from the other: nothing is missed', async (t) => {
    const pool = await (await make(t, 64n * MiB)).open();
    for (let seed = 1; seed <= histories; seed += 1) await checkHistory(pool, seed, ['p1', 'p2', 'p3']);
  });
}

/** Writes at random, holds points between, and compares what is told with the bytes themselves. */
async function checkHistory(pool: Pool, seed: number, points: string[]): Promise<void> {
  const random = numbers(seed);
  const { name, label } = aCopy(`h${seed}`, { volumeMode: 'Block' });
  const size = await pool.create(name, 2n * MiB, label);
  const model = Buffer.alloc(Number(size));
  const states = new Map<string | null, Buffer>([[null, Buffer.alloc(Number(size))]]);
  const blocks = await pool.open(name, 'live', 'write');
  for (const point of [...points, 'live']) {
    for (let count = 0; count < 30; count += 1) await change(blocks, model, random);
    await blocks.sync();
    if (point !== 'live') await pool.freeze(name, point);
    states.set(point, Buffer.from(model));
  }
  await blocks.close();
  for (const from of [null, ...points]) {
    for (const to of [...points, 'live']) await checkPair({ pool, name, seed }, [from, to], states);
  }
  await pool.remove(name, 'none');
}

async function change(blocks: BlockHandle, model: Buffer, random: (below: number) => number): Promise<void> {
  const block = random(model.length / BLOCK);
  const length = Math.min(1 + random(12), model.length / BLOCK - block) * BLOCK;
  const offset = block * BLOCK;
  if (random(4) === 0) {
    await blocks.zero(BigInt(offset), BigInt(length));
    model.fill(0, offset, offset + length);
    return;
  }
  const bytes = written(length, random(2 ** 30));
  await blocks.write(bytes, BigInt(offset));
  bytes.copy(model, offset);
}

async function checkPair(
  at: { pool: Pool; name: string; seed: number },
  pair: [string | null, string],
  states: Map<string | null, Buffer>,
): Promise<void> {
  const [from, to] = pair;
  const where = `seed ${at.seed}, from ${from} to ${to}`;
  const wanted = states.get(to) ?? assert.fail();
  const made = Buffer.from(states.get(from) ?? assert.fail());
  const real = await readAll(at.pool, at.name, to);
  assert.ok(real.equals(wanted), `${where}: the bytes are what was written`);
  let end = 0n;
  for (const { offset, length, kind } of await collect(at.pool.changed(at.name, from, to))) {
    assert.ok(offset >= end && length > 0n, `${where}: sorted, without overlaps`);
    assert.ok(offset % 4096n === 0n && length % 4096n === 0n, `${where}: aligned`);
    end = offset + length;
    if (kind === 'DATA') wanted.copy(made, Number(offset), Number(offset), Number(end));
    else made.fill(0, Number(offset), Number(end));
  }
  assert.ok(end <= BigInt(wanted.length), `${where}: within the copy`);
  assert.ok(made.equals(wanted), `${where}: nothing was missed`);
}
