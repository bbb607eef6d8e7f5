// What of the cluster that came up last on this machine does not run, or is not mounted.
import { readFileSync } from 'node:fs';
import { parseMounts } from '../../host/mountinfo.ts';
import type { Finding } from '../doctor.ts';
import { found } from './child.ts';
import { namesOf } from './cluster.ts';
import { readDescription } from './description.ts';
import { layoutOf, nodeNames, placesOf } from './layout.ts';
import { currentCluster } from './pointer.ts';

/** Nothing when no cluster came up here. */
export function localFindings(env: { [name: string]: string | undefined }): Finding[] {
  const directory = currentCluster(env);
  const layout = directory === null ? null : layoutOf(directory);
  const description = layout === null ? null : readDescription(layout);
  if (layout === null || description === null) return [];
  const silent = namesOf(description).filter((name) => found(layout.running, name) === null);
  const mounted = parseMounts(readFileSync('/proc/self/mountinfo', 'utf8')).map((mount) => mount.target);
  const pools = description.ground === 'folder' ? [] : nodeNames(description.nodes).map((name) => placesOf(layout, name).pool);
  const unmounted = pools.filter((pool) => !mounted.includes(pool));
  const wayOut = 'flockctl up starts and mounts what is missing';
  return [
    silent.length === 0
      ? { state: 'ok', text: `all processes of the cluster in ${layout.directory} run` }
      : { state: 'wrong', text: `of the cluster in ${layout.directory} these do not run: ${silent.join(', ')}; ${wayOut}` },
    ...unmounted.map((pool): Finding => ({ state: 'wrong', text: `the pool ${pool} is not mounted; ${wayOut}` })),
  ];
}
