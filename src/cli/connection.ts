// Which server is meant, and who we are to it: options first, then the environment, then the cluster that `flockctl up` made last.
import { existsSync, statSync } from 'node:fs';
import type { ConnectionConfig } from '../api/http-connection.ts';
import { readKubeconfig } from '../api/kubeconfig.ts';
import { FlockError } from '../model/errors.ts';
import { layoutOf } from './local/layout.ts';
import { currentCluster } from './local/pointer.ts';

export interface Where {
  server?: string;
  kubeconfig?: string;
}

type Environment = { [name: string]: string | undefined };

/** Throws Unavailable when nothing says where a server is, Invalid or NotFound for a kubeconfig that cannot be used. */
export function connectionFor(where: Where, env: Environment): ConnectionConfig {
  const server = where.server ?? nonEmpty(env['FLOCK_SERVER']);
  const kubeconfig = kubeconfigFor(where, env);
  if (kubeconfig !== undefined) {
    const connection = renewing(kubeconfig);
    return server === undefined ? connection : { ...connection, server };
  }
  if (server !== undefined) return { server };
  throw new FlockError(
    'Unavailable',
    'no server is known: start one on this machine with flockctl up, or name one with --server, --kubeconfig, FLOCK_SERVER or FLOCK_KUBECONFIG',
  );
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

/** The file that says who we are; undefined when nothing names one. */
function kubeconfigFor(where: Where, env: Environment): string | undefined {
  const named = where.kubeconfig ?? nonEmpty(env['FLOCK_KUBECONFIG']);
  if (named !== undefined) return named;
  const directory = currentCluster(env);
  if (directory === null) return undefined;
  const { kubeconfig } = layoutOf(directory);
  return existsSync(kubeconfig) ? kubeconfig : undefined;
}

const nonEmpty = (text: string | undefined): string | undefined => (text === '' ? undefined : text);
