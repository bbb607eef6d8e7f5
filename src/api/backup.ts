// Backup and restore of the server's database. A backup is taken beside a running server, by any process that may read the file; a
// restore never touches a database in use, and keeps what it replaces.
import { chmodSync, closeSync, copyFileSync, existsSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { ApiObject } from '../model/meta.ts';
import { RESTORED, type Volume } from '../model/volume.ts';
import type { Move } from '../model/move.ts';
import { FlockError } from '../model/errors.ts';
import { checkSchema, lockDatabase, onFile } from './sqlite-table.ts';

/** After a restore versions go on above all that the lost future may have used, so that whoever watches from there must list again. */
const VERSIONS_SKIPPED = 1_000_000_000;

const sync = (path: string): void => {
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
};

/** `part` becomes `target` at once, with its name on the disk when this returns. */
function settle(part: string, target: string): void {
  sync(part);
  renameSync(part, target);
  sync(dirname(target));
}

function verified(file: string): void {
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    checkSchema(database, file);
    const found = database.prepare('PRAGMA integrity_check').all();
    const faults = found.map((row) => String(row['integrity_check'])).filter((fault) => fault !== 'ok');
    if (faults.length > 0) throw new FlockError('Corrupt', `${file} is damaged, nothing was changed: ${faults.slice(0, 3).join('; ')}`);
    for (const { name, text } of database.prepare('SELECT name, text FROM objects').iterate()) checkText(file, String(name), String(text));
  } finally {
    database.close();
  }
}

function checkText(file: string, name: string, text: string): void {
  try {
    JSON.parse(text);
  } catch (cause) {
    throw new FlockError('Corrupt', `${file} is damaged, nothing was changed: the object "${name}" cannot be read`, { cause });
  }
}

/** Writes a consistent copy of the database `source` to the new file `target`, readable by its owner only: it holds the server's keys. */
export function backup(source: string, target: string): void {
  if (!existsSync(source)) throw new FlockError('NotFound', `there is no database ${source}`);
  if (existsSync(target))
    throw new FlockError('AlreadyExists', `${target} exists: give the backup another name, or remove that file first`);
  const part = `${target}.part`;
  rmSync(part, { force: true });
  try {
    onFile(source, () => {
      const database = new DatabaseSync(source, { timeout: 5_000 });
      try {
        checkSchema(database, source);
        database.prepare('VACUUM INTO ?').run(part);
      } finally {
        database.close();
      }
    });
    chmodSync(part, 0o600);
    onFile(part, () => verified(part));
    settle(part, target);
  } finally {
    rmSync(part, { force: true });
  }
}

/** Versions go ahead, so that no watcher takes the old for the new; and what the disks may have gone on from since is marked. */
function advanced(file: string): void {
  const database = new DatabaseSync(file);
  try {
    database.prepare('UPDATE version SET newest = newest + ?').run(VERSIONS_SKIPPED);
    markRestored(database);
  } finally {
    database.close();
  }
}

interface Row {
  resource: string;
  namespace: string;
  name: string;
  text: string;
}

function markRestored(database: DatabaseSync): void {
  const rows = database.prepare('SELECT * FROM objects').all() as unknown as Row[];
  const texts = marked(
    rows.map(({ text }) => JSON.parse(text) as ApiObject),
    new Date().toISOString(),
  );
  const write = database.prepare('UPDATE objects SET text = ? WHERE resource = ? AND namespace = ? AND name = ?');
  for (const [index, object] of texts) {
    const row = rows[index] as Row;
    write.run(JSON.stringify(object), row.resource, row.namespace, row.name);
  }
}

/**
 * Those of a backup's objects that change when it is restored, by their index. A volume that was not made yet, or had a move under way, may
 * have been made or moved after the backup: nothing of it is made or swapped until a person takes the mark away (decide/moves.ts,
 * decide/volumes.ts, decide/copies.ts).
 */
export function marked(objects: readonly ApiObject[], at: string): Map<number, ApiObject> {
  const moving = new Set(
    objects.flatMap((object) => (object.kind === 'Move' && isUnderWay(object as Move) ? [(object as Move).spec.volume] : [])),
  );
  const inDoubt = (object: ApiObject): boolean =>
    object.kind === 'Volume' && (moving.has(object.metadata.name) || !wasMade(object as Volume));
  return new Map(
    objects.flatMap((object, index) => {
      const annotations = { ...object.metadata.annotations, [RESTORED]: at };
      return inDoubt(object) ? [[index, { ...object, metadata: { ...object.metadata, annotations } }]] : [];
    }),
  );
}

const isUnderWay = ({ status }: Move): boolean =>
  status?.volumeUid !== undefined && !['Retaining', 'Done', 'Cancelled', 'Failed'].includes(status.phase ?? '');

const wasMade = ({ spec, status }: Volume): boolean => spec.copy !== undefined && status?.copies?.[spec.copy]?.created === true;

/** Moves an unused database out of the way. */
function setAside(target: string): string | null {
  if (!existsSync(target)) return null;
  // Opening it once takes what its last server left in the log into the file itself.
  onFile(target, () => {
    const database = new DatabaseSync(target);
    try {
      database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    } finally {
      database.close();
    }
  });
  const aside = `${target}.before-restore-${new Date().toISOString().replaceAll(/[:.]/gu, '-')}`;
  renameSync(target, aside);
  for (const rest of [`${target}-wal`, `${target}-shm`]) rmSync(rest, { force: true });
  return aside;
}

/**
 * Puts the backup `file` in the place of the database `target`. Returns where the database that was there before lies now, null if there was none.
 * Throws InUse while a server has the target open, Corrupt when the backup is damaged, Unsupported when a newer version made it.
 */
export function restore(file: string, target: string): string | null {
  if (!existsSync(file)) throw new FlockError('NotFound', `there is no backup ${file}`);
  const lock = lockDatabase(target);
  const part = `${target}.restoring`;
  try {
    onFile(file, () => verified(file));
    copyFileSync(file, part);
    chmodSync(part, 0o600);
    onFile(part, () => advanced(part));
    const aside = setAside(target);
    settle(part, target);
    return aside;
  } finally {
    rmSync(part, { force: true });
    lock.release();
  }
}
