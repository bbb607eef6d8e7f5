// What of the clusters that came up on this machine does not run, is not mounted, or was left behind.
import { readdirSync, readFileSync } from 'node:fs';
import { parseMounts } from '../../host/mountinfo.ts';
import { note, ok, wrong, type Finding } from '../finding.ts';
import { found } from './child.ts';
import { namesOf, readDescription, type Description } from './description.ts';
import { layoutOf, nodeNames, placesOf, poolsOf, SERVER, type Layout } from './layout.ts';
import { knownClusters } from './pointer.ts';
import { roomFindings } from './room.ts';

/** The first that is known is the one that is meant. Nothing when no cluster came up here. */
export function localFindings(env: { [name: string]: string | undefined }): Finding[] {
  return knownClusters(env).flatMap((directory, index) => {
    const layout = layoutOf(directory);
    const description = readDescription(layout);
    if (description === null) return ofRemoved(layout);
    return index === 0 ? ofMeant(layout, description) : ofOther(layout);
  });
}

const mountedBelow = (directory: string): string[] =>
  parseMounts(readFileSync('/proc/self/mountinfo', 'utf8'))
    .map(({ target }) => target)
    .filter((target) => target.startsWith(`${directory}/`));

function ofMeant(layout: Layout, description: Description): Finding[] {
  const silent = namesOf(description).filter((name) => found(layout.running, name) === null);
  const mounted = mountedBelow(layout.directory);
  const pools = description.ground === 'folder' ? [] : nodeNames(description.nodes).flatMap((name) => poolsOf(placesOf(layout, name)));
  const disks = pools.map(({ disk }) => disk);
  const unmounted = pools.map(({ folder }) => folder).filter((folder) => !mounted.includes(folder));
  const wayOut = 'flockctl up starts and mounts what is missing';
  return [
    silent.length === 0
      ? ok(`all processes of the cluster in ${layout.directory} run`)
      : wrong(`of the cluster in ${layout.directory} these do not run: ${silent.join(', ')}; ${wayOut}`),
    ...unmounted.map((pool) => wrong(`the pool ${pool} is not mounted; ${wayOut}`)),
    ...roomFindings(layout.directory, disks),
  ];
}

function ofOther({ directory, running, kubeconfig }: Layout): Finding[] {
  if (found(running, SERVER) !== null) return [note(`another cluster runs in ${directory}: FLOCK_KUBECONFIG=${kubeconfig} asks it`)];
  const mounted = mountedBelow(directory);
  if (mounted.length === 0) return [];
  return [
    wrong(
      `the cluster in ${directory} does not run, but ${mounted.join(', ')} is still mounted: flockctl down --dir ${directory} ends that`,
    ),
  ];
}

/** Somebody removed its folder by hand. */
function ofRemoved({ directory }: Layout): Finding[] {
  const left = readdirSync('/proc').filter(
    (pid) => /^[0-9]+$/u.test(pid) && argumentsOf(pid).some((each) => each.startsWith(`${directory}/`)),
  );
  if (left.length === 0) return [];
  return [wrong(`the folder ${directory} is gone, but processes of its cluster still run: kill ${left.join(' ')}`)];
}

function argumentsOf(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}
