// The errors of the API as Kubernetes words them: a stable reason, an HTTP code, and details that clients read. Knows no transport.
import { FlockError, messageOf, type Reason } from '../model/errors.ts';
import type { Kind } from '../model/kind.ts';

/** One field that is wrong. */
export interface FieldProblem {
  field: string;
  reason:
    | 'FieldValueRequired'
    | 'FieldValueInvalid'
    | 'FieldValueNotSupported'
    | 'FieldValueForbidden'
    | 'FieldValueTooLong'
    | 'FieldValueTooMany'
    | 'FieldValueTypeInvalid';
  message: string;
}

export interface StatusDetails {
  name?: string;
  group?: string;
  kind?: string;
  uid?: string;
  causes?: FieldProblem[];
  retryAfterSeconds?: number;
}

/** `kind: Status` of Kubernetes' meta/v1. */
export interface Status {
  kind: 'Status';
  apiVersion: 'v1';
  metadata: Record<string, never>;
  status: 'Success' | 'Failure';
  message?: string;
  reason?: string;
  details?: StatusDetails;
  code: number;
}

interface Answer {
  reason: Reason;
  /** The reason as Kubernetes calls it. */
  word: string;
  code: number;
  message: string;
  details?: StatusDetails;
}

/** A FlockError that knows how it is told over HTTP. */
export class ApiError extends FlockError {
  readonly code: number;
  readonly word: string;
  readonly details: StatusDetails | undefined;
  constructor(answer: Answer, options?: ErrorOptions) {
    super(answer.reason, answer.message, options);
    this.code = answer.code;
    this.word = answer.word;
    this.details = answer.details;
  }
}

/** `volumes.flock.dev`, `events` */
export const resourceOf = (kind: Kind): string => (kind.group === '' ? kind.plural : `${kind.plural}.${kind.group}`);

const about = (kind: Kind, name: string, more: StatusDetails = {}): StatusDetails => ({
  name,
  ...(kind.group === '' ? {} : { group: kind.group }),
  kind: kind.plural,
  ...more,
});

export const notFound = (kind: Kind, name: string): ApiError =>
  new ApiError({
    reason: 'NotFound',
    word: 'NotFound',
    code: 404,
    message: `${resourceOf(kind)} "${name}" not found`,
    details: about(kind, name),
  });

export const alreadyExists = (kind: Kind, name: string): ApiError =>
  new ApiError({
    reason: 'AlreadyExists',
    word: 'AlreadyExists',
    code: 409,
    message: `${resourceOf(kind)} "${name}" already exists`,
    details: about(kind, name),
  });

export const conflict = (kind: Kind, name: string, why: string): ApiError =>
  new ApiError({
    reason: 'Conflict',
    word: 'Conflict',
    code: 409,
    message: `Operation cannot be fulfilled on ${resourceOf(kind)} "${name}": ${why}`,
    details: about(kind, name),
  });

export const MODIFIED = 'the object has been modified; please apply your changes to the latest version and try again';

/** All that is wrong with an object's fields. */
export function invalid(kind: Kind, name: string, problems: FieldProblem[]): ApiError {
  const told = problems.map(({ field, message }) => `${field}: ${message}`);
  const list = told.length === 1 ? told[0] : `[${told.join(', ')}]`;
  const type = kind.group === '' ? kind.kind : `${kind.kind}.${kind.group}`;
  return new ApiError({
    reason: 'Invalid',
    word: 'Invalid',
    code: 422,
    message: `${type} "${name}" is invalid: ${list}`,
    details: about(kind, name, { kind: kind.kind, causes: problems }),
  });
}

/** The request itself makes no sense, whatever is stored. */
export const badRequest = (message: string): ApiError => new ApiError({ reason: 'Invalid', word: 'BadRequest', code: 400, message });

export const forbidden = (kind: Kind, name: string, who: string, what: string): ApiError =>
  new ApiError({
    reason: 'Forbidden',
    word: 'Forbidden',
    code: 403,
    message: `${resourceOf(kind)} "${name}" is forbidden: ${who} ${what}`,
    details: about(kind, name),
  });

export const unauthorized = (why: string): ApiError =>
  new ApiError({ reason: 'Unauthorized', word: 'Unauthorized', code: 401, message: `Unauthorized: ${why}` });

export const expired = (message: string): ApiError => new ApiError({ reason: 'Expired', word: 'Expired', code: 410, message });

/** What a server answers with that Kubernetes has no constructor for. */
export const refused = (code: number, word: string, message: string): ApiError =>
  new ApiError({ reason: code === 404 ? 'NotFound' : 'Invalid', word, code, message });

const BY_REASON: { [reason in Reason]: { code: number; word: string } } = {
  Invalid: { code: 422, word: 'Invalid' },
  NotFound: { code: 404, word: 'NotFound' },
  AlreadyExists: { code: 409, word: 'AlreadyExists' },
  Conflict: { code: 409, word: 'Conflict' },
  Forbidden: { code: 403, word: 'Forbidden' },
  Unauthorized: { code: 401, word: 'Unauthorized' },
  Expired: { code: 410, word: 'Expired' },
  Unavailable: { code: 503, word: 'ServiceUnavailable' },
  NoSpace: { code: 507, word: 'InsufficientStorage' },
  InUse: { code: 409, word: 'Conflict' },
  NotPermitted: { code: 403, word: 'Forbidden' },
  Corrupt: { code: 500, word: 'InternalError' },
  Unsupported: { code: 501, word: 'NotImplemented' },
  Internal: { code: 500, word: 'InternalError' },
};

/** Any error as the Status that tells it. */
export function statusOf(error: unknown): Status {
  const { code, word } = error instanceof ApiError ? error : error instanceof FlockError ? BY_REASON[error.reason] : BY_REASON.Internal;
  const details = error instanceof ApiError ? error.details : undefined;
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: messageOf(error),
    reason: word,
    ...(details ? { details } : {}),
    code,
  };
}
