// What keeps a directory within its size: a project quota, a quota of its btrfs subvolume, or nothing but the booking. Which it is the
// filesystem decides, and is asked once when the pool is opened.
import { randomInt } from 'node:crypto';
import { closeSync, constants, openSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { mountOf } from '../host/mounts.ts';
import { beLimited, beUnlimited, hasProjectQuota, projectQuota } from '../host/project-quota.ts';
import { beLimitedSubvolume, dropQgroup, hasQgroups, makeSubvolume, qgroupOf } from '../host/qgroup.ts';
import type { Budget } from '../model/storage-node.ts';

/** Numbers of projects are the filesystem's, and others may use the small ones. */
const PROJECTS = { from: 0x4f000000, to: 0x4fffffff };

/** Inode of the root of every subvolume. */
const SUBVOLUME_ROOT = 256;

export interface Limits {
  readonly budget: Budget;
  /** A number that nobody uses yet, for the label; undefined where none is needed. */
  project(): number | undefined;
  /** The empty directory at this path. Not called when it is there. */
  make(path: string): Promise<void>;
  /** It may hold so many bytes. Safe to repeat; read back. */
  limit(path: string, of: { size: bigint; project: number | undefined }): Promise<void>;
  /** Bytes that it holds; null: not known without reading it. */
  used(path: string, project: number | undefined): Promise<bigint | null>;
  /** Its end, after it was emptied but before it goes, if it is there. Returns what is to be done when it is gone. */
  drop(path: string, project: number | undefined): Promise<() => Promise<void>>;
}

export async function limitsOf(folder: string): Promise<Limits> {
  const mount = await mountOf(folder);
  const root = process.geteuid?.() === 0;
  if (root && hasProjectQuota(mount)) return byProject(folder);
  if (root && mount.filesystem === 'btrfs' && (await hasQgroups(folder))) return byQgroup(folder);
  return BOOKED;
}

const nothing = async (): Promise<void> => {};

const makeFolder = (path: string): Promise<void> => mkdir(path, { mode: 0o755 });

const BOOKED: Limits = {
  budget: 'booked',
  project: () => undefined,
  make: makeFolder,
  limit: nothing,
  used: async () => null,
  drop: async () => nothing,
};

function withFolder<T>(path: string, act: (fd: number) => T): T {
  const fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    return act(fd);
  } finally {
    closeSync(fd);
  }
}

function byProject(folder: string): Limits {
  const isFree = (project: number): boolean => {
    try {
      const { limit, used } = withFolder(folder, (fd) => projectQuota(fd, project));
      return limit === 0n && used === 0n;
    } catch {
      // Nobody ever used it.
      return true;
    }
  };
  return {
    budget: 'project-quota',
    project: () => {
      for (;;) {
        const project = randomInt(PROJECTS.from, PROJECTS.to);
        if (isFree(project)) return project;
      }
    },
    make: makeFolder,
    limit: async (path, { size, project }) => {
      if (project === undefined) return;
      const fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
      try {
        await beLimited(fd, project, size);
      } finally {
        closeSync(fd);
      }
    },
    used: async (path, project) => (project === undefined ? null : withFolder(path, (fd) => projectQuota(fd, project)).used),
    drop: async (_path, project) => {
      if (project !== undefined) withFolder(folder, (fd) => beUnlimited(fd, project));
      return nothing;
    },
  };
}

function byQgroup(folder: string): Limits {
  return {
    budget: 'qgroup',
    project: () => undefined,
    make: makeSubvolume,
    limit: async (path, { size }) => {
      if (await isSubvolume(path)) await beLimitedSubvolume(path, size);
    },
    used: async (path) => ((await isSubvolume(path)) ? ((await qgroupOf(path))?.used ?? null) : null),
    drop: async (path) => {
      const id = (await isSubvolume(path)) ? (await qgroupOf(path))?.id : undefined;
      return async () => {
        if (id !== undefined) await dropQgroup(folder, id);
      };
    },
  };
}

/** A directory made before quotas were enabled is none: its quota is that of the whole pool, which is not to be touched. */
const isSubvolume = async (path: string): Promise<boolean> => (await stat(path)).ino === SUBVOLUME_ROOT;
