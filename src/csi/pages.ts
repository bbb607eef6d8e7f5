// Lists in pages, by name. Knows no kind.
import { status } from '@grpc/grpc-js';
import type { Stored, ApiObject } from '../model/meta.ts';
import { invalid, Refused } from './errors.ts';

const TOKEN = 'after:';

/** A token is the last name of the page before, so that what is made or deleted meanwhile shifts no page. Throws ABORTED for one that is none of ours. */
export function pageOf<T extends ApiObject>(
  records: readonly Stored<T>[],
  { maxEntries, startingToken }: { maxEntries: number; startingToken: string },
): { page: Stored<T>[]; nextToken: string } {
  if (maxEntries < 0) throw invalid('max_entries is negative');
  const after = nameAfter(startingToken);
  const rest = records
    .filter(({ metadata }) => metadata.name > after)
    .toSorted((one, other) => (one.metadata.name < other.metadata.name ? -1 : 1));
  const page = maxEntries > 0 ? rest.slice(0, maxEntries) : rest;
  return { page, nextToken: page.length < rest.length ? `${TOKEN}${page.at(-1)?.metadata.name}` : '' };
}

function nameAfter(token: string): string {
  if (token === '') return '';
  if (!token.startsWith(TOKEN)) throw new Refused(status.ABORTED, 'starting_token is none of ours; list from the start');
  return token.slice(TOKEN.length);
}
