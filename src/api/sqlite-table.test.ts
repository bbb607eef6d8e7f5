// The contract over SQLite, and what a database must stand: a restart, a second server, another program's file.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { describe, it, type TestContext } from 'node:test';
import { systemClock } from '../model/clock.ts';
import { isReason } from '../model/errors.ts';
import { GROUP_VERSION } from '../model/meta.ts';
import { Moves, type Move } from '../model/move.ts';
import { Events, Leases } from '../model/system.ts';
import { RESTORED, Volumes, type Volume } from '../model/volume.ts';
import { backup, restore } from './backup.ts';
import { clientContract } from './contract.ts';
import { LocalClient } from './local-client.ts';
import { Registry } from './registry.ts';
import { openDatabase, type Database } from './sqlite-table.ts';

const registryOf = ({ table }: Database): Registry => new Registry({ table, clock: systemClock, uid: randomUUID });

clientContract('the registry over SQLite', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'flock-sqlite-'));
  const database = openDatabase(join(directory, 'flock.db'));
  const close = (): void => {
    database.close();
    rmSync(directory, { recursive: true });
  };
  return { client: new LocalClient({ registry: registryOf(database), clock: systemClock }), namespace: 'flock-system', close };
});

function place(t: TestContext): (name: string) => string {
  const directory = mkdtempSync(join(tmpdir(), 'flock-sqlite-'));
  t.after(() => rmSync(directory, { recursive: true }));
  return (name) => join(directory, name);
}

function opened(t: TestContext, file: string): Database {
  const database = openDatabase(file);
  let open = true;
  const close = (): void => {
    if (open) database.close();
    open = false;
  };
  t.after(close);
  return { ...database, close };
}

const volume = (name: string): Volume => ({ apiVersion: 'flock.dev/v1alpha1', kind: 'Volume', metadata: { name }, spec: { size: '1Gi' } });

describe('a database', () => {
  it('brings objects, versions and settings through a restart', (t) => {
    const file = place(t)('flock.db');
    const first = opened(t, file);
    const registry = registryOf(first);
    const made = registry.create(Volumes, volume('db'));
    registry.create(Volumes, volume('gone'));
    registry.delete(Volumes, 'gone');
    first.settings.put('authority', 'key');
    first.close();

    const second = opened(t, file);
    const again = registryOf(second);
    assert.deepEqual(again.list(Volumes).items, [made]);
    assert.equal(again.version, registry.version);
    assert.equal(second.settings.get('authority'), 'key');
    assert.ok(Number(again.create(Volumes, volume('next')).metadata.resourceVersion) > Number(registry.version));
  });

  it('is for its owner only', (t) => {
    const file = place(t)('flock.db');
    opened(t, file);
    assert.equal(statSync(file).mode & 0o077, 0);
  });

  it('tells a second server that it is in use, and is free when the first has closed it', (t) => {
    const file = place(t)('flock.db');
    const first = opened(t, file);
    assert.throws(
      () => openDatabase(file),
      (error) => isReason(error, 'InUse') && /in use by another server/u.test(error.message),
    );
    first.close();
    opened(t, file);
  });

  it('refuses files that are none, or of a later version', (t) => {
    const at = place(t);
    writeFileSync(at('text'), 'this is no database, but long enough to look at all of its header bytes '.repeat(20));
    assert.throws(() => openDatabase(at('text')), { reason: 'Corrupt' });
    const other = new DatabaseSync(at('other'));
    other.exec('CREATE TABLE t (a)');
    other.close();
    assert.throws(() => openDatabase(at('other')), { reason: 'Corrupt' });
    opened(t, at('later')).close();
    const later = new DatabaseSync(at('later'));
    later.exec('PRAGMA user_version = 99');
    later.close();
    assert.throws(() => openDatabase(at('later')), { reason: 'Unsupported' });
  });

  it('gives a setting that is taken to one taker', (t) => {
    const { settings } = opened(t, place(t)('flock.db'));
    settings.put('invitation/a', '1');
    settings.put('invitation/b', '2');
    settings.put('key', '3');
    assert.deepEqual(settings.names('invitation/'), ['invitation/a', 'invitation/b']);
    assert.deepEqual([settings.take('invitation/a'), settings.take('invitation/a')], ['1', null]);
    assert.deepEqual(settings.names('invitation/'), ['invitation/b']);
  });

  it('leaves the registry as it was when a write does not reach the disk', (t) => {
    const file = place(t)('flock.db');
    const registry = registryOf(opened(t, file));
    registry.create(Volumes, volume('db'));
    const intruder = new DatabaseSync(file);
    t.after(() => intruder.close());
    intruder.exec("CREATE TRIGGER full BEFORE INSERT ON objects BEGIN SELECT RAISE(ABORT, 'no room'); END");
    assert.throws(() => registry.create(Volumes, volume('more')), /no room/u);
    assert.deepEqual(
      registry.list(Volumes).items.map(({ metadata }) => metadata.name),
      ['db'],
    );
    intruder.exec('DROP TRIGGER full');
    assert.equal(registry.create(Volumes, volume('more')).metadata.resourceVersion, '2');
  });
});

const HERE = import.meta.dirname;

/** A process that opens the database and creates volumes for ever, telling each name once its write has returned. */
const WRITER = `
  import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
  import { writeSync } from 'node:fs';
  import { openDatabase } from '${HERE}/sqlite-table.ts';
  import { Registry } from '${HERE}/registry.ts';
  import { systemClock } from '${HERE}/../model/clock.ts';
  import { Volumes } from '${HERE}/../model/volume.ts';
  const { table } = openDatabase(process.argv[1]);
  const registry = new Registry({ table, clock: systemClock, uid: randomUUID });
  for (let count = 0; ; count += 1) {
    const metadata = { name: 'v' + count };
    registry.create(Volumes, { apiVersion: 'flock.dev/v1alpha1', kind: 'Volume', metadata, spec: { size: '1Gi' } });
    writeSync(1, metadata.name + '\\n');
  }
`;

describe('a server that is killed', () => {
  it('loses no write that it had acknowledged, and leaves its lock to the next', async (t) => {
    const file = place(t)('flock.db');
    const writer = spawn(process.execPath, ['--input-type=module-typescript', '-e', WRITER, file], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => writer.kill('SIGKILL'));
    const told: string[] = [];
    for await (const name of createInterface({ input: writer.stdout })) {
      told.push(name);
      if (told.length === 20) {
        assert.throws(() => openDatabase(file), { reason: 'InUse' });
        backup(file, `${file}.backup`);
        writer.kill('SIGKILL');
      }
    }
    const there = registryOf(opened(t, file))
      .list(Volumes)
      .items.map(({ metadata }) => metadata.name);
    assert.deepEqual(
      told.filter((name) => !there.includes(name)),
      [],
    );
    restore(`${file}.backup`, `${file}.restored`);
    assert.ok(registryOf(opened(t, `${file}.restored`)).list(Volumes).items.length >= 20);
  });
});

describe('backup and restore', () => {
  it('mark the volumes whose disks may have gone on since, and no others', (t) => {
    const at = place(t);
    const database = opened(t, at('flock.db'));
    const registry = registryOf(database);
    const entry = (created: boolean): object => ({ node: 'node-1', pool: 'local', role: 'active', epoch: 1, created });
    for (const [name, created] of [
      ['still', true],
      ['moving', true],
      ['moved', true],
      ['ordered', false],
    ] as const) {
      const placed: Volume = { ...volume(name), spec: { ...volume(name).spec, node: 'node-1', copy: 'a1', epoch: 1 } };
      registry.create(Volumes, placed);
      registry.patch(Volumes, name, { status: { copies: { a1: entry(created) } } }, { subresource: 'status' });
    }
    for (const [name, phase] of [
      ['moving', 'FinalDelta'],
      ['moved', 'Retaining'],
      ['ordered', 'Pending'],
    ] as const) {
      const move: Move = { apiVersion: GROUP_VERSION, kind: 'Move', metadata: { name }, spec: { volume: name, target: 'node-2' } };
      registry.create(Moves, move);
      const volumeUid = phase === 'Pending' ? {} : { volumeUid: registry.get(Volumes, name).metadata.uid };
      registry.patch(Moves, name, { status: { phase, ...volumeUid } }, { subresource: 'status' });
    }
    backup(at('flock.db'), at('backup'));
    database.close();
    restore(at('backup'), at('flock.db'));
    const marked = registryOf(opened(t, at('flock.db')))
      .list(Volumes)
      .items.filter(({ metadata }) => metadata.annotations?.[RESTORED] !== undefined);
    assert.deepEqual(marked.map(({ metadata }) => metadata.name).toSorted(), ['moving', 'ordered']);
  });

  it('bring back what was there, under versions that nobody has seen', (t) => {
    const at = place(t);
    const database = opened(t, at('flock.db'));
    const registry = registryOf(database);
    const made = registry.create(Volumes, volume('db'));
    database.settings.put('authority', 'key');
    backup(at('flock.db'), at('backup'));
    const lost = registry.create(Volumes, volume('later'));
    database.close();

    const aside = restore(at('backup'), at('flock.db'));
    assert.ok(aside, 'the database that was there is kept');
    const after = opened(t, at('flock.db'));
    const restored = registryOf(after);
    const [back, ...none] = restored.list(Volumes).items;
    assert.deepEqual(none, []);
    const { annotations, ...metadata } = back?.metadata ?? made.metadata;
    assert.deepEqual({ ...back, metadata }, made);
    assert.ok(annotations?.[RESTORED], 'it was not made when the backup was: whether it was since is not known');
    assert.equal(after.settings.get('authority'), 'key');
    assert.ok(Number(restored.version) > Number(lost.metadata.resourceVersion));
    for (const { metadata } of [made, lost]) {
      const { resourceVersion } = metadata;
      assert.throws(() => restored.watch(Volumes, { resourceVersion }, () => {}), { reason: 'Expired' });
    }
    const old = opened(t, aside);
    assert.equal(registryOf(old).list(Volumes).items.length, 2);
  });

  it('never touch a database in use', (t) => {
    const at = place(t);
    const database = opened(t, at('flock.db'));
    backup(at('flock.db'), at('backup'));
    assert.throws(() => restore(at('backup'), at('flock.db')), { reason: 'InUse' });
    registryOf(database).create(Volumes, volume('db'));
  });

  it('refuse a damaged backup and change nothing', (t) => {
    const at = place(t);
    const database = opened(t, at('flock.db'));
    registryOf(database).create(Volumes, volume('db'));
    database.close();
    writeFileSync(at('backup'), 'SQLite format 3\0 but not for long');
    assert.throws(() => restore(at('backup'), at('flock.db')), { reason: 'Corrupt' });
    assert.equal(registryOf(opened(t, at('flock.db'))).list(Volumes).items.length, 1);
  });

  it('refuse an object that cannot be read', (t) => {
    const at = place(t);
    opened(t, at('flock.db')).close();
    const broken = new DatabaseSync(at('flock.db'));
    broken.exec("INSERT INTO objects VALUES ('volumes.flock.dev', '', 'db', '{')");
    broken.close();
    assert.throws(() => backup(at('flock.db'), at('backup')), /the object "db" cannot be read/u);
  });

  it('do not overwrite a backup', (t) => {
    const at = place(t);
    opened(t, at('flock.db'));
    backup(at('flock.db'), at('backup'));
    assert.throws(() => backup(at('flock.db'), at('backup')), { reason: 'AlreadyExists' });
  });

  it('keep Leases and Events too', (t) => {
    const at = place(t);
    const registry = registryOf(opened(t, at('flock.db')));
    registry.create(Leases, {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: 'l', namespace: 'n' },
      spec: {},
    } as never);
    backup(at('flock.db'), at('backup'));
    restore(at('backup'), at('other.db'));
    const restored = registryOf(opened(t, at('other.db')));
    assert.equal(restored.list(Leases).items.length, 1);
    assert.deepEqual(restored.list(Events).items, []);
  });
});
