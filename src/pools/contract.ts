// What every pool promises, as one suite of tests that each backend passes: give it a way to make a world and it declares the tests.
// Knows no backend.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { alignedBuffer } from '../host/aligned.ts';
import { noCrash } from '../model/crash.ts';
import { isReason } from '../model/errors.ts';
import { roundUp } from '../model/quantity.ts';
import { aCopy } from '../testing/labels.ts';
import { clonesContract } from './contract-clones.ts';
import { changesContract } from './contract-changes.ts';
import { readAll, written } from './contract-bytes.ts';
import { openedAs, rejects, type PoolFactory, type PoolTraits } from './contract-world.ts';
import type { Pool } from './pool.ts';

const MiB = 1n << 20n;
const GiB = 1n << 30n;

export function poolContract(title: string, traits: PoolTraits, make: PoolFactory): void {
  describe(title, { skip: traits.skip ?? false }, () => {
    copiesContract(make);
    roomContract(make);
    if (traits.blocks !== false) bytesContract(make);
    usersContract(make, traits);
    crashContract(make, traits);
    changesContract(make, traits);
    if (traits.points) clonesContract(make);
  });
}

function copiesContract(make: PoolFactory): void {
  test('says what it is and that it is still there', async (t) => {
    const pool = await (await make(t, 64n * MiB)).open();
    await pool.verify();
    assert.match(pool.uuid, /^[0-9a-f-]{36}$/u);
    assert.equal(pool.unit, 4096n);
  });

  test('a size is rounded up once, and the disk, the label and the booking agree', async (t) => {
    const pool = await (await make(t, 12n * GiB)).open();
    const { name, label } = aCopy();
    for (const size of [1n, 511n, 513n, 4096n, 1073741825n, 11362347344n]) {
      const real = await pool.create(name, size, label);
      assert.equal(real, roundUp(size, 4096n));
      const [copy] = (await pool.scan()).copies;
      assert.deepEqual([copy?.size, copy?.label.size], [real, String(real)]);
      assert.equal((await pool.room()).booked, real);
      await pool.remove(name, 'none');
    }
  });

  test('a copy made twice is one, with its first size and label', async (t) => {
    const pool = await (await make(t, 64n * MiB)).open();
    const { name, label } = aCopy();
    await pool.create(name, 4n * MiB, label);
    assert.equal(await pool.create(name, 8n * MiB, { ...label, epoch: 9 }), 4n * MiB);
    const { copies } = await pool.scan();
    assert.deepEqual(
      copies.map((copy) => [copy.name, copy.label.epoch, copy.device]),
      [[name, 1, null]],
    );
  });

  test('a label is replaced whole, but for the size, which is what the disk says', async (t) => {
    const world = await make(t, 64n * MiB);
    const pool = await world.open();
    const { name, label } = aCopy();
    await pool.create(name, 4n * MiB, label);
    await pool.relabel(name, { ...label, epoch: 7, role: 'retired', size: '1' });
    const [copy] = (await (await world.open()).scan()).copies;
    assert.deepEqual(copy?.label, { ...label, epoch: 7, role: 'retired', size: String(4n * MiB) });
  });

  test('what is nobody’s copy is listed and left as it is', async (t) => {
    const world = await make(t, 64n * MiB);
    const pool = await world.open();
    const planted = await world.plantForeign();
    const { name, label } = aCopy();
    await pool.create(name, MiB, label);
    assert.deepEqual((await pool.scan()).foreign, [planted]);
    await pool.remove(name, 'zero');
    assert.deepEqual((await pool.scan()).foreign, [planted]);
    assert.ok(await world.isForeignIntact());
  });

  test('a copy that is not there is NotFound, and removed already', async (t) => {
    const pool = await (await make(t, 64n * MiB)).open();
    const { name, label } = aCopy();
    await rejects(pool.grow(name, MiB), 'NotFound');
    await rejects(pool.relabel(name, label), 'NotFound');
    await rejects(openedAs(pool, name, 'read'), 'NotFound');
    await rejects(pool.hold(name), 'NotFound');
    await pool.detach(name);
    await pool.remove(name, 'none');
  });

  test('a name that is not ours is refused everywhere, and nothing on the disk changes', async (t) => {
    const world = await make(t, 64n * MiB);
    const pool = await world.open();
    for (const name of ['../x', 'a/b', '.', '', 'live.img', '\0', '%2e%2e', 'ü', 'x'.repeat(4096), `${aCopy().name}/../y`]) {
      await rejects(pool.create(name, MiB, aCopy().label), 'Invalid');
      await rejects(pool.grow(name, MiB), 'Invalid');
      await rejects(pool.remove(name, 'none'), 'Invalid');
      await rejects(pool.open(name, 'live', 'read'), 'Invalid');
      await rejects(pool.relabel(name, aCopy().label), 'Invalid');
      await rejects(pool.release(aCopy().name, name), 'Invalid');
      await rejects(pool.detach(name), 'Invalid');
      await rejects(pool.hold(name), 'Invalid');
    }
    assert.deepEqual(await world.leftovers(), []);
  });
}

function roomContract(make: PoolFactory): void {
  test('of five parallel 3 GiB on a budget of 10 GiB exactly three succeed, two are NoSpace, and nothing is left of them', async (t) => {
    const world = await make(t, 10n * GiB);
    const pool = await world.open();
    for (let round = 0; round < 3; round += 1) {
      const copies = [1, 2, 3, 4, 5].map((each) => aCopy(`r${round}c${each}`));
      const answers = await Promise.allSettled(copies.map(({ name, label }) => pool.create(name, 3n * GiB, label)));
      const failed = answers.filter((answer) => answer.status === 'rejected');
      assert.equal(failed.length, 2);
      assert.ok(failed.every(({ reason }) => isReason(reason, 'NoSpace')));
      const { booked, free, capacity } = await pool.room();
      assert.deepEqual([capacity, booked], [10n * GiB, 9n * GiB]);
      assert.ok(free <= GiB);
      const there = (await pool.scan()).copies;
      assert.equal(there.length, 3);
      for (const { name } of there) await pool.remove(name, 'none');
      assert.deepEqual(await world.leftovers(), []);
    }
  });

  test('two processes do not promise the same room', async (t) => {
    const world = await make(t, 10n * GiB);
    const pools = [await world.open(), await world.open()];
    const asked = pools.flatMap((pool, index) =>
      [1, 2].map((each) => aCopy(`p${index}c${each}`)).map(({ name, label }) => pool.create(name, 4n * GiB, label)),
    );
    const answers = await Promise.allSettled(asked);
    assert.equal(answers.filter(({ status }) => status === 'fulfilled').length, 2);
  });

  test('a copy grown to 203 MiB has at least that, once and again, and never shrinks', async (t) => {
    const pool = await (await make(t, 400n * MiB)).open();
    const { name, label } = aCopy();
    await pool.create(name, 100n * MiB, label);
    const asked = 203n * MiB - 1n;
    assert.equal(await pool.grow(name, asked), roundUp(asked, pool.unit));
    assert.equal(await pool.grow(name, asked), 203n * MiB);
    assert.equal(await pool.grow(name, MiB), 203n * MiB);
    const [copy] = (await pool.scan()).copies;
    assert.deepEqual([copy?.size, copy?.label.size], [203n * MiB, String(203n * MiB)]);
    assert.equal((await pool.room()).booked, 203n * MiB);
  });

  test('a growth without room is NoSpace and leaves everything as it was', async (t) => {
    const pool = await (await make(t, 64n * MiB)).open();
    const { name, label } = aCopy();
    await pool.create(name, 32n * MiB, label);
    await rejects(pool.grow(name, 65n * MiB), 'NoSpace', /room for/u);
    await rejects(pool.grow(name, (1n << 63n) - 1n), 'NoSpace');
    await rejects(pool.create(aCopy('b2').name, (1n << 63n) - 1n, label), 'NoSpace');
    await rejects(pool.create(aCopy('b2').name, 10n << 50n, label), 'NoSpace');
    await rejects(pool.create(aCopy('b2').name, 0n, label), 'Invalid');
    await rejects(pool.create(aCopy('b2').name, -1n, label), 'Invalid');
    assert.equal((await pool.room()).booked, 32n * MiB);
    assert.equal((await pool.scan()).copies[0]?.size, 32n * MiB);
  });
}

function bytesContract(make: PoolFactory): void {
  test('what was written is read, what was zeroed is zeros, at the very end too', async (t) => {
    const world = await make(t, 64n * MiB);
    const pool = await world.open();
    const { name, label } = aCopy();
    const size = await pool.create(name, 2n * MiB + 1n, label);
    const blocks = await pool.open(name, 'live', 'write');
    t.after(() => blocks.close());
    assert.equal(blocks.size, size);
    await blocks.write(written(Number(size), 3), 0n);
    await blocks.zero(4096n, 8192n);
    await blocks.zero(size - 4096n, 4096n);
    await blocks.sync();
    const wanted = written(Number(size), 3);
    wanted.fill(0, 4096, 12288);
    wanted.fill(0, Number(size) - 4096);
    assert.ok((await readAll(await world.open(), name, 'live')).equals(wanted));
  });

  test('reads and writes beyond the end are refused', async (t) => {
    const pool = await (await make(t, 64n * MiB)).open();
    const { name, label } = aCopy();
    await pool.create(name, MiB, label);
    const blocks = await pool.open(name, 'live', 'write');
    t.after(() => blocks.close());
    await rejects(blocks.read(alignedBuffer(8192), MiB - 4096n), 'Invalid');
    await rejects(blocks.write(alignedBuffer(8192), MiB - 4096n), 'Invalid');
    await rejects(blocks.zero(MiB - 4096n, 8192n), 'Invalid');
  });

  test('what was opened for reading cannot be written', async (t) => {
    const pool = await (await make(t, 64n * MiB)).open();
    const { name, label } = aCopy();
    await pool.create(name, MiB, label);
    const blocks = await pool.open(name, 'live', 'read');
    t.after(() => blocks.close());
    await rejects(blocks.write(alignedBuffer(4096), 0n), 'NotPermitted');
    await rejects(blocks.zero(0n, 4096n), 'NotPermitted');
  });

  for (const wipe of ['none', 'discard', 'zero'] as const)
    test(`the next tenant sees zeros and nothing of the last one, wiped by ${wipe}`, async (t) => {
      const pool = await (await make(t, 16n * MiB)).open();
      const { name, label } = aCopy('a1', { volumeMode: 'Block' });
      for (let tenant = 0; tenant < 3; tenant += 1) {
        const size = await pool.create(name, 12n * MiB, label);
        const bytes = await readAll(pool, name, 'live');
        assert.ok(bytes.equals(Buffer.alloc(Number(size))), 'a new copy reads as zeros');
        const blocks = await pool.open(name, 'live', 'write');
        await blocks.write(written(Number(size), tenant + 1), 0n);
        await blocks.sync();
        await blocks.close();
        await pool.remove(name, wipe);
      }
      assert.equal((await pool.room()).booked, 0n);
    });
}

function usersContract(make: PoolFactory, traits: PoolTraits): void {
  test('says whether it has points and can attach', async (t) => {
    const pool = await (await make(t, 64n * MiB)).open();
    assert.deepEqual([pool.points, pool.attachable], [traits.points, traits.attachable]);
  });

  test('a hold keeps out other holds, writers and removal, and lets readers and labels in', async (t) => {
    const pool = await (await make(t, 64n * MiB)).open();
    const { name, label } = aCopy();
    await pool.create(name, MiB, label);
    const hold = await pool.hold(name);
    t.after(() => hold.release());
    await rejects(pool.hold(name), 'InUse');
    await rejects(openedAs(pool, name, 'write'), 'InUse');
    await rejects(pool.remove(name, 'none'), 'InUse');
    await pool.relabel(name, { ...label, role: 'retired' });
    await (await openedAs(pool, name, 'read')).close();
    await hold.release();
    await (await pool.hold(name)).release();
    await pool.remove(name, 'none');
  });

  test('a writer keeps out holds and removal until it closes', async (t) => {
    const pool = await (await make(t, 64n * MiB)).open();
    const { name, label } = aCopy();
    await pool.create(name, MiB, label);
    const blocks = await openedAs(pool, name, 'write');
    await rejects(pool.hold(name), 'InUse');
    await rejects(pool.remove(name, 'none'), 'InUse');
    await blocks.close();
    await blocks.close();
    await (await pool.hold(name)).release();
  });

  test('a held copy, and one that is being written, cannot be attached', async (t) => {
    const pool = await (await make(t, 64n * MiB)).open();
    const { name, label } = aCopy();
    await pool.create(name, MiB, label);
    const hold = await pool.hold(name);
    await rejects(pool.attach(name), 'InUse');
    await hold.release();
    const blocks = await openedAs(pool, name, 'write');
    await rejects(pool.attach(name), 'InUse');
    await blocks.close();
    await pool.attach(name);
    await pool.detach(name);
  });

  if (traits.attachable) attachedContract(make);
  else
    test('hands out the raw file itself where it cannot attach: no device is told, and with no writer it is free', async (t) => {
      const pool = await (await make(t, 64n * MiB)).open();
      const { name, label } = aCopy();
      await pool.create(name, MiB, label);
      const file = await pool.attach(name);
      assert.ok(file.includes(name), file);
      assert.equal(await pool.attach(name), file);
      assert.equal((await pool.scan()).copies[0]?.device, null);
      await pool.detach(name);
      await (await pool.hold(name)).release();
      await pool.remove(name, 'none');
    });
}

function attachedContract(make: PoolFactory): void {
  test('an attached copy has one device, told by the inventory of the next process too, and is kept from hold, writers and removal', async (t) => {
    const world = await make(t, 64n * MiB);
    const pool = await world.open();
    const { name, label } = aCopy();
    await pool.create(name, MiB, label);
    const device = await pool.attach(name);
    t.after(() => pool.detach(name));
    assert.equal(await pool.attach(name), device);
    const next = await world.open();
    assert.equal((await next.scan()).copies[0]?.device, device);
    assert.equal(await next.attach(name), device);
    await rejects(pool.hold(name), 'InUse', /attached as/u);
    await rejects(pool.open(name, 'live', 'write'), 'InUse', /attached as/u);
    await rejects(pool.remove(name, 'none'), 'InUse', /attached as/u);
    await pool.detach(name);
    await pool.detach(name);
    assert.equal((await pool.scan()).copies[0]?.device, null);
    await pool.remove(name, 'none');
  });
}

/** The life of a copy; every place where it can be cut off lies in here. */
async function lifeOf(pool: Pool, id: string): Promise<void> {
  const { name, label } = aCopy(id);
  await pool.create(name, MiB, label);
  if (pool.points) await pool.freeze(name, 'p1');
  await pool.grow(name, 2n * MiB);
  await pool.relabel(name, { ...label, role: 'stale' });
  await pool.remove(name, 'zero');
}

function crashContract(make: PoolFactory, traits: PoolTraits): void {
  test('cut off at any place and started again, a copy’s life goes on to its end and leaves nothing', async (t) => {
    const world = await make(t, 64n * MiB);
    const places: string[] = [];
    await lifeOf(await world.open((place) => places.push(place)), 'all');
    assert.ok(places.length >= (traits.points ? 5 : 4), `places: ${places.join(', ')}`);
    for (const [index, place] of places.entries()) {
      let left = index;
      const crash = (): void => {
        if (left-- === 0) throw new Error(`crashed at ${place}`);
      };
      await assert.rejects(lifeOf(await world.open(crash), `c${index}`), /crashed at/u, place);
      const next = await world.open(noCrash);
      const { copies, foreign } = await next.scan();
      assert.deepEqual(foreign, [], place);
      for (const { size, label } of copies) assert.equal(String(size), label.size, place);
      await lifeOf(next, `c${index}`);
      assert.deepEqual(await world.leftovers(), [], place);
    }
  });
}
