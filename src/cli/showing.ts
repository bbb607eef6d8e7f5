// `show` of any kind, once or at each change, and the lines about what happened to an object. Knows no kind.
import type { Client } from '../api/client.ts';
import type { Kind } from '../model/kind.ts';
import type { ApiObject, Stored } from '../model/meta.ts';
import type { Format } from './arguments.ts';
import { line, type Context } from './context.ts';
import { states } from './follow.ts';
import { ageOf, harmless } from './format.ts';
import { aligned, printObject } from './print.ts';
import { eventsOf } from './records.ts';

export interface ShowOptions {
  output: Format;
  watch?: true;
}

export interface Shown<T extends ApiObject> {
  kind: Kind<T>;
  object: Stored<T>;
  describe: (object: Stored<T>) => Promise<string[]>;
}

export async function show<T extends ApiObject>(context: Context, client: Client, shown: Shown<T>, options: ShowOptions): Promise<void> {
  if (!options.watch) return print(context, shown, shown.object, options.output);
  const { kind, object } = shown;
  const following = { client, kind, clock: context.clock, signal: context.interrupted };
  let told = '';
  for await (const seen of states(following, object.metadata.name)) {
    if (seen === null) return line(context.err, `${kind.singular} ${object.metadata.name} is gone`);
    if (seen.metadata.resourceVersion === told) continue;
    if (told !== '' && options.output !== 'name') line(context.out, options.output === 'yaml' ? '---' : '');
    told = seen.metadata.resourceVersion;
    await print(context, shown, seen, options.output);
  }
}

async function print<T extends ApiObject>(context: Context, shown: Shown<T>, object: Stored<T>, format: Format): Promise<void> {
  const lines = format === 'table' ? await shown.describe(object) : [];
  printObject(context, shown.kind, object, { format, describe: () => lines });
}

const EVENTS_SHOWN = 10;

/** The newest events of an object, oldest of them first; nothing when there are none. */
export async function eventLines(client: Client, object: Stored<ApiObject>, now: number): Promise<string[]> {
  const events = (await eventsOf(client, object)).slice(-EVENTS_SHOWN);
  if (events.length === 0) return [];
  const rows = events.map((event) => [
    event.lastTimestamp === undefined ? '-' : `${ageOf(event.lastTimestamp, now)} ago`,
    event.type,
    event.reason,
    harmless(`${event.message}${(event.count ?? 1) > 1 ? ` (${event.count} times)` : ''}`),
  ]);
  return ['', 'Events:', ...aligned(rows).map((row) => `  ${row}`)];
}
