// The entry: this process's screens, signals and servers, and its exit code.
import { httpClient, type HttpClient } from '../api/http-client.ts';
import { systemClock } from '../model/clock.ts';
import { connectionFor } from './connection.ts';
import type { Context, Screen } from './context.ts';
import { whenUntied } from './local/child.ts';
import { logOutput } from './log-output.ts';
import { run } from './program.ts';

const COLUMNS = 80;

const screenOf = (stream: NodeJS.WriteStream): Screen => ({
  write: (text) => void stream.write(text),
  isTerminal: stream.isTTY === true,
  get columns() {
    return stream.columns || COLUMNS;
  },
});

const interruption = new AbortController();
/** A terminal tells npm and us, and npm tells us once more: that is one wish. */
const ONE_WISH_MS = 500;
let interruptedAt = Infinity;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    // Whoever asks twice does not want to wait for an end in order.
    if (performance.now() - interruptedAt > ONE_WISH_MS) process.exit(130);
    interruptedAt = Math.min(interruptedAt, performance.now());
    interruption.abort();
  });
}
whenUntied(() => interruption.abort());
// Whoever read us has gone (`| head`): nothing is left to say.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => process.exit(1));

const log = logOutput(process.stdout.fd);
const opened: HttpClient[] = [];
const context: Context = {
  out: screenOf(process.stdout),
  err: screenOf(process.stderr),
  ...(log ? { log } : {}),
  env: process.env,
  clock: systemClock,
  interrupted: interruption.signal,
  connect: async (where) => {
    const client = httpClient(connectionFor(where, process.env));
    opened.push(client);
    return client;
  },
  leaveFolder: () => process.chdir('/'),
};

process.exitCode = await run(process.argv.slice(2), context);
for (const client of opened) client.close();
