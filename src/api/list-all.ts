// A whole list, page by page. Knows Client alone.
import { isReason } from '../model/errors.ts';
import type { Kind } from '../model/kind.ts';
import type { ApiObject, Stored } from '../model/meta.ts';
import type { Client, ListOptions, ObjectList } from './client.ts';

/** All objects as of one version, fetched in pages of `limit`, 500 by default. A list that outlives its continue token begins anew, in one piece. */
export async function listAll<T extends ApiObject>(
  client: Client,
  kind: Kind<T>,
  options: Omit<ListOptions, 'continue'> = {},
): Promise<ObjectList<T>> {
  const { limit = 500, ...selection } = options;
  const items: Stored<T>[] = [];
  let page: ObjectList<T> = await client.list(kind, { ...selection, limit });
  items.push(...page.items);
  while (page.continue !== undefined) {
    try {
      page = await client.list(kind, { ...selection, limit, continue: page.continue });
    } catch (error) {
      if (isReason(error, 'Expired')) return client.list(kind, selection);
      throw error;
    }
    items.push(...page.items);
  }
  return { items, resourceVersion: page.resourceVersion };
}
