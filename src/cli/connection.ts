// Which server is meant, and who we are to it: options first, then the environment, then the cluster that `flockctl up` made last.
import { existsSync, statSync } from 'node:fs';
import type { ConnectionConfig } from '../api/http-connection.ts';
import { inCluster, readKubeconfig } from '../api/kubeconfig.ts';
import { FlockError } from '../model/errors.ts';
import { found } from './local/child.ts';
import { layoutOf, SERVER } from './local/layout.ts';
import { currentCluster, pointerFile } from './local/pointer.ts';

export interface Where {
  server?: string;
  kubeconfig?: string;
}

type Environment = { [name: string]: string | undefined };

/** A server, and what named it. */
export interface Choice {
  connection: ConnectionConfig;
  /** An option, a variable, or the cluster that came up last. */
  by: string;
}

export const connectionFor = (where: Where, env: Environment): ConnectionConfig => chosenServer(where, env).connection;

/**
 * Throws Unavailable when nothing says where a server is, or the cluster that came up last is not there or does not run; Invalid or NotFound
 * for a kubeconfig that cannot be used.
 */
export function chosenServer(where: Where, env: Environment): Choice {
  const server = firstOf([where.server, '--server'], [env['FLOCK_SERVER'], 'FLOCK_SERVER']);
  const kubeconfig = firstOf([where.kubeconfig, '--kubeconfig'], [env['FLOCK_KUBECONFIG'], 'FLOCK_KUBECONFIG']);
  if (kubeconfig !== null) return withServer(server, { connection: renewing(kubeconfig.text), by: `${kubeconfig.by} ${kubeconfig.text}` });
  const cluster = currentCluster(env);
  if (server !== null) {
    const own = cluster === null ? null : layoutOf(cluster).kubeconfig;
    return withServer(server, { connection: own !== null && existsSync(own) ? renewing(own) : { server: server.text }, by: '' });
  }
  if (cluster !== null) return lastOne(cluster, env);
  const pod = inCluster(env);
  if (pod === null)
    throw new FlockError(
      'Unavailable',
      'no server is known: start one on this machine with flockctl up, or name one with --server, --kubeconfig, FLOCK_SERVER or FLOCK_KUBECONFIG',
    );
  return { connection: pod, by: 'the service account of this pod' };
}

const firstOf = (...named: [text: string | undefined, by: string][]): { text: string; by: string } | null => {
  for (const [text, by] of named) if (text !== undefined && text !== '') return { text, by };
  return null;
};

const withServer = (server: { text: string; by: string } | null, choice: Choice): Choice =>
  server === null ? choice : { connection: { ...choice.connection, server: server.text }, by: server.by };

/** The server of the local cluster in this folder runs. */
export const serves = (cluster: string): boolean => found(layoutOf(cluster).running, SERVER) !== null;

function lastOne(cluster: string, env: Environment): Choice {
  const layout = layoutOf(cluster);
  const wayOut = 'or name a server with --server, --kubeconfig, FLOCK_SERVER or FLOCK_KUBECONFIG';
  if (!existsSync(layout.kubeconfig))
    throw new FlockError(
      'Unavailable',
      `the cluster in ${cluster}, which came up last, is not there any more: make one with flockctl up, ${wayOut}`,
    );
  if (!serves(cluster))
    throw new FlockError(
      'Unavailable',
      `the cluster in ${cluster}, which came up last, does not run: start it with flockctl up, ${wayOut}`,
    );
  return { connection: renewing(layout.kubeconfig), by: `${pointerFile(env)}: the cluster in ${cluster} came up last` };
}

/** As the file says now: its server rewrites it when the certificate in it is due, and a controller runs longer than that. */
function renewing(file: string): ConnectionConfig {
  let read = readKubeconfig(file).connection;
  let stamp = stampOf(file);
  const now = (): ConnectionConfig => {
    const found = stampOf(file);
    if (found === null || found === stamp) return read;
    read = readKubeconfig(file).connection;
    stamp = found;
    return read;
  };
  const { identity, authority, ...rest } = read;
  return {
    ...rest,
    ...(identity ? { identity: () => now().identity?.() } : {}),
    ...(authority ? { authority: () => now().authority?.() } : {}),
  };
}

function stampOf(file: string): string | null {
  const found = statSync(file, { throwIfNoEntry: false });
  return found === undefined ? null : `${found.mtimeMs} ${found.ino}`;
}
