// Ids and paths that come in calls, judged before anything is looked up by them: no text of a caller reaches a path or a record's address
// unless it is a name by our pattern.
import { createHash } from 'node:crypto';
import { isAbsolute, normalize } from 'node:path';
import { NAME_PATTERN, nodeName, objectName, printable } from '../model/names.ts';
import { invalid } from './errors.ts';

/** A volume's id is the name of its Volume. */
export function volumeIdOf({ volumeId }: { volumeId: string }): string {
  if (volumeId === '') throw invalid('volume_id is missing');
  return objectName(volumeId);
}

/** A snapshot's id is the name of its Snapshot. */
export function snapshotIdOf({ snapshotId }: { snapshotId: string }): string {
  if (snapshotId === '') throw invalid('snapshot_id is missing');
  return objectName(snapshotId);
}

/** A node's id is the name of its StorageNode. */
export function nodeIdOf({ nodeId }: { nodeId: string }): string {
  if (nodeId === '') throw invalid('node_id is missing');
  return nodeName(nodeId);
}

const VALID = new RegExp(NAME_PATTERN, 'u');

/**
 * The Volume's name for what a caller calls it: the same when it can be a name, as those of Kubernetes can, else one made from it, so that
 * the same call finds the same volume.
 */
export const volumeNameFor = (name: string): string => recordNameFor(name, 'vol');

/** As for a volume. */
export const snapshotNameFor = (name: string): string => recordNameFor(name, 'snap');

function recordNameFor(name: string, kind: 'vol' | 'snap'): string {
  if (name === '') throw invalid('name is missing');
  // eslint-disable-next-line no-control-regex -- what the specification bans
  if (/[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F]/u.test(name))
    throw invalid(`name ${printable(name)} is not valid: it has control characters`);
  return name.length <= 128 && VALID.test(name) ? name : `${kind}-${createHash('sha256').update(name).digest('hex').slice(0, 40)}`;
}

/** An absolute path, made plain. */
export function pathOf(field: string, path: string): string {
  if (path === '') throw invalid(`${field} is missing`);
  if (!isAbsolute(path) || path.includes('\0') || path.length > 4_000 || path.split('/').includes('..'))
    throw invalid(`${field} ${printable(path)} is not valid: give an absolute path without ".."`);
  const plain = normalize(path).replace(/\/$/u, '');
  if (plain === '') throw invalid(`${field} cannot be /`);
  return plain;
}
