// Both places where the demo's application commits: what is committed is found, in order, by the next process too, and damage is told.
import assert from 'node:assert/strict';
import { open, truncate, writeFile } from 'node:fs/promises';
import { DatabaseSync } from 'node:sqlite';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { isReason } from '../../model/errors.ts';
import { temporaryFolder } from '../../testing/folders.ts';
import { checksumOf } from './acknowledged.ts';
import type { Committing, Held } from './commits.ts';
import { openDatabase, readDatabase } from './database.ts';
import { openRecords, PAYLOAD, readRecords, RECORD } from './records.ts';

const FROM = 3 * RECORD;
const ROOM = 8;

interface Place {
  file: string;
  open(): Committing;
  read(): Held;
}

const PLACES: { [name: string]: (t: TestContext) => Promise<Place> } = {
  'a database': async (t) => {
    const file = join(await temporaryFolder(t), 'db');
    return { file, open: () => openDatabase(file), read: () => readDatabase(file) };
  },
  'a raw file': async (t) => {
    const file = join(await temporaryFolder(t), 'raw');
    await writeFile(file, '');
    await truncate(file, FROM + ROOM * RECORD);
    return { file, open: () => openRecords(file, FROM), read: () => readRecords(file, FROM) };
  },
};

const payload = (number: number): Buffer => Buffer.alloc(PAYLOAD, number);
const expected = (...numbers: number[]): Map<number, string> =>
  new Map(numbers.map((number) => [number, checksumOf(number, payload(number))]));

function commit(place: Place, count: number): void {
  const commits = place.open();
  for (let number = commits.next, left = count; left > 0; number += 1, left -= 1) commits.commit(number, payload(number));
  commits.close();
}

for (const [name, make] of Object.entries(PLACES)) {
  test(`${name} gives back what was committed, and the next process goes on with the next number`, async (t) => {
    const place = await make(t);
    commit(place, 3);
    commit(place, 2);
    const { commits, wholeness } = place.read();
    assert.deepEqual(commits, expected(1, 2, 3, 4, 5));
    assert.equal(wholeness.holds, true);
  });

  test(`an empty ${name.slice(2)} begins with commit 1`, async (t) => {
    const commits = (await make(t)).open();
    assert.equal(commits.next, 1);
    commits.close();
  });
}

test('a payload that was changed in the database has another checksum', async (t) => {
  const place = await PLACES['a database']!(t);
  commit(place, 2);
  const database = new DatabaseSync(place.file);
  database.exec(`UPDATE commits SET payload = x'00' WHERE number = 2`);
  database.close();
  assert.notEqual(place.read().commits.get(2), expected(2).get(2));
});

test('a record with a turned bit is not found, and the gap is told', async (t) => {
  const place = await PLACES['a raw file']!(t);
  commit(place, 4);
  await using file = await open(place.file, 'r+');
  await file.write(Buffer.of(0xff), 0, 1, FROM + RECORD + 100);
  const { commits, wholeness } = place.read();
  assert.deepEqual([...commits.keys()], [1, 3, 4]);
  assert.equal(wholeness.holds, false);
});

test('a record whose number was lost does not pass for another one', async (t) => {
  const place = await PLACES['a raw file']!(t);
  commit(place, 2);
  await using file = await open(place.file, 'r+');
  const record = Buffer.alloc(RECORD);
  await file.read(record, 0, RECORD, FROM + RECORD);
  await file.write(record, 0, RECORD, FROM);
  assert.deepEqual([...place.read().commits.keys()], [2]);
});

test('a full raw file takes no more, and keeps what it has', async (t) => {
  const place = await PLACES['a raw file']!(t);
  commit(place, ROOM);
  assert.throws(
    () => commit(place, 1),
    (error) => isReason(error, 'NoSpace'),
  );
  assert.equal(place.read().commits.size, ROOM);
});
