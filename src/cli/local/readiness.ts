// Waiting until the parts of a local cluster do what they are there for. Starts nothing, ends nothing.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CONTROLLER_LEASE } from '../../api/election.ts';
import { httpClient, type HttpClient } from '../../api/http-client.ts';
import { readKubeconfig } from '../../api/kubeconfig.ts';
import { isReady } from '../../decide/observed.ts';
import type { Clock } from '../../model/clock.ts';
import { FlockError, ifFound, isReason } from '../../model/errors.ts';
import { SYSTEM_NAMESPACE, type Stored } from '../../model/meta.ts';
import { StorageNodes, type StorageNode } from '../../model/storage-node.ts';
import { Leases } from '../../model/system.ts';
import { localAgent } from '../agent-socket.ts';
import { found } from './child.ts';
import { namesOf, type Description } from './description.ts';
import { CONTROLLER, logOf, nodeNames, SERVER, type Layout } from './layout.ts';

/** How long to wait, and when to stop that. */
export interface Patience {
  clock: Clock;
  signal: AbortSignal;
}

const PATIENCE_MS = 60_000;
const LOOK_MS = 50;

/** Answers of `look` until one is not null. Fails when one of the processes has ended, or after a minute. */
async function eventually<T>(
  layout: Layout,
  names: readonly string[],
  { clock, signal }: Patience,
  look: () => Promise<T | null>,
): Promise<T> {
  const until = clock.monotonic() + PATIENCE_MS;
  for (;;) {
    signal.throwIfAborted();
    const answer = await look();
    if (answer !== null) return answer;
    const ended = names.find((name) => found(layout.running, name) === null);
    if (ended !== undefined)
      throw new FlockError('Internal', `${ended} has ended; the end of ${logOf(layout, ended)}:\n${endOf(logOf(layout, ended))}`);
    if (clock.monotonic() > until)
      throw new FlockError('Internal', `the cluster did not come up within ${PATIENCE_MS / 1000} s; the logs are in ${layout.logs}`);
    await clock.sleep(LOOK_MS, signal);
  }
}

function endOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').trimEnd().split('\n').slice(-5).join('\n');
  } catch {
    return '(it cannot be read)';
  }
}

/** A client of the server, once it answers. */
export async function reached(layout: Layout, around: Patience): Promise<HttpClient> {
  return eventually(layout, [SERVER], around, async () => {
    if (!existsSync(layout.kubeconfig)) return null;
    const client = httpClient(readKubeconfig(layout.kubeconfig).connection);
    const answers = await orUnavailable(client.list(StorageNodes, { limit: 1 }).then(() => true as const));
    if (answers) return client;
    client.close();
    return null;
  });
}

async function orUnavailable<T>(asked: Promise<T>): Promise<T | null> {
  try {
    return await asked;
  } catch (error) {
    if (isReason(error, 'Unavailable')) return null;
    throw error;
  }
}

/** `mending`: nodes whose running agents found a pool not mounted, and have to tell that it is healthy again. */
export async function allReady(
  layout: Layout,
  description: Description,
  { client, around, mending }: { client: HttpClient; around: Patience; mending: readonly string[] },
): Promise<void> {
  const wanted = nodeNames(description.nodes);
  await eventually(layout, namesOf(description), around, async () => {
    if (!(await isLed(client, around.clock)) || !servesCsi(description)) return null;
    const { items } = await client.list(StorageNodes);
    if (items.some((node) => mending.includes(node.metadata.name) && !isHealthy(node))) return null;
    const ready = await Promise.all(items.filter((node) => wanted.includes(node.metadata.name) && isReady(node)).map(answers));
    return ready.filter(Boolean).length === wanted.length ? true : null;
  });
}

/** Each agent opens it last of all, after it has reported its node as ready. */
const servesCsi = ({ csi, nodes }: Description): boolean =>
  csi === undefined || [CONTROLLER, ...nodeNames(nodes)].every((name) => existsSync(join(csi, `${name}.sock`)));

const isHealthy = ({ status }: Stored<StorageNode>): boolean => Object.values(status?.pools ?? {}).every(({ healthy }) => healthy);

/**
 * A controller holds the Lease, and renewed it. One that was killed before keeps it for its duration, and until then nothing is placed or
 * moved.
 */
async function isLed(client: HttpClient, clock: Clock): Promise<boolean> {
  const lease = await ifFound(client.get(Leases, CONTROLLER_LEASE, SYSTEM_NAMESPACE));
  const { holderIdentity, renewTime, leaseDurationSeconds = 0 } = lease?.spec ?? {};
  return Boolean(holderIdentity) && clock.now() - Date.parse(renewTime ?? '') < leaseDurationSeconds * 1000;
}

/** The record may still speak of the agent before: this one answers by itself. */
async function answers({ metadata, status }: Stored<StorageNode>): Promise<boolean> {
  try {
    await (await localAgent(metadata.name, status?.socket)).fetching();
    return true;
  } catch (error) {
    if (isReason(error, 'Unavailable', 'Unsupported')) return false;
    throw error;
  }
}
