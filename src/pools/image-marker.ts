// The marker of an image pool: which pool this folder is, and which filesystem it was made on. It is written once, on an order, and never
// again: after a reboot without its mount the folder is an empty one on the root disk, and data written there would be lost.
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { mkdir, open, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import Type, { type Static } from 'typebox';
import Value from 'typebox/value';
import { ifThere, isCode, syncFolder, writeAtomically } from '../host/files.ts';
import { mountOf } from '../host/mounts.ts';
import { run } from '../host/run.ts';
import { filesystemUuid } from '../host/syscalls.ts';
import { FlockError, messageOf } from '../model/errors.ts';
import { UID_PATTERN } from '../model/names.ts';
import { JOURNALS, MARKER } from './image-layout.ts';

const Marker = Type.Object({
  version: Type.Literal(1),
  uuid: Type.String({ pattern: UID_PATTERN }),
  /** UUID of the filesystem as hex digits; null: it has none that could be read. */
  filesystem: Type.Union([Type.String(), Type.Null()]),
});
export type Marker = Static<typeof Marker>;

/** The folder is an image pool; its UUID. `expected`: the UUID it had before, then an unmarked folder is refused instead of marked. */
export async function beInitialised(folder: string, expected: string | null = null): Promise<string> {
  const there = await markerOf(folder);
  if (there) return judgedMarker(folder, there, expected);
  if (expected !== null) throw await unmarked(folder);
  await beFolder(folder);
  await beFolder(join(folder, JOURNALS));
  await syncFolder(folder);
  const marker: Marker = { version: 1, uuid: randomUUID(), filesystem: await filesystemOf(folder) };
  await writeAtomically(join(folder, MARKER), `${JSON.stringify(marker, null, 2)}\n`);
  return marker.uuid;
}

/** Only the last part is made: a path that is wrong, or whose disk is not mounted, must not become a pool on the root disk. */
async function beFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (isCode(error, 'EEXIST')) return;
    throw new FlockError(
      'NotPermitted',
      `the pool's folder ${path} cannot be made (${messageOf(error)}): mount its filesystem or correct its path`,
      {
        cause: error,
      },
    );
  }
}

async function judgedMarker(folder: string, marker: Marker, expected: string | null): Promise<string> {
  if (expected !== null && marker.uuid !== expected) {
    const mount = await mountOf(folder);
    throw new FlockError(
      'NotPermitted',
      `${folder} is pool ${marker.uuid}, not ${expected}: ${mount.source} mounted at ${mount.target} is another disk. Mount the right one`,
    );
  }
  const filesystem = await filesystemOf(folder);
  if (filesystem !== null && marker.filesystem !== null && filesystem !== marker.filesystem) {
    const mount = await mountOf(folder);
    throw new FlockError(
      'NotPermitted',
      `${folder} says that it is pool ${marker.uuid}, but lies on another filesystem than that pool was made on (${mount.source} mounted at ${mount.target}): mount the pool's own filesystem there`,
    );
  }
  return marker.uuid;
}

/** Says again and again whether a folder is still the pool it was. */
export class PoolIdentity {
  private readonly folder: string;
  private readonly uuid: string;
  /** Device whose filesystem was found to be the right one. */
  private proven: number | null = null;

  constructor(folder: string, uuid: string) {
    this.folder = folder;
    this.uuid = uuid;
  }

  /** Throws NotPermitted. */
  async verify(): Promise<void> {
    const marker = await markerOf(this.folder);
    if (!marker) throw await unmarked(this.folder);
    const { dev } = await stat(this.folder);
    if (marker.uuid === this.uuid && dev === this.proven) return;
    await judgedMarker(this.folder, marker, this.uuid);
    this.proven = dev;
  }
}

async function markerOf(folder: string): Promise<Marker | null> {
  const path = join(folder, MARKER);
  const text = await ifThere(readFile(path, 'utf8'));
  if (text === null) return null;
  const parsed = parsedOrNull(text);
  if (Value.Check(Marker, parsed)) return parsed;
  throw new FlockError('Corrupt', `${path} is not a pool's marker: restore it, or use another folder`);
}

function parsedOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

async function unmarked(folder: string): Promise<FlockError> {
  const there = await stat(folder).catch(() => null);
  if (!there) return new FlockError('NotPermitted', `the pool's folder ${folder} is not there: mount its filesystem or correct its path`);
  const mount = await mountOf(folder);
  return new FlockError(
    'NotPermitted',
    `${folder} has no ${MARKER}: this folder on ${mount.source} (mounted at ${mount.target}) is not the pool. Is its filesystem mounted? Mount it and try again`,
  );
}

/** The filesystem's own UUID; null where neither kernel nor blkid tell. */
async function filesystemOf(folder: string): Promise<string | null> {
  await using opened = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  const told = filesystemUuid(opened.fd);
  if (told !== null) return told;
  const { source } = await mountOf(folder);
  if (process.getuid?.() !== 0 || !source.startsWith('/dev/')) return null;
  const { stdout } = await run('blkid', ['-p', '-o', 'value', '-s', 'UUID', source], { allow: [2] });
  return stdout.trim().replaceAll('-', '') || null;
}
