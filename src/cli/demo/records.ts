// Numbered records of 4 KiB in a raw file, one after the other, each with its own checksum: what an application without a filesystem
// writes. Each is on the disk before it is acknowledged.
import { closeSync, constants, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { FlockError } from '../../model/errors.ts';
import { checksumOf } from './acknowledged.ts';
import type { Committing, Held } from './commits.ts';

export const RECORD = 4096;
const NUMBER = 8;
const CHECKSUM = 32;
/** What of a record is its payload. */
export const PAYLOAD = RECORD - NUMBER - CHECKSUM;

/** `from`: where in the file the first record lies. */
export function openRecords(file: string, from: number): Committing {
  const fd = openSync(file, constants.O_RDWR | constants.O_DSYNC);
  const room = roomIn(fd, from);
  return {
    next: lastOf(fd, from, room) + 1,
    commit: (number, payload) => {
      if (number > room) throw new FlockError('NoSpace', `${file} has room for ${room} records and is full`);
      writeSync(fd, recordOf(number, payload), 0, RECORD, from + (number - 1) * RECORD);
    },
    close: () => closeSync(fd),
  };
}

const roomIn = (fd: number, from: number): number => Math.floor((fstatSync(fd).size - from) / RECORD);

function recordOf(number: number, payload: Uint8Array): Buffer {
  const record = Buffer.alloc(RECORD);
  record.writeBigUInt64LE(BigInt(number));
  record.set(payload, NUMBER);
  record.write(checksumOf(number, record.subarray(NUMBER, NUMBER + PAYLOAD)), RECORD - CHECKSUM, 'hex');
  return record;
}

/** Its number and checksum; null when it is not whole. */
function readRecord(record: Buffer): { number: number; checksum: string } | null {
  const number = Number(record.readBigUInt64LE());
  if (number === 0) return null;
  const checksum = checksumOf(number, record.subarray(NUMBER, NUMBER + PAYLOAD));
  return record.toString('hex', RECORD - CHECKSUM) === checksum ? { number, checksum } : null;
}

function recordAt(fd: number, offset: number): ReturnType<typeof readRecord> {
  const record = Buffer.alloc(RECORD);
  return readSync(fd, record, 0, RECORD, offset) === RECORD ? readRecord(record) : null;
}

/** They lie without gaps: the last one is found by halving. */
function lastOf(fd: number, from: number, room: number): number {
  let [there, missing] = [0, room + 1];
  while (missing - there > 1) {
    const middle = Math.floor((there + missing) / 2);
    if (recordAt(fd, from + (middle - 1) * RECORD)?.number === middle) there = middle;
    else missing = middle;
  }
  return there;
}

export function readRecords(file: string, from: number): Held {
  const fd = openSync(file, 'r');
  try {
    const commits = new Map<number, string>();
    const room = roomIn(fd, from);
    for (let number = 1; number <= room; number += 1) {
      const record = recordAt(fd, from + (number - 1) * RECORD);
      if (record?.number === number) commits.set(number, record.checksum);
    }
    const last = [...commits.keys()].at(-1) ?? 0;
    return {
      commits,
      wholeness: { text: 'the records lie without gaps, and each matches the checksum within it', holds: commits.size === last },
    };
  } finally {
    closeSync(fd);
  }
}
