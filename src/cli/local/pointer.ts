// Which local cluster is meant when nobody says: a file that names the folder of the one that came up last.
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

type Environment = { [name: string]: string | undefined };

function stateFolder(env: Environment): string {
  const named = env['XDG_STATE_HOME'];
  return join(named?.startsWith('/') ? named : join(env['HOME'] || homedir(), '.local', 'state'), 'flock');
}

const pointerFile = (env: Environment): string => join(stateFolder(env), 'current');

/** Folder of a local cluster when none is named. */
export const defaultDirectory = (env: Environment): string => join(stateFolder(env), 'cluster');

export function currentCluster(env: Environment): string | null {
  try {
    return readFileSync(pointerFile(env), 'utf8').trim() || null;
  } catch {
    return null;
  }
}

export function pointAt(directory: string, env: Environment): void {
  const file = pointerFile(env);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.new`, `${directory}\n`);
  renameSync(`${file}.new`, file);
}

/** Only if it is this cluster that is meant now. */
export function pointAway(directory: string, env: Environment): void {
  if (currentCluster(env) === directory) rmSync(pointerFile(env), { force: true });
}
