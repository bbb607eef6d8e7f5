// `list` of any kind, once or watched. Knows no kind.
import type { ApiObject, Stored } from '../model/meta.ts';
import type { Format } from './arguments.ts';
import type { Client } from '../api/client.ts';
import { listAll } from '../api/list-all.ts';
import type { Context } from './context.ts';
import { changes, type Seen } from './follow.ts';
import { printChange, printList, type View } from './print.ts';

export interface ListOptions {
  output: Format;
  watch?: true;
}

export async function list<T extends ApiObject>(context: Context, client: Client, view: View<T>, options: ListOptions): Promise<void> {
  if (options.watch) return watch(context, client, view, options.output);
  const { items } = await listAll(client, view.kind);
  printList(context, view, items, options.output);
}

async function watch<T extends ApiObject>(context: Context, client: Client, view: View<T>, format: Format): Promise<void> {
  const known = new Map<string, Stored<T>>();
  let first = true;
  for await (const seen of changes({ client, kind: view.kind, clock: context.clock, signal: context.interrupted })) {
    const fresh = learn(known, seen);
    if (first && seen.type === 'LIST' && format === 'table') printList(context, view, seen.objects, format);
    else for (const object of fresh) printChange(context, view, { object, others: known.values() }, format);
    first = false;
  }
}

/** What was not known yet. After a break the list tells what changed meanwhile. */
function learn<T extends ApiObject>(known: Map<string, Stored<T>>, seen: Seen<T>): Stored<T>[] {
  if (seen.type === 'DELETED') {
    known.delete(seen.object.metadata.uid);
    return [seen.object];
  }
  const objects = seen.type === 'LIST' ? seen.objects : [seen.object];
  const fresh = objects.filter((object) => known.get(object.metadata.uid)?.metadata.resourceVersion !== object.metadata.resourceVersion);
  for (const object of fresh) known.set(object.metadata.uid, object);
  return fresh;
}
