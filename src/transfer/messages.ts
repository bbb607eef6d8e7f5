// What control frames say, and the check of everything that a peer or a file says before it is believed. Knows no sockets.
import Type, { type Static, type TSchema } from 'typebox';
import Value from 'typebox/value';
import { FlockError, messageOf, readReason, reasonOf } from '../model/errors.ts';
import { ID_PATTERN, NAME_PATTERN, UID_PATTERN } from '../model/names.ts';
import { CONTROL_LIMIT, encodeHeader, header, HEADER, type FrameType } from './frame.ts';

const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const Round = Type.Integer({ minimum: 0, maximum: 1_000_000 });
const Hex = Type.String({ pattern: '^[0-9a-f]{64}$' });
const OrNull = <T extends TSchema>(schema: T): ReturnType<typeof Type.Union<[T, ReturnType<typeof Type.Null>]>> =>
  Type.Union([schema, Type.Null()]);

export const HelloMessage = Type.Object({
  protocol: Type.Literal(1),
  purpose: Type.Union([Type.Literal('round'), Type.Literal('scrub'), Type.Literal('measure')]),
  move: Type.String({ pattern: NAME_PATTERN, maxLength: 253 }),
  moveUid: Type.String({ pattern: UID_PATTERN }),
  volumeUid: Type.String({ pattern: UID_PATTERN }),
  copy: Type.String({ pattern: ID_PATTERN }),
  epoch: Count,
});

export const WelcomeMessage = Type.Object({ protocol: Type.Literal(1) });

/** The target asks for a round. `base`: the last round that it has whole, with the root both agreed on and the volume's size then. */
export const PrepareMessage = Type.Object({
  round: Round,
  final: Type.Boolean(),
  /** Compare hashes, whatever could be told of changes: the target knows no state of its own to go on from. */
  compare: Type.Boolean(),
  base: OrNull(Type.Object({ round: Round, root: OrNull(Hex), deviceBytes: Count })),
});
export type PrepareMessage = Static<typeof PrepareMessage>;

export const ManifestHead = Type.Object({
  version: Type.Literal(1),
  moveUid: Type.String({ pattern: UID_PATTERN }),
  volumeUid: Type.String({ pattern: UID_PATTERN }),
  epoch: Count,
  deviceBytes: Count,
  leafBytes: Count,
  hash: Type.String({ maxLength: 32 }),
  /** How the extents were found. fiemap: what a pool's change tracking says. hash: not at all, leaves are to be compared. full: all that is allocated. */
  cbt: Type.Union([Type.Literal('fiemap'), Type.Literal('hash'), Type.Literal('full')]),
  poolUuid: Type.String({ maxLength: 64 }),
  /** The point that is read, or `live`. */
  point: Type.String({ maxLength: 32 }),
  /** The bytes cannot change while they are read: a point, or a fenced copy. */
  settled: Type.Boolean(),
  base: OrNull(Type.Object({ round: Round, root: OrNull(Hex) })),
  round: Round,
  final: Type.Boolean(),
  /** Bytes allocated at the source. */
  allocated: Count,
});
export type ManifestHead = Static<typeof ManifestHead>;

export const CountsMessage = Type.Object({ frames: Count, bytes: Count });
export type CountsMessage = Static<typeof CountsMessage>;
export const RootMessage = Type.Object({ root: Hex });
export const ReleaseMessage = Type.Object({ before: Round });
export const EmptyMessage = Type.Object({});
export const DirtyMessage = Type.Object({ bytes: OrNull(Count) });
export const LimitMessage = Type.Object({ bytesPerSecond: OrNull(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })) });
const ErrorMessage = Type.Object({ reason: Type.String({ maxLength: 64 }), message: Type.String({ maxLength: CONTROL_LIMIT }) });

/** JSON of unknown origin as a `what`. Throws Corrupt. */
export function parse<T extends TSchema>(schema: T, bytes: Buffer, what: string): Static<T> {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    throw new FlockError('Corrupt', `${what} is not JSON`, { cause: error });
  }
  if (!Value.Check(schema, value)) throw new FlockError('Corrupt', `${what} does not have the fields it must have`);
  return value;
}

/** A frame with a binary payload, header and payload in one buffer. */
export function frameOf(type: FrameType, req: number, payload: Buffer, flags = 0): Buffer {
  const frame = Buffer.allocUnsafe(HEADER + payload.length);
  encodeHeader(header(type, { req, flags, wireLen: payload.length }), frame);
  payload.copy(frame, HEADER);
  return frame;
}

export const controlFrame = (type: FrameType, req: number, message: object): Buffer =>
  frameOf(type, req, Buffer.from(JSON.stringify(message)));

/** What goes into an ERR frame. A sentence is cut so that it always fits. */
export const errorMessage = (error: unknown): { reason: string; message: string } => ({
  reason: reasonOf(error),
  message: messageOf(error).slice(0, 4096),
});

/** The error that a peer's ERR frame stands for: its reason if that is one, its sentence without control characters. */
export function errorOf(payload: Buffer, peer: string): FlockError {
  const { reason, message } = parse(ErrorMessage, payload, `the error that ${peer} sent`);
  // eslint-disable-next-line no-control-regex
  const sentence = message.slice(0, 4096).replace(/[\u0000-\u001f\u007f-\u009f]/gu, ' ');
  return new FlockError(readReason(reason), `${peer}: ${sentence}`);
}
