// Where a cluster lives on this machine: one folder and one network namespace, both found by its name alone, so that whoever comes later
// can end it. Makes nothing.
import { join } from 'node:path';

export interface Place {
  name: string;
  /** Of the network namespace. Who runs in it belongs to the cluster. */
  namespace: string;
  folder: string;
  /** The folder that every node sees as /host. */
  host: string;
  /** Keys, certificates and kubeconfigs. */
  credentials: string;
  /** kubectl, which enters the namespace, and what people and tests call beside it. */
  bin: string;
  logs: string;
  pids: string;
  disks: string;
}

/** The folder that has a folder for each cluster. */
export const CLUSTERS = '/var/lib/flock-rig';

/** Throws when it is no name: it becomes part of paths and of an interface's kernel name. */
export function placeOf(name: string): Place {
  if (!/^[a-z][a-z0-9-]{0,19}$/u.test(name)) throw new Error(`${JSON.stringify(name)} is no cluster's name: at most 20 of a-z, 0-9 and -`);
  const folder = join(CLUSTERS, name);
  const [host, credentials, bin, logs, pids, disks] = ['host', 'credentials', 'bin', 'logs', 'pids', 'disks'].map((each) =>
    join(folder, each),
  ) as [string, string, string, string, string, string];
  return { name, namespace: `flock-${name}`, folder, host, credentials, bin, logs, pids, disks };
}

/** Argv before a program's own, to run it in the namespace; the pid stays. */
export const inside = (place: Place): [string, ...string[]] => ['nsenter', `--net=/run/netns/${place.namespace}`, '--'];
