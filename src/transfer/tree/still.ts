// The last word on a fenced tree: since it was fenced nothing of it has changed, whoever had a way to it that no look at processes showed. By a
// walk that reads no content: every entry is as the list's manifest says, and no change time lies after the list was begun. Knows no sockets.
import { Bursts } from '../../host/bursts.ts';
import { isBefore, isSameTime, readable, type Time } from '../../host/tree-calls.ts';
import { FlockError } from '../../model/errors.ts';
import type { KnownEntry } from './entry.ts';
import { ManifestReader } from './manifest-file.ts';
import { Walk, type Walked } from './walk.ts';

export interface Stillness {
  root: number;
  /** The disk's time after the fence, and later than every change before it. */
  since: Time;
  /** Of the list; null: it could not be written down, then the times alone tell. */
  manifest: string | null;
  signal: AbortSignal;
}

/** Throws InUse, naming what changed. */
export async function checkStill({ root, since, manifest, signal }: Stillness): Promise<void> {
  const listed = manifest === null ? null : await ManifestReader.open(manifest);
  const walk = new Walk(root);
  const bursts = new Bursts();
  try {
    for (let walked = walk.next(); walked; walked = walk.next()) {
      if (bursts.isOver) await bursts.rest();
      signal.throwIfAborted();
      if (!isBefore(walked.stat.ctime, since)) throw changed(walked.path);
      if (listed) await compared(listed, walked);
    }
    if (listed?.entry) throw changed(listed.entry.path);
  } finally {
    walk.close();
    await listed?.close();
  }
}

async function compared(listed: ManifestReader, walked: Walked): Promise<void> {
  if (!isAsListed(listed.entry, walked)) throw changed(walked.path);
  if (!listed.step()) await listed.advance();
}

function isAsListed(listed: KnownEntry | null, { path, type, target, stat }: Walked): boolean {
  if (listed?.path !== path || listed.type !== type || listed.target !== target) return false;
  if (listed.known.ino !== stat.ino || !isSameTime(listed.known.ctime, stat.ctime)) return false;
  return type === 'hard' || (isSameTime(listed.mtime, stat.mtime) && (type !== 'file' || listed.size === stat.size));
}

const changed = (path: string): FlockError =>
  new FlockError(
    'InUse',
    `"${path === '' ? '.' : readable(path)}" of the fenced volume changed after it was fenced: somebody still writes there whom no look at processes, mounts and devices shows (a service of the kernel, a process outside of this machine's view); end that`,
  );
