// The journal on real files: what was appended is there after any end of the process, and what was torn is not believed.
import assert from 'node:assert/strict';
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import type { Pool } from '../pools/pool.ts';
import { temporaryFolder, type Test } from '../testing/folders.ts';
import { aMemoryPool, TARGET, MOVE_UID } from '../testing/transfer-rig.ts';
import { VOLUME_UID } from '../testing/labels.ts';
import { hashing } from './hashing.ts';
import { dropJournal, Journal, readJournal } from './journal.ts';
import { replay, type Begun, type Completed } from './journal-records.ts';
import { LeafTable, leafLength, zeroHash } from './leaves.ts';

const WHOSE = { moveUid: MOVE_UID, volumeUid: VOLUME_UID, epoch: 1, copy: TARGET.name };
const BEGUN: Begun = { round: 0, final: false, cbt: 'full', manifest: 'm', plan: 'p', resumed: 0 };
const hashes = (count: number): Buffer => Buffer.alloc(count * 32, 7);
const COMPLETED: Completed = {
  report: {
    round: 0,
    bytesTotal: 900n,
    bytesSent: 400n,
    bytesResumed: 500n,
    frames: 3,
    allocated: 2n ** 60n,
    dirty: null,
    root: 'ab'.repeat(32),
    rate: 12,
    verified: null,
  },
  final: false,
  deviceBytes: 4096,
};

const open = (pool: Pool, empty = true, whose = WHOSE): Promise<Journal> => Journal.open(pool, whose, async () => empty);
const fileOf = (pool: Pool): string => join(pool.journals, `${TARGET.name}.journal`);

async function written(t: Test): Promise<{ pool: Pool; lengths: number[] }> {
  const pool = await aMemoryPool(t, 'target');
  const journal = await open(pool);
  const lengths = [(await readFile(fileOf(pool))).length];
  const steps = [
    () => journal.begin(BEGUN),
    () => journal.progress([{ first: 0, count: 3, hashes: hashes(3) }], 300),
    () => journal.begin({ ...BEGUN, resumed: 300 }),
    () =>
      journal.progress(
        [
          { first: 3, count: 1, hashes: hashes(1) },
          { first: 8, count: 2, hashes: hashes(2) },
        ],
        350,
      ),
    () => journal.complete(COMPLETED, 50),
    () => journal.begin({ ...BEGUN, round: 1, plan: 'q' }),
  ];
  for (const step of steps) {
    await step();
    lengths.push((await readFile(fileOf(pool))).length);
  }
  await journal.close();
  return { pool, lengths };
}

test('a journal says what was begun, proven and completed, and counts over attempts', async (t) => {
  const { pool } = await written(t);
  assert.deepEqual(await readJournal(pool, TARGET.name), {
    moveUid: MOVE_UID,
    completeRound: 0,
    root: 'ab'.repeat(32),
    verified: null,
    bytesSent: 700n,
    bytesResumed: 300n,
    rounds: [700n],
  });
  const journal = await open(pool);
  assert.deepEqual(journal.ledger.completed, COMPLETED);
  assert.equal(journal.ledger.begun?.round, 1);
  assert.deepEqual(journal.ledger.proven, []);
  await journal.close();
});

test('a journal torn at any byte holds the records before the tear, and goes on from there', async (t) => {
  const { pool, lengths } = await written(t);
  const whole = await readFile(fileOf(pool));
  for (let length = lengths[0] as number; length <= whole.length; length += 1) {
    const replayed = replay(whole.subarray(0, length));
    // Two ranges of one progress are two records.
    const last = lengths.findLast((end) => end <= length) as number;
    assert.ok(replayed && replayed.length >= last && replayed.length <= length, `torn at ${length}`);
    const garbled = Buffer.from(whole.subarray(0, length));
    if (length > last) garbled.writeUInt8(garbled.readUInt8(length - 1) ^ 0x55, length - 1);
    assert.ok((replay(garbled)?.length ?? 0) >= last, `garbled at ${length - 1}`);
  }
  await writeFile(fileOf(pool), whole.subarray(0, whole.length - 3));
  const journal = await open(pool);
  assert.equal((await readFile(fileOf(pool))).length, lengths[5]);
  await journal.begin({ ...BEGUN, round: 1, plan: 'r' });
  await journal.close();
  const again = await open(pool);
  assert.equal(again.ledger.begun?.plan, 'r');
  await again.close();
});

test('a turned bit before the end is where the journal ends', async (t) => {
  const { pool, lengths } = await written(t);
  const whole = await readFile(fileOf(pool));
  whole.writeUInt8(whole.readUInt8((lengths[1] as number) + 20) ^ 1, (lengths[1] as number) + 20);
  assert.equal(replay(whole)?.length, lengths[1]);
});

test('a journal of another move or epoch, or one that cannot be read, is replaced, and its copy is not called empty', async (t) => {
  const { pool } = await written(t);
  for (const whose of [
    { ...WHOSE, epoch: 2 },
    { ...WHOSE, moveUid: VOLUME_UID },
  ]) {
    const journal = await open(pool, true, whose);
    assert.equal(journal.ledger.made.pristine, false);
    assert.equal(journal.ledger.completed, null);
    await journal.close();
  }
  await writeFile(fileOf(pool), 'not a journal');
  assert.equal(await readJournal(pool, TARGET.name), null);
  const journal = await open(pool);
  assert.equal(journal.ledger.made.pristine, false);
  await journal.close();
});

test('plan and leaf table are taken only by their hashes, and all goes with the journal', async (t) => {
  const pool = await aMemoryPool(t, 'target');
  const journal = await open(pool);
  const plan = Buffer.from('plan');
  await journal.savePlan(plan);
  assert.deepEqual(await journal.plan(hashing.digest(plan).toString('hex')), plan);
  assert.equal(await journal.plan('00'), null);
  const size = 3 * 1024 * 1024 + 4096;
  const table = new LeafTable(size);
  for (let leaf = 0; leaf < table.count; leaf += 1) table.set(leaf, zeroHash(leafLength(leaf, size)));
  assert.equal(await journal.leaves(size, table.root()), null);
  await journal.saveLeaves(table);
  assert.deepEqual((await journal.leaves(size, table.root()))?.hashes, table.hashes);
  assert.equal(await journal.leaves(size, 'ab'.repeat(32)), null);
  assert.equal(await journal.leaves(size * 2, table.root()), null);
  await journal.close();
  await dropJournal(pool, TARGET.name);
  await dropJournal(pool, TARGET.name);
  assert.deepEqual(await readdir(pool.journals), []);
});

test('a folder of journals that is not there is an error, not an empty journal', async (t) => {
  const pool = await aMemoryPool(t, 'target');
  const gone = new Proxy(pool, { get: (of, name) => (name === 'journals' ? join(pool.journals, 'gone') : Reflect.get(of, name, of)) });
  await assert.rejects(open(gone));
  assert.notEqual(await temporaryFolder(t), pool.journals);
});
