// Where everything of a local cluster lies in its folder. Pure.
import { join } from 'node:path';

/** The server's database, in its folder. */
export const DATABASE = 'flock.db';

/** The names by which its processes are remembered; an agent has its node's. */
export const SERVER = 'server';
export const CONTROLLER = 'controller';

export interface NodePlaces {
  name: string;
  folder: string;
  pools: string;
  /** The sparse file under the pool's filesystem; there only when the pool is one. */
  disk: string;
  /** Says that the disk was formatted: from then on a blank one is an error. */
  formatted: string;
  /** The pool: a mount of `disk`, or a plain folder. */
  pool: string;
}

export interface Layout {
  directory: string;
  /** What the cluster was made as. */
  description: string;
  kubeconfig: string;
  controllerKubeconfig: string;
  server: string;
  logs: string;
  /** Who runs. */
  running: string;
}

export function layoutOf(directory: string): Layout {
  return {
    directory,
    description: join(directory, 'cluster.json'),
    kubeconfig: join(directory, 'kubeconfig'),
    controllerKubeconfig: join(directory, 'server', 'controller.kubeconfig'),
    server: join(directory, 'server'),
    logs: join(directory, 'logs'),
    running: join(directory, 'run'),
  };
}

export function placesOf({ directory }: Layout, name: string): NodePlaces {
  const folder = join(directory, name);
  return {
    name,
    folder,
    pools: join(folder, 'pools.yaml'),
    disk: join(folder, 'pool.xfs'),
    formatted: join(folder, 'pool.formatted'),
    pool: join(folder, 'pool'),
  };
}

export const logOf = ({ logs }: Layout, name: string): string => join(logs, `${name}.log`);

export const nodeNames = (count: number): string[] => Array.from({ length: count }, (_, at) => `node-${at + 1}`);
