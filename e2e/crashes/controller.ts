// `flockctl controller` with one difference: a source is given back after seconds instead of minutes, so that this too is come by.
import { pino } from 'pino';
import { httpClient } from '../../src/api/http-client.ts';
import { readKubeconfig } from '../../src/api/kubeconfig.ts';
import { whenUntied } from '../../src/cli/local/child.ts';
import { runController } from '../../src/controller/main.ts';

const FENCED_MS = 8_000;

const [kubeconfig = ''] = process.argv.slice(2);
const stop = new AbortController();
process.on('SIGTERM', () => stop.abort());
whenUntied(() => stop.abort());
const client = httpClient(readKubeconfig(kubeconfig).connection);
const log = pino({ base: { component: 'controller' }, timestamp: pino.stdTimeFunctions.isoTime });
await runController({ client, log, caps: { fencedMs: FENCED_MS, maxAttempts: 20 } }, stop.signal);
client.close();
