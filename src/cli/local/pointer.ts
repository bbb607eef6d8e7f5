// Which local cluster is meant when nobody says: a file that names the folders of those that came up, the last one first. Knows nothing of
// what lies in them.
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

type Environment = { [name: string]: string | undefined };

function stateFolder(env: Environment): string {
  const named = env['XDG_STATE_HOME'];
  return join(named?.startsWith('/') ? named : join(env['HOME'] || homedir(), '.local', 'state'), 'flock');
}

export const pointerFile = (env: Environment): string => join(stateFolder(env), 'current');

/** Folder of a local cluster when none is named. */
export const defaultDirectory = (env: Environment): string => join(stateFolder(env), 'cluster');

/** The one that is meant first. */
export function knownClusters(env: Environment): string[] {
  try {
    return readFileSync(pointerFile(env), 'utf8').split('\n').filter(Boolean);
  } catch {
    return [];
  }
}

function remember(directories: readonly string[], env: Environment): void {
  const file = pointerFile(env);
  if (directories.length === 0) return rmSync(file, { force: true });
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.new`, directories.map((each) => `${each}\n`).join(''));
  renameSync(`${file}.new`, file);
}

export const currentCluster = (env: Environment): string | null => knownClusters(env)[0] ?? null;

/** From now on this cluster is meant. The one that was meant until now, null when it is the same or there was none. */
export function pointAt(directory: string, env: Environment): string | null {
  const before = knownClusters(env);
  remember([directory, ...before.filter((each) => each !== directory)], env);
  return before[0] === undefined || before[0] === directory ? null : before[0];
}

/**
 * This cluster does not run any more: the last one before it that does is meant. With none, it stays meant itself so that it can come up
 * again, unless it is gone. The cluster that is meant now.
 */
export function pointAway(
  directory: string,
  env: Environment,
  { gone, runs }: { gone: boolean; runs: (directory: string) => boolean },
): string | null {
  const before = knownClusters(env);
  const others = before.filter((each) => each !== directory);
  const next = before[0] === directory ? others.find(runs) : before[0];
  const kept = gone ? others : before;
  remember(next === undefined ? kept : [next, ...kept.filter((each) => each !== next)], env);
  return currentCluster(env);
}
