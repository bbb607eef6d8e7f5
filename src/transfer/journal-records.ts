// The records of the target's journal and what a sequence of them proves. A record is length, CRC-32 (zlib's; it finds torn writes, no
// forgeries), type and body. A tail that is torn is cut: what it said was not promised. No I/O.
import { crc32 } from 'node:zlib';
import Type, { type Static } from 'typebox';
import { FlockError, messageOf } from '../model/errors.ts';
import { Verified } from '../model/move.ts';
import { HASH } from './hashing.ts';
import { parse } from './messages.ts';
import type { JournalState, RoundReport } from './transfer.ts';

const RECORD = { MADE: 1, BEGUN: 2, PROGRESS: 3, COMPLETE: 4 } as const;
type RecordType = (typeof RECORD)[keyof typeof RECORD];
const HEAD = 9;
const LONGEST = 16 * 1024 * 1024;

const Bytes = Type.String({ pattern: '^[0-9]{1,20}$' });
const Whole = Type.Integer({ minimum: 0 });
const TextOrNull = Type.Union([Type.String(), Type.Null()]);

/** Whose journal it is. */
export const Made = Type.Object({
  /** 2: blocks of several pieces. An older numbering of blocks would be misread: such a journal counts as unreadable. */
  version: Type.Literal(2),
  moveUid: Type.String(),
  volumeUid: Type.String(),
  epoch: Whole,
  copy: Type.String(),
  /** The copy was empty: what no round wrote reads as zeros. */
  pristine: Type.Boolean(),
});
export type Made = Static<typeof Made>;

/** A round's plan is on the disk, its bytes may follow. One an attempt. */
export const Begun = Type.Object({
  round: Whole,
  final: Type.Boolean(),
  cbt: Type.Union([Type.Literal('fiemap'), Type.Literal('hash'), Type.Literal('full')]),
  /** Hash of the source's manifest, and of the plan file made from it. */
  manifest: Type.String(),
  plan: Type.String(),
  /** Proven by earlier attempts of this round, bytes. */
  resumed: Whole,
});
export type Begun = Static<typeof Begun>;

/** Blocks `first` to `first + count` of the plan are on the disk; `hashes` are those of their bytes. */
export interface Proven {
  first: number;
  count: number;
  hashes: Buffer;
}

const Complete = Type.Object({
  round: Whole,
  final: Type.Boolean(),
  bytesTotal: Bytes,
  bytesSent: Bytes,
  bytesResumed: Bytes,
  frames: Whole,
  allocated: Bytes,
  dirty: TextOrNull,
  root: TextOrNull,
  rate: Type.Number(),
  deviceBytes: Whole,
  verified: Type.Union([Verified, Type.Null()]),
  /** Payload since the last record of progress. */
  sent: Whole,
});

export interface Completed {
  report: RoundReport;
  final: boolean;
  deviceBytes: number;
}

/** What a journal says in the end. */
export interface Ledger {
  made: Made;
  completed: Completed | null;
  /** The attempt that was not completed, and what of it is on the disk. */
  begun: Begun | null;
  proven: Proven[];
  state: JournalState;
  /** Payload of the round that is under way, over its attempts. */
  sentOfRound: bigint;
}

function record(type: RecordType, body: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(HEAD + body.length);
  bytes.writeUInt32BE(body.length, 0);
  bytes.writeUInt8(type, 8);
  body.copy(bytes, HEAD);
  bytes.writeUInt32BE(crc32(bytes.subarray(8), bytes.readUInt32BE(0)), 4);
  return bytes;
}

const json = (value: object): Buffer => Buffer.from(JSON.stringify(value));

export const madeRecord = (made: Made): Buffer => record(RECORD.MADE, json(made));
export const begunRecord = (begun: Begun): Buffer => record(RECORD.BEGUN, json(begun));

/** `sent`: payload since the last record, bytes; it counts once, with the first of several ranges. */
export function progressRecord(proven: Proven, sent: number): Buffer {
  const head = Buffer.alloc(16);
  head.writeUInt32BE(proven.first, 0);
  head.writeUInt32BE(proven.count, 4);
  head.writeBigUInt64BE(BigInt(sent), 8);
  return record(RECORD.PROGRESS, Buffer.concat([head, proven.hashes]));
}

export function completeRecord(completed: Completed, sent: number): Buffer {
  const { report, final, deviceBytes } = completed;
  return record(
    RECORD.COMPLETE,
    json({
      ...report,
      final,
      deviceBytes,
      sent,
      bytesTotal: String(report.bytesTotal),
      bytesSent: String(report.bytesSent),
      bytesResumed: String(report.bytesResumed),
      allocated: String(report.allocated),
      dirty: report.dirty === null ? null : String(report.dirty),
    }),
  );
}

/** Replays a journal. `length`: up to where it is whole. Null when not even its first record is: it promised nothing. Throws Corrupt. */
export function replay(bytes: Buffer): { ledger: Ledger; length: number } | null {
  let ledger: Ledger | null = null;
  let at = 0;
  for (let next = recordAt(bytes, at); next; next = recordAt(bytes, at)) {
    ledger = apply(ledger, next.type, next.body);
    at += HEAD + next.body.length;
  }
  return ledger && { ledger, length: at };
}

function recordAt(bytes: Buffer, at: number): { type: number; body: Buffer } | null {
  if (at + HEAD > bytes.length) return null;
  const length = bytes.readUInt32BE(at);
  if (length > LONGEST || at + HEAD + length > bytes.length) return null;
  if (crc32(bytes.subarray(at + 8, at + HEAD + length), length) !== bytes.readUInt32BE(at + 4)) return null;
  return { type: bytes.readUInt8(at + 8), body: bytes.subarray(at + HEAD, at + HEAD + length) };
}

function apply(ledger: Ledger | null, type: number, body: Buffer): Ledger {
  try {
    if (type === RECORD.MADE) return ledgerOf(parse(Made, body, 'the first record'));
    if (!ledger) throw new FlockError('Corrupt', 'its first record does not say whose it is');
    if (type === RECORD.BEGUN) return begin(ledger, parse(Begun, body, 'a record of a begun round'));
    if (type === RECORD.PROGRESS) return progress(ledger, body);
    if (type === RECORD.COMPLETE) return complete(ledger, parse(Complete, body, 'a record of a complete round'));
    throw new FlockError('Corrupt', `type ${type} is not known`);
  } catch (error) {
    throw new FlockError('Corrupt', `a journal holds a record that cannot be: ${messageOf(error)}`, { cause: error });
  }
}

const ledgerOf = (made: Made): Ledger => ({
  made,
  completed: null,
  begun: null,
  proven: [],
  sentOfRound: 0n,
  state: { moveUid: made.moveUid, completeRound: null, root: null, verified: null, bytesSent: 0n, bytesResumed: 0n, rounds: [] },
});

function begin(ledger: Ledger, begun: Begun): Ledger {
  // Another plan is another numbering of blocks: what was proven under the old one says nothing.
  if (ledger.begun?.plan !== begun.plan || ledger.begun.round !== begun.round) ledger.proven = [];
  if (ledger.begun?.round !== begun.round) ledger.sentOfRound = 0n;
  ledger.begun = begun;
  ledger.state.bytesResumed += BigInt(begun.resumed);
  return ledger;
}

function progress(ledger: Ledger, body: Buffer): Ledger {
  const [first, count] = [body.readUInt32BE(0), body.readUInt32BE(4)];
  const hashes = body.subarray(16);
  if (hashes.length !== count * HASH) throw new FlockError('Corrupt', `${hashes.length} bytes of hashes for ${count} blocks`);
  if (count > 0) ledger.proven.push({ first, count, hashes });
  countSent(ledger, body.readBigUInt64BE(8));
  return ledger;
}

function countSent(ledger: Ledger, sent: bigint): void {
  ledger.sentOfRound += sent;
  ledger.state.bytesSent += sent;
}

function complete(ledger: Ledger, said: Static<typeof Complete>): Ledger {
  const { final, deviceBytes, sent, ...rest } = said;
  const report: RoundReport = {
    ...rest,
    bytesTotal: BigInt(said.bytesTotal),
    bytesSent: BigInt(said.bytesSent),
    bytesResumed: BigInt(said.bytesResumed),
    allocated: BigInt(said.allocated),
    dirty: said.dirty === null ? null : BigInt(said.dirty),
  };
  countSent(ledger, BigInt(sent));
  ledger.completed = { report, final, deviceBytes };
  ledger.state.completeRound = report.round;
  // A delta in the pause is proven by its read-back: the root stays that of the last comparison.
  if (report.root !== null) ledger.state.root = report.root;
  ledger.state.verified = report.verified;
  ledger.state.rounds.push(ledger.sentOfRound);
  Object.assign(ledger, { begun: null, proven: [], sentOfRound: 0n });
  return ledger;
}
