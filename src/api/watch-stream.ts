// A watch over HTTP: a line of JSON an event, bookmarks while it is silent, an end after its time. Knows no semantics of objects.
import type { ServerResponse } from 'node:http';
import type { Clock } from '../model/clock.ts';

/** Below the time after which clients take a silent stream for dead, ms. */
const BOOKMARK_EVERY_MS = 25_000;
/** A client that lets this much lie unread is cut off; it will list again. Bytes. */
const MOST_UNREAD = 16 * 1024 * 1024;

export interface WatchLine {
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  object: object;
}

export interface StreamOptions {
  clock: Clock;
  /** Ends after this time, ms. */
  lasting: number;
  /** Made when it is time for one; null: the client wants none. */
  bookmark: (() => WatchLine) | null;
  /** Asked now and then; false ends the stream. */
  allowed: () => Promise<boolean>;
  /** Begins the watch, returns how to stop it. May throw, also after it told something. */
  begin: (tell: (line: WatchLine) => void) => () => void;
  /** What a refusal at the beginning looks like on the stream. */
  told: (error: unknown) => WatchLine;
}

/** Resolves when the stream is over: its time, its client, or a loss of its right. */
export async function streamWatch(response: ServerResponse, options: StreamOptions): Promise<void> {
  const { clock, lasting, bookmark, allowed } = options;
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-cache, private' });
  response.flushHeaders();
  const tell = (line: WatchLine): void => {
    if (gone.signal.aborted) return;
    response.write(`${JSON.stringify(line)}\n`);
    if (response.writableLength > MOST_UNREAD) response.destroy();
  };
  const stop = begun(options, tell);
  const end = clock.monotonic() + lasting;
  while (stop && (await passed(clock, Math.min(BOOKMARK_EVERY_MS, end - clock.monotonic()), gone.signal))) {
    if (!(await allowed())) break;
    if (bookmark) tell(bookmark());
    if (clock.monotonic() >= end) break;
  }
  stop?.();
  response.end();
}

function begun({ begin, told }: StreamOptions, tell: (line: WatchLine) => void): (() => void) | null {
  try {
    return begin(tell);
  } catch (error) {
    tell(told(error));
    return null;
  }
}

/** False when the client went first. */
async function passed(clock: Clock, ms: number, gone: AbortSignal): Promise<boolean> {
  try {
    await clock.sleep(Math.max(0, ms), gone);
    return true;
  } catch {
    return false;
  }
}
