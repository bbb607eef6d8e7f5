// The objects' rows and the server's settings in one SQLite file, so that one backup holds both. A write is on the disk when it
// returns (WAL, synchronous FULL). One process at a time: a lock beside the file, which goes with the process that holds it.
import { closeSync, openSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { FlockError, messageOf, type Reason } from '../model/errors.ts';
import type { Settings } from './settings.ts';
import type { Row, RowKey, Table } from './table.ts';

/** "Flck": tells our files from others'. */
const APPLICATION_ID = 0x466c636b;
/** Version of the tables below. */
const SCHEMA_VERSION = 1;

const SCHEMA = `
  CREATE TABLE objects (resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (resource, namespace, name)) WITHOUT ROWID, STRICT;
  CREATE TABLE version (newest INTEGER NOT NULL) STRICT;
  INSERT INTO version VALUES (0);
  CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID, STRICT;
  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${SCHEMA_VERSION};
`;

/** SQLite's primary result codes that say more than "it failed". */
const REASONS: { [code: number]: Reason } = {
  5: 'InUse',
  8: 'NotPermitted',
  11: 'Corrupt',
  13: 'NoSpace',
  14: 'NotPermitted',
  26: 'Corrupt',
};

/** Runs `act`; what SQLite throws becomes a FlockError that names the file. */
export function onFile<T>(file: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    if (error instanceof FlockError) throw error;
    const { errcode = 1 } = error as { errcode?: number };
    throw new FlockError(REASONS[errcode & 0xff] ?? 'Unavailable', `database ${file}: ${messageOf(error)}`, { cause: error });
  }
}

const pragma = (database: DatabaseSync, name: string): unknown => Object.values(database.prepare(`PRAGMA ${name}`).get() ?? {})[0];

/** Throws Corrupt when the file is not ours, Unsupported when it is of a later version. */
export function checkSchema(database: DatabaseSync, file: string): void {
  const version = Number(pragma(database, 'user_version'));
  if (Number(pragma(database, 'application_id')) !== APPLICATION_ID)
    throw new FlockError('Corrupt', `${file} is no database of flockctl server`);
  if (version > SCHEMA_VERSION) {
    throw new FlockError(
      'Unsupported',
      `database ${file} has schema version ${version}, this program knows ${SCHEMA_VERSION}: use a newer flockctl`,
    );
  }
}

function prepared(database: DatabaseSync, file: string): void {
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;');
  const tables = database.prepare('SELECT count(*) AS n FROM sqlite_schema').get();
  if (Number(tables?.['n']) === 0) database.exec(`BEGIN IMMEDIATE; ${SCHEMA} COMMIT;`);
  checkSchema(database, file);
}

/** A lock that nobody refers to would be collected, and with it lost while its database is still in use. */
const held = new Set<DatabaseSync>();

/** Held until released, or until the process ends in whatever way. Throws InUse when another holds it. */
export function lockDatabase(file: string): { release: () => void } {
  const lock = onFile(`${file}-lock`, () => new DatabaseSync(`${file}-lock`));
  try {
    lock.exec('PRAGMA journal_mode = OFF; BEGIN EXCLUSIVE;');
  } catch (error) {
    lock.close();
    throw new FlockError('InUse', `database ${file} is in use by another server: stop that one first, or give this one another directory`, {
      cause: error,
    });
  }
  held.add(lock);
  const release = (): void => {
    if (held.delete(lock)) lock.close();
  };
  return { release };
}

class SqliteTable implements Table {
  readonly #file: string;
  readonly #database: DatabaseSync;
  readonly #put: StatementSync;
  readonly #remove: StatementSync;
  readonly #advance: StatementSync;

  constructor(database: DatabaseSync, file: string) {
    this.#file = file;
    this.#database = database;
    this.#put = database.prepare('INSERT OR REPLACE INTO objects (resource, namespace, name, text) VALUES (?, ?, ?, ?)');
    this.#remove = database.prepare('DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?');
    this.#advance = database.prepare('UPDATE version SET newest = ?');
  }

  version(): number {
    return Number(this.#database.prepare('SELECT newest FROM version').get()?.['newest']);
  }

  *rows(): Iterable<Row> {
    yield* this.#database.prepare('SELECT resource, namespace, name, text FROM objects').iterate() as Iterable<object> as Iterable<Row>;
  }

  put({ resource, namespace, name, text }: Row, version: number): void {
    this.#write(version, () => this.#put.run(resource, namespace, name, text));
  }

  remove({ resource, namespace, name }: RowKey, version: number): void {
    this.#write(version, () => this.#remove.run(resource, namespace, name));
  }

  #write(version: number, change: () => void): void {
    onFile(this.#file, () => {
      this.#database.exec('BEGIN IMMEDIATE');
      try {
        change();
        this.#advance.run(version);
        this.#database.exec('COMMIT');
      } catch (error) {
        if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
        throw error;
      }
    });
  }
}

class SqliteSettings implements Settings {
  readonly #file: string;
  readonly #database: DatabaseSync;

  constructor(database: DatabaseSync, file: string) {
    this.#database = database;
    this.#file = file;
  }

  get(name: string): string | null {
    return this.#one('SELECT value FROM settings WHERE name = ?', name);
  }

  put(name: string, value: string): void {
    onFile(this.#file, () => this.#database.prepare('INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)').run(name, value));
  }

  take(name: string): string | null {
    return this.#one('DELETE FROM settings WHERE name = ? RETURNING value', name);
  }

  names(prefix: string): string[] {
    const rows = onFile(this.#file, () =>
      this.#database.prepare('SELECT name FROM settings WHERE substr(name, 1, length(?1)) = ?1 ORDER BY name').all(prefix),
    );
    return rows.map(({ name }) => String(name));
  }

  #one(statement: string, name: string): string | null {
    const row = onFile(this.#file, () => this.#database.prepare(statement).get(name));
    return row === undefined ? null : String(row['value']);
  }
}

export interface Database {
  readonly file: string;
  readonly table: Table;
  readonly settings: Settings;
  close(): void;
}

/**
 * Opens the server's database, and makes it when it is not there. Throws InUse when another process has it, Corrupt when it is none,
 * Unsupported when a newer version made it.
 */
export function openDatabase(file: string): Database {
  const lock = lockDatabase(file);
  try {
    return onFile(file, () => {
      // Made by us first, for its owner only: it holds the authority's key. What SQLite lays beside it inherits that.
      closeSync(openSync(file, 'a', 0o600));
      const database = new DatabaseSync(file, { timeout: 5_000 });
      prepared(database, file);
      const close = (): void => {
        database.close();
        lock.release();
      };
      return { file, table: new SqliteTable(database, file), settings: new SqliteSettings(database, file), close };
    });
  } catch (error) {
    lock.release();
    throw error;
  }
}
