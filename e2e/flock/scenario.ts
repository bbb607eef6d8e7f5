// What the scenarios of Flock share: the cluster with Flock on it, namespaces that end with their scenario, and what the records say.
import { after, before } from 'node:test';
import { openCluster, type Cluster } from '../rig/cluster.ts';
import type { RigNode } from '../rig/node.ts';
import { install, isInstalled, NAMESPACE, POOL, prepare, rigValues, type Values } from './chart.ts';
import { items, Space, until } from './objects.ts';

export interface Scenario {
  readonly cluster: Cluster;
  /** A namespace that is there until the scenario's end. */
  space(name: string): Promise<Space>;
  node(name: string): RigNode;
  /** Bytes booked in a pool of every node. */
  readonly booked: (pool?: string) => Promise<{ [node: string]: string }>;
  /** Names of the pods of a part of Flock; on one node, if one is named. */
  parts(component: 'agent' | 'controller', node?: string): Promise<string[]>;
}

interface StorageNode {
  metadata: { name: string };
  status?: { pools?: { [name: string]: { booked?: string } } };
}

interface Pod {
  metadata: { name: string };
  spec: { nodeName: string };
}

/** For a test file: Flock is installed when it is not, with the values given, and stays; the namespaces go after all tests. */
export function scenario(first: Values = rigValues()): Scenario {
  let opened: Cluster | null = null;
  const spaces: Space[] = [];
  const cluster = (): Cluster => {
    if (!opened) throw new Error('the cluster is there once the tests run');
    return opened;
  };
  before(async () => {
    opened = await openCluster(process.env['FLOCK_RIG'] ?? 'e2e');
    if (await isInstalled(opened)) return;
    await prepare(opened);
    await install(opened, first);
  });
  after(async () => {
    await Promise.all(spaces.map((space) => space.end()));
  });
  return {
    get cluster() {
      return cluster();
    },
    space: async (name) => {
      const made = new Space(cluster().kubectl, name);
      spaces.push(made);
      await made.make();
      return made;
    },
    node: (name) => {
      const found = cluster().nodes.find((each) => each.name === name);
      if (!found) throw new Error(`there is no node ${name}`);
      return found;
    },
    booked: async (pool = POOL) => {
      const nodes = await items<StorageNode>(cluster().kubectl, 'storagenodes');
      return Object.fromEntries(nodes.map(({ metadata, status }) => [metadata.name, status?.pools?.[pool]?.booked ?? 'unknown']));
    },
    parts: async (component, node) => {
      const label = `app.kubernetes.io/component=${component}`;
      const pods = await items<Pod>(cluster().kubectl, 'pods', '-n', NAMESPACE, '-l', label);
      return pods.filter(({ spec }) => node === undefined || spec.nodeName === node).map(({ metadata }) => metadata.name);
    },
  };
}

/** Waits until nothing of Flock is left of what was there: no PersistentVolume of its classes, no Volume, no Move. */
export async function nothingLeft({ cluster }: Scenario): Promise<void> {
  for (const kind of ['volumes.flock.dev', 'moves.flock.dev', 'volumeattachments'])
    await until('', async () => (await cluster.kubectl.ok(['get', kind, '-o', 'name'])).trim());
}
