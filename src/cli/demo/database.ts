// A SQLite database as an application uses it: WAL, and every commit synced before it is acknowledged.
import { DatabaseSync } from 'node:sqlite';
import { checksumOf } from './acknowledged.ts';
import type { Committing, Held } from './commits.ts';

export function openDatabase(file: string): Committing {
  const database = new DatabaseSync(file);
  database.exec(`
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS commits (number INTEGER PRIMARY KEY, payload BLOB NOT NULL) STRICT;
  `);
  const { last } = database.prepare('SELECT coalesce(max(number), 0) AS last FROM commits').get() as { last: number };
  const insert = database.prepare('INSERT INTO commits (number, payload) VALUES (?, ?)');
  return {
    next: last + 1,
    commit: (number, payload) => void insert.run(number, payload),
    close: () => database.close(),
  };
}

export function readDatabase(file: string): Held {
  const database = new DatabaseSync(file);
  try {
    const commits = new Map<number, string>();
    for (const row of database.prepare('SELECT number, payload FROM commits').iterate()) {
      const { number, payload } = row as { number: number; payload: Uint8Array };
      commits.set(number, checksumOf(number, payload));
    }
    const answer = database.prepare('PRAGMA integrity_check').all() as { integrity_check: string }[];
    const said = answer.map((row) => row.integrity_check).join('; ');
    return { commits, wholeness: { text: `SQLite finds the database whole (PRAGMA integrity_check: ${said})`, holds: said === 'ok' } };
  } finally {
    database.close();
  }
}
