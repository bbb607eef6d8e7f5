// This side's own look at its tree: walks it, reads what may have changed, writes down the manifest, and tells what it is as one digest.
import { closeSync } from 'node:fs';
import { forgetCached, type Time } from '../../host/tree-calls.ts';
import type { CopyName, Pool, TreeHandle } from '../../pools/pool.ts';
import { Base } from './base.ts';
import { SMALL, sumsOf } from './content.ts';
import { diskTime, manifestOf } from './disk.ts';
import { TreeDigest, type KnownEntry } from './entry.ts';
import { ManifestWriter } from './manifest-file.ts';
import { Scan, type Scanned } from './scan.ts';

export interface LookOrder {
  pool: Pool;
  copy: CopyName;
  tree: TreeHandle;
  /** Files that changed since are read from the disk, whatever is known of them. */
  readSince?: Time;
  signal: AbortSignal;
  onRead: (bytes: number) => void;
}

export interface Looked {
  digest: string;
  entries: number;
  bytes: number;
  /** Of the last entry; null: there is nothing but the root. */
  last: string | null;
}

/** Of a tree that nobody else writes. Afterwards its manifest is whole. */
export async function look({ pool, copy, tree, readSince, signal, onRead }: LookOrder): Promise<Looked> {
  await using opened = new AsyncDisposableStack();
  const base = opened.adopt(await Base.open(manifestOf(pool, copy)), (each) => each.close());
  const manifest = opened.adopt(await ManifestWriter.create(manifestOf(pool, copy)), (each) => each.close());
  const start = await diskTime(pool, copy);
  const scan = new Scan({ root: tree.fd, base, start, settled: true, signal, ...(readSince ? { readSince } : {}) });
  opened.defer(() => scan.close());
  const digest = new TreeDigest();
  let last = '';
  for (let scanned = await scan.next(); scanned; scanned = await scan.next()) {
    const { fd } = scanned;
    const entry = fd === null ? scanned.entry : await read(scan, { ...scanned, fd }, onRead);
    digest.put(entry);
    // Nobody else writes here, so it is known for sure, however young it is.
    manifest.put({ ...entry, known: { ...entry.known, sure: true } });
    if (manifest.isDue) await manifest.flush();
    last = entry.path;
  }
  await manifest.finish();
  return { digest: digest.end(), entries: digest.entries, bytes: digest.bytes, last: last === '' ? null : last };
}

/** The digest of a tree that nobody writes, as moves compute it: all of it is read, and nothing is believed or written down. */
export async function digestOfTree(root: number, signal: AbortSignal): Promise<string> {
  const scan = new Scan({ root, base: null, start: { s: 0, ns: 0 }, settled: true, signal });
  const digest = new TreeDigest();
  try {
    for (let scanned = await scan.next(); scanned; scanned = await scan.next()) {
      const { entry, fd } = scanned;
      digest.put(fd === null ? entry : await read(scan, { entry, fd }, () => {}));
    }
    return digest.end();
  } finally {
    scan.close();
  }
}

async function read(scan: Scan, scanned: Scanned & { fd: number }, onRead: (bytes: number) => void): Promise<KnownEntry> {
  const { entry, fd } = scanned;
  try {
    // From the disk, not from what is remembered of the writing. Small files are too many for that.
    if (entry.size > SMALL) forgetCached(fd);
    const sums = await sumsOf(fd, { size: entry.size, short: 'refuse' });
    onRead(entry.size);
    return scan.after(scanned, sums);
  } finally {
    closeSync(fd);
  }
}
