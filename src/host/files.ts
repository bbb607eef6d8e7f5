// Small files that are either the old ones or the new ones after a crash, and locks that end with their holder. Knows no content.
import { constants } from 'node:fs';
import { lstat, mkdir, open, realpath, rename, rmdir, stat, unlink, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { meaningOf } from '../model/errno.ts';
import { Invalid, messageOf } from '../model/errors.ts';
import { asFlockError, syncWhole, tryLock } from './syscalls.ts';

export const isCode = (error: unknown, ...codes: string[]): boolean =>
  codes.includes((error as NodeJS.ErrnoException | undefined)?.code ?? '');

/** What was asked of a path, or null when nothing is there. */
export async function ifThere<T>(asked: Promise<T>): Promise<T | null> {
  try {
    return await asked;
  } catch (error) {
    if (isCode(error, 'ENOENT', 'ENOTDIR')) return null;
    throw error;
  }
}

/** Names made, renamed and removed in this folder are on the disk. */
export async function syncFolder(folder: string): Promise<void> {
  await using opened = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  await opened.sync();
}

/** Everything written to the filesystem of this folder is on the disk, and what was freed is free. */
export async function syncFilesystem(folder: string): Promise<void> {
  await using opened = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  await syncWhole(opened.fd);
}

/** Temporary name beside the file: a left-over one is overwritten by the next write. */
export const temporaryName = (path: string): string => `${path}.new`;

/** Replaces the file whole, durably. One writer at a time. */
export async function writeAtomically(path: string, text: string | Uint8Array): Promise<void> {
  const temporary = temporaryName(path);
  try {
    await writeDurably(temporary, text);
    await rename(temporary, path);
    await syncFolder(dirname(path));
  } catch (error) {
    throw asFlockError(`writing ${path}`, error);
  }
}

async function writeDurably(path: string, text: string | Uint8Array): Promise<void> {
  await using file = await open(path, 'w', 0o600);
  await file.writeFile(text);
  await file.sync();
}

/** The file is not there, durably. */
export async function beAbsent(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (!isCode(error, 'ENOENT')) throw asFlockError(`removing ${path}`, error);
  }
  await syncFolder(dirname(path));
}

export interface Lock {
  release(): Promise<void>;
}

/** The lock of a file made for it, or null when somebody else has it. It ends with the process at the latest. */
export async function tryLockFile(path: string, how: 'exclusive' | 'shared'): Promise<Lock | null> {
  for (;;) {
    const file = await open(path, constants.O_RDWR | constants.O_CREAT, 0o600);
    const locked = tryLock(file.fd, how);
    // Its last holder may have removed it meanwhile: a lock on a nameless file locks nobody out.
    if (locked && (await isNamed(file, path))) return { release: () => file.close() };
    await file.close();
    if (!locked) return null;
  }
}

async function isNamed(file: FileHandle, path: string): Promise<boolean> {
  const held = await file.stat();
  const named = await ifThere(stat(path));
  return named?.ino === held.ino && named.dev === held.dev;
}

/**
 * The folder is there, and those above it; the paths of those that were made, innermost first. Node's own recursive mkdir tries for ever where a folder's parent is there and yet nothing can be
 * made in it, as below /proc. Throws Invalid then.
 */
export async function beFolder(path: string, mode = 0o777): Promise<string[]> {
  const first = await made(path, mode);
  if (first !== 'nowhere') return first;
  const above = await beFolder(dirname(path), mode);
  const second = await made(path, mode);
  if (second === 'nowhere') throw new Invalid(`no folder can be made at ${path}: choose another path`);
  return [...second, ...above];
}

/** `nowhere`: something above it is not there. */
async function made(path: string, mode: number): Promise<string[] | 'nowhere'> {
  try {
    await mkdir(path, { mode });
    return [path];
  } catch (error) {
    if (isCode(error, 'ENOENT') && dirname(path) !== path) return 'nowhere';
    if (!isCode(error, 'EEXIST') || !(await stat(path)).isDirectory())
      throw new Invalid(
        `no folder can be made at ${path}: ${meaningOf((error as NodeJS.ErrnoException).code ?? messageOf(error))}; choose another path`,
        { cause: error },
      );
    return [];
  }
}

/** Takes back folders that were just made; one that somebody put something into meanwhile stays. */
export async function beFoldersGone(made: readonly string[]): Promise<void> {
  for (const path of made) {
    try {
      await rmdir(path);
    } catch {
      return;
    }
  }
}

/** The path by the real name of the folder that it is in, where that is there: one place has one name. The last part may be a link. */
export async function realPlace(path: string): Promise<string> {
  const folder = await ifThere(realpath(dirname(path)));
  return folder === null ? path : join(folder, basename(path));
}

export const isLink = async (path: string): Promise<boolean> => (await ifThere(lstat(path)))?.isSymbolicLink() === true;
