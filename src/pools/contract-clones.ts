// The part of the contract about snapshots and clones: a snapshot is booked, and a clone is a copy of its own that begins with a point's bytes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noCrash } from '../model/crash.ts';
import { snapshotPoint } from '../model/points.ts';
import { aCopy } from '../testing/labels.ts';
import { readAll, written } from './contract-bytes.ts';
import { rejects, type PoolFactory, type PoolWorld } from './contract-world.ts';
import type { Pool } from './pool.ts';

const MiB = 1n << 20n;
const BLOCK = 4096;
const POINT = snapshotPoint('0123456789ab-cdef');

async function write(pool: Pool, name: string, seed: number): Promise<void> {
  const blocks = await pool.open(name, 'live', 'write');
  try {
    await blocks.write(written(BLOCK, seed), 0n);
    await blocks.sync();
  } finally {
    await blocks.close();
  }
}

/** A copy of 2 MiB whose snapshot has 1 at its begin, and which has 2 there since. */
async function snapshotted(pool: Pool): Promise<string> {
  const { name, label } = aCopy('origin', { volumeMode: 'Block' });
  await pool.create(name, 2n * MiB, label);
  await write(pool, name, 1);
  await pool.freeze(name, POINT);
  await write(pool, name, 2);
  return name;
}

async function checkClone(world: PoolWorld, name: string, size: bigint): Promise<void> {
  const wanted = Buffer.alloc(Number(size));
  written(BLOCK, 1).copy(wanted);
  assert.ok((await readAll(await world.open(), name, 'live')).equals(wanted));
}

export function clonesContract(make: PoolFactory): void {
  test('a clone has the bytes of its point, zeros beyond, and a life of its own', async (t) => {
    const world = await make(t, 64n * MiB);
    const pool = await world.open();
    const origin = await snapshotted(pool);
    const { name, label } = aCopy('clone');
    assert.equal(await pool.clone(name, 3n * MiB + 1n, label, { copy: origin, point: POINT }), 3n * MiB + 4096n);
    await checkClone(world, name, 3n * MiB + 4096n);
    await pool.release(origin, POINT);
    await pool.remove(origin, 'zero');
    await checkClone(world, name, 3n * MiB + 4096n);
    await write(pool, name, 3);
    assert.ok((await readAll(pool, name, 'live')).subarray(0, BLOCK).equals(written(BLOCK, 3)));
    await pool.remove(name, 'none');
    assert.deepEqual(await world.leftovers(), []);
  });

  test('a clone is made once, with its first size and label', async (t) => {
    const pool = await (await make(t, 64n * MiB)).open();
    const origin = await snapshotted(pool);
    const { name, label } = aCopy('clone');
    await pool.clone(name, 2n * MiB, label, { copy: origin, point: POINT });
    await write(pool, name, 7);
    assert.equal(await pool.clone(name, 4n * MiB, { ...label, epoch: 9 }, { copy: origin, point: POINT }), 2n * MiB);
    assert.ok((await readAll(pool, name, 'live')).subarray(0, BLOCK).equals(written(BLOCK, 7)));
  });

  test('a clone too small, of nothing, or without room is refused and leaves nothing', async (t) => {
    const pool = await (await make(t, 16n * MiB)).open();
    const origin = await snapshotted(pool);
    const { name, label } = aCopy('clone');
    await rejects(pool.clone(name, MiB, label, { copy: origin, point: POINT }), 'Invalid', /too small/u);
    await rejects(pool.clone(name, 2n * MiB, label, { copy: origin, point: snapshotPoint('ffffffffffff-0000') }), 'NotFound');
    await rejects(pool.clone(name, 2n * MiB, label, { copy: aCopy('none').name, point: POINT }), 'NotFound');
    await rejects(pool.clone(name, 65n * MiB, label, { copy: origin, point: POINT }), 'NoSpace');
    await rejects(pool.clone(name, 2n * MiB, label, { copy: '../x', point: POINT }), 'Invalid');
    assert.deepEqual(
      (await pool.scan()).copies.map((copy) => copy.name),
      [origin],
    );
  });

  test('a snapshot is booked like a copy unless the pool is thin, and refused without room', async (t) => {
    const pool = await (await make(t, 16n * MiB)).open();
    const origin = await snapshotted(pool);
    const kept = pool.thin ? 2n : 4n;
    assert.equal((await pool.room()).booked, kept * MiB);
    await pool.release(origin, POINT);
    assert.equal((await pool.room()).booked, 2n * MiB);
    if (pool.thin) return;
    await pool.grow(origin, 9n * MiB);
    await rejects(pool.freeze(origin, POINT), 'NoSpace');
  });

  test('cut off at any place, a clone is whole or not there, and is made in the end', async (t) => {
    const world = await make(t, 64n * MiB);
    const origin = await snapshotted(await world.open());
    const places: string[] = [];
    const clone = (pool: Pool, id: string): Promise<bigint> =>
      pool.clone(aCopy(id).name, 3n * MiB, aCopy(id).label, { copy: origin, point: POINT });
    await clone(await world.open((place) => places.push(place)), 'all');
    assert.ok(places.length > 0);
    for (const [index, place] of places.entries()) {
      let left = index;
      const crash = (): void => {
        if (left-- === 0) throw new Error(`crashed at ${place}`);
      };
      const { name } = aCopy(`c${index}`);
      await assert.rejects(clone(await world.open(crash), `c${index}`), /crashed at/u, place);
      const next = await world.open(noCrash);
      if ((await next.scan()).copies.some((copy) => copy.name === name)) await checkClone(world, name, 3n * MiB);
      await clone(next, `c${index}`);
      await checkClone(world, name, 3n * MiB);
    }
  });
}
