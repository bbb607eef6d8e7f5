// Which gRPC code each error gets: one table for what the engine says, one for what keeps a volume from being made. Callers act on codes:
// RESOURCE_EXHAUSTED makes a scheduler look elsewhere, ABORTED and UNAVAILABLE are tried again, the rest is told to people.
import { status } from '@grpc/grpc-js';
import { FlockError, messageOf, type Reason } from '../model/errors.ts';

/** A refusal whose code the protocol itself prescribes. */
export class Refused extends Error {
  readonly code: status;
  constructor(code: status, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

const CODES: { [R in Reason]: status } = {
  Invalid: status.INVALID_ARGUMENT,
  NotFound: status.NOT_FOUND,
  AlreadyExists: status.ALREADY_EXISTS,
  Conflict: status.ABORTED,
  Forbidden: status.PERMISSION_DENIED,
  Unauthorized: status.UNAUTHENTICATED,
  Expired: status.UNAVAILABLE,
  Unavailable: status.UNAVAILABLE,
  NoSpace: status.RESOURCE_EXHAUSTED,
  InUse: status.FAILED_PRECONDITION,
  NotPermitted: status.FAILED_PRECONDITION,
  Corrupt: status.DATA_LOSS,
  Unsupported: status.FAILED_PRECONDITION,
  Internal: status.INTERNAL,
};

/** Why no node, or not the one that was chosen, can take a volume now (decide/placement.ts): another may. */
const NOT_HERE: ReadonlySet<string> = new Set([
  'NoSpace',
  'NoNode',
  'UnknownNode',
  'NodeNotReady',
  'NodeUnschedulable',
  'NoPool',
  'PoolUnhealthy',
  'NoFilesystem',
]);

/** Nothing that changes by itself would make it possible. */
const NEVER: ReadonlySet<string> = new Set(['PoolNeeded', 'TooSmall', 'SourceDiffers', 'SourceElsewhere']);

const isFlockReason = (reason: string): reason is Reason => Object.hasOwn(CODES, reason);

/** What an obstacle of a record means to who asked for the volume; null: it may go away by itself, wait on. */
export function codeOfObstacle(reason: string): status | null {
  if (NOT_HERE.has(reason)) return status.RESOURCE_EXHAUSTED;
  if (NEVER.has(reason)) return status.INVALID_ARGUMENT;
  if (reason === 'SnapshotNotFound') return status.NOT_FOUND;
  if (!isFlockReason(reason)) return null;
  return GOES_AWAY.has(CODES[reason]) ? null : CODES[reason];
}

const GOES_AWAY: ReadonlySet<status> = new Set([
  status.UNAVAILABLE,
  status.ABORTED,
  status.INTERNAL,
  status.FAILED_PRECONDITION,
  status.NOT_FOUND,
]);

/** Texts travel in a header line; what is longer than this is cut. */
const LONGEST = 2_000;

export function statusOf(error: unknown): { code: status; details: string } {
  const text = messageOf(error);
  const details = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  if (error instanceof Refused) return { code: error.code, details };
  return { code: error instanceof FlockError ? CODES[error.reason] : status.INTERNAL, details };
}

export const invalid = (message: string): Refused => new Refused(status.INVALID_ARGUMENT, message);
