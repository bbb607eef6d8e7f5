// Where everything of a local cluster lies in its folder. Pure.
import { join } from 'node:path';
import type { PoolType } from '../../model/storage-node.ts';

/** The server's database, in its folder. */
export const DATABASE = 'flock.db';

/** The names by which its processes are remembered; an agent has its node's. */
export const SERVER = 'server';
export const CONTROLLER = 'controller';

export interface PoolPlaces {
  name: string;
  type: PoolType;
  /** The sparse file under the pool's filesystem; there only when the pool is one. */
  disk: string;
  /** Says that the disk was formatted: from then on a blank one is an error. */
  formatted: string;
  /** The pool: a mount of `disk`, or a plain folder. */
  folder: string;
}

export interface NodePlaces {
  name: string;
  folder: string;
  /** Says what its pools are. */
  configuration: string;
  pools: { local: PoolPlaces; directory: PoolPlaces };
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
    configuration: join(folder, 'pools.yaml'),
    pools: {
      local: { name: 'local', type: 'image', ...poolAt(join(folder, 'pool')) },
      directory: { name: 'directory', type: 'directory', ...poolAt(join(folder, 'directory')) },
    },
  };
}

const poolAt = (folder: string): Pick<PoolPlaces, 'disk' | 'formatted' | 'folder'> => ({
  disk: `${folder}.xfs`,
  formatted: `${folder}.formatted`,
  folder,
});

export const poolsOf = ({ pools }: NodePlaces): PoolPlaces[] => Object.values(pools);

export const logOf = ({ logs }: Layout, name: string): string => join(logs, `${name}.log`);

export const nodeNames = (count: number): string[] => Array.from({ length: count }, (_, at) => `node-${at + 1}`);
