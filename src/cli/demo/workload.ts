// What the demo stores and runs, in its forms: big files and a SQLite database, on a filesystem of its own or in a directory, and, where
// nothing can be mounted, a raw file with random bytes and numbered records. Knows volumes by their path only.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Filesystem, VolumeSpec } from '../../model/volume.ts';
import type { Held } from './commits.ts';
import { hashStretches, writeStretches, type Stretch } from './content.ts';
import { readDatabase } from './database.ts';
import { readRecords } from './records.ts';

const MIB = 1024 * 1024;
/** Of the content that does not change: so much that a copy can be watched, and interrupted after more than a crash may cost. */
export const CONTENT = 256 * MIB;
const FILES = 8;

export interface Workload {
  /** What it is, in words. */
  content: string;
  application: string;
  commits: string;
  given: string;
  taken: string;
  volume: Pick<VolumeSpec, 'volumeMode' | 'filesystem'>;
  /** Points in time let a move copy only what changed while the application stands still. */
  pointed: boolean;
  /** How a person makes such a volume, and where it may be mounted, if anywhere. */
  byHand: { create: string; mount: string | null };
  /** Writes the content into the volume at this path; its hash. */
  write(target: string, tell: (written: number) => void, signal: AbortSignal): Promise<string>;
  hash(target: string, signal: AbortSignal): Promise<string>;
  /** Arguments of the application before and after its log's name. */
  words(target: string, log: string): string[];
  /** What the application has committed there. It must not run. */
  read(target: string): Held;
}

/** `points`: of the pool that the volume lies in. */
export function mountedWorkload(filesystem: Filesystem, points: boolean): Workload {
  return {
    ...storedWorkload(),
    given: 'mounted',
    taken: 'unmounted',
    volume: { volumeMode: 'Filesystem', filesystem },
    pointed: points,
    byHand: { create: '--size 2Gi --node node-1', mount: '/mnt/db' },
  };
}

/** A directory is bound to its path by a mount, or, where nothing can be mounted, handed out as a link. */
export function directoryWorkload(mounting: boolean): Workload {
  const [given, taken] = mounting ? ['mounted (bound)', 'unmounted'] : ['handed out as a link', 'taken back'];
  return {
    ...storedWorkload(),
    given,
    taken,
    volume: { volumeMode: 'Filesystem' },
    // Its last round reads what changed since, by whole files, which are not many here.
    pointed: true,
    byHand: { create: '--size 2Gi --node node-1 --pool directory', mount: 'mnt' },
  };
}

function storedWorkload(): Omit<Workload, 'given' | 'taken' | 'volume' | 'pointed' | 'byHand'> {
  const files = (target: string): Stretch[] =>
    Array.from({ length: FILES }, (_, at) => ({ file: join(target, 'files', `${at + 1}`), offset: 0, length: CONTENT / FILES }));
  const database = (target: string): string => join(target, 'application.db');
  return {
    content: `${FILES} files`,
    application: 'a SQLite database (WAL, every commit synced)',
    commits: 'in the database',
    write: async (target, tell, signal) => {
      await mkdir(join(target, 'files'));
      return writeStretches(files(target), tell, signal);
    },
    hash: (target, signal) => hashStretches(files(target), signal),
    words: (target, log) => ['database', database(target), log],
    read: (target) => readDatabase(database(target)),
  };
}

export function rawWorkload(points: boolean): Workload {
  const bytes = (target: string): Stretch[] => [{ file: target, offset: 0, length: CONTENT }];
  return {
    content: 'a stretch of the raw file',
    application: 'a writer of numbered records, each with a checksum, each synced',
    commits: 'among the records',
    given: 'handed out',
    taken: 'taken back',
    volume: { volumeMode: 'Block' },
    pointed: points,
    byHand: { create: '--size 512Mi --node node-1 --block', mount: null },
    write: (target, tell, signal) => writeStretches(bytes(target), tell, signal),
    hash: (target, signal) => hashStretches(bytes(target), signal),
    words: (target, log) => ['records', target, log, String(CONTENT)],
    read: (target) => readRecords(target, CONTENT),
  };
}
