// Continue tokens: the version a list began at and the last key that was given. Opaque to clients.
import { isRecord } from './merge-patch.ts';
import { badRequest } from './status.ts';

export interface Continuation {
  version: number;
  after: string;
}

export const continueToken = ({ version, after }: Continuation): string =>
  Buffer.from(JSON.stringify({ v: version, k: after })).toString('base64url');

/** Throws Invalid when it is not a token of ours. */
export function readContinueToken(token: string): Continuation {
  try {
    const read: unknown = JSON.parse(Buffer.from(token, 'base64url').toString());
    if (isRecord(read) && Number.isSafeInteger(read['v']) && typeof read['k'] === 'string')
      return { version: Number(read['v']), after: read['k'] };
  } catch {
    // Told below.
  }
  throw badRequest('continue key is not valid: use the value of metadata.continue of the list before, or leave it out to begin again');
}

/** Version of a request. Throws Invalid when it is none of ours. */
export function readVersion(text: string): number {
  if (!/^[0-9]{1,15}$/u.test(text))
    throw badRequest(`invalid resource version ${JSON.stringify(text.slice(0, 60))}: use one that a list or an object gave`);
  return Number(text);
}
