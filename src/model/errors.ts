// The few classes of errors, each with a stable reason. A message names the thing, the cause and the way out.
import { isSystemError, sayingOf } from './errno.ts';

const REASONS = [
  'Invalid',
  'NotFound',
  'AlreadyExists',
  'Conflict',
  'Forbidden',
  'Unauthorized',
  'Expired',
  'Unavailable',
  'NoSpace',
  'InUse',
  'NotPermitted',
  'Corrupt',
  'Unsupported',
  'Internal',
] as const;
/** Reasons that programs may test for. */
export type Reason = (typeof REASONS)[number];

/** A reason that came from outside; what is none of ours counts as Internal. */
export const readReason = (text: unknown): Reason => REASONS.find((reason) => reason === text) ?? 'Internal';

export class FlockError extends Error {
  readonly reason: Reason;
  constructor(reason: Reason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = reason;
    this.reason = reason;
  }
}

/** What was asked cannot be right, whatever the state of the world. */
export class Invalid extends FlockError {
  constructor(message: string, options?: ErrorOptions) {
    super('Invalid', message, options);
  }
}

export const isReason = (error: unknown, ...reasons: Reason[]): error is FlockError =>
  error instanceof FlockError && reasons.includes(error.reason);

/** What was asked for, or null when it is not there. */
export async function ifFound<T>(asked: Promise<T>): Promise<T | null> {
  try {
    return await asked;
  } catch (error) {
    if (isReason(error, 'NotFound')) return null;
    throw error;
  }
}

/** What is no FlockError was not foreseen: Internal. */
export const reasonOf = (error: unknown): Reason => (error instanceof FlockError ? error.reason : 'Internal');

/** What the system refused is said in words that name the thing, the cause and the way out. */
export function messageOf(error: unknown): string {
  if (isSystemError(error)) return sayingOf(error);
  return error instanceof Error ? error.message : String(error);
}
