// Volumes that are directories, with the engine as it is: a database commits while it is moved, nothing acknowledged is lost, and the way
// back sends what changed.
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, lstatSync, mkdirSync, readlinkSync, rmSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { mountsAt } from '../host/mounts.ts';
import { run } from '../host/run.ts';
import { isReason } from '../model/errors.ts';
import { Moves } from '../model/move.ts';
import { Volumes } from '../model/volume.ts';
import { flockctl } from '../testing/cli.ts';
import { afterwards } from '../testing/afterwards.ts';
import { startEngine, type Engine } from '../testing/engine.ts';
import { needsRoot, type Test } from '../testing/folders.ts';
import { toldTree } from '../testing/trees.ts';

const TWO = { nodes: ['node-1', 'node-2'], pool: { type: 'directory' } } as const;

/** Commits one row after the other, each fully synced, and tells of each when it is committed. */
const WRITER = `
const { DatabaseSync } = require('node:sqlite');
const db = new DatabaseSync(process.argv[1]);
db.exec('PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, filler BLOB)');
let n = db.prepare('SELECT coalesce(max(n), 0) AS n FROM t').get().n;
const insert = db.prepare('INSERT INTO t VALUES (?, randomblob(3000))');
process.on('SIGTERM', () => process.exit(0));
setInterval(() => { n += 1; insert.run(n); process.stdout.write(n + '\\n'); }, 5);
`;

interface Writer {
  child: ChildProcess;
  acknowledged: number;
}

async function write(t: Test, path: string): Promise<Writer> {
  const child = spawn(process.execPath, ['-e', WRITER, join(path, 'db')], { stdio: ['ignore', 'pipe', 'inherit'] });
  afterwards(t, () => child.kill('SIGKILL'));
  const writer: Writer = { child, acknowledged: 0 };
  createInterface(child.stdout).on('line', (line) => (writer.acknowledged = Number(line)));
  await once(child.stdout, 'data');
  return writer;
}

async function stop({ child }: Writer): Promise<void> {
  const over = once(child, 'exit');
  child.kill('SIGTERM');
  await over;
}

function rowsAt(path: string): { rows: number; check: unknown } {
  const db = new DatabaseSync(join(path, 'db'));
  const { rows } = db.prepare('SELECT count(*) AS rows FROM t').get() as { rows: number };
  const check = (db.prepare('PRAGMA integrity_check').get() as { integrity_check: unknown }).integrity_check;
  db.close();
  return { rows, check };
}

async function scrubbed(engine: Engine, move: string): Promise<void> {
  const { status } = await engine.until(Moves, move, ({ status }) => !['Running', undefined].includes(status?.incoming?.scrub?.state));
  assert.equal(status?.incoming?.scrub?.state, 'Passed', status?.incoming?.scrub?.message);
}

test(
  'a database in a directory moves while it commits: nothing acknowledged is lost, and the way back sends a delta',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, TWO);
    await engine.volume('db', { size: '256Mi', pool: 'local', node: 'node-1', allowedPause: '30s' });
    const at = await engine.mount('db');
    mkdirSync(join(at, 'deep/er'), { recursive: true });
    symlinkSync('/etc/passwd', join(at, 'deep/link'));
    writeFileSync(join(at, 'deep/er/ballast'), Buffer.alloc(8 << 20, 'x'));
    const writer = await write(t, at);
    await engine.createMove('there', { volume: 'db', target: 'node-2' });
    await engine.untilPhase('there', 'ReadyToCutOver');
    await stop(writer);
    await engine.unmount('db');
    await engine.untilPhase('there', 'Retaining');
    const { metadata, spec } = await engine.client.get(Volumes, 'db');
    assert.equal(spec.node, 'node-2');
    const kept = join(engine.pool('node-1'), 'retired');
    assert.equal(existsSync(join(engine.pool('node-2'), `${metadata.uid}-${spec.copy}`)), true);
    await scrubbed(engine, 'there');
    const there = await engine.mount('db', join(engine.folder, 'there'));
    assert.deepEqual(rowsAt(there), { rows: writer.acknowledged, check: 'ok' });
    assert.equal(readlinkSync(join(there, 'deep/link')), '/etc/passwd');
    assert.ok((await mountsAt(there))[0]?.options.includes('nosuid'));
    await engine.unmount('db');
    assert.equal((await run('ls', [kept])).stdout.trim().split('\n').length, 1, 'the source is kept');
    await engine.createMove('back', { volume: 'db', target: 'node-1' });
    const back = await engine.untilPhase('back', 'Retaining');
    assert.ok(BigInt(back.status?.incoming?.bytesSent ?? 0) < 4n << 20n, `${back.status?.incoming?.bytesSent} bytes were sent`);
    await scrubbed(engine, 'back');
    assert.deepEqual(rowsAt(await engine.mount('db')), { rows: writer.acknowledged, check: 'ok' });
    await engine.endsClean();
  },
);

test(
  'whoever still uses anything of it keeps the fence out, and is named; a raw block volume is refused',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, TWO);
    await engine.volume('db', { size: '64Mi', pool: 'local', node: 'node-1' });
    const at = await engine.mount('db');
    const child = spawn('sh', ['-c', 'cd "$1" && echo ready && exec sleep 60', 'sh', at], { stdio: ['ignore', 'pipe', 'inherit'] });
    afterwards(t, () => child.kill('SIGKILL'));
    await once(child.stdout, 'data');
    await assert.rejects(engine.unmount('db'), (error) => isReason(error, 'InUse') && error.message.includes(`process ${child.pid} (`));
    const over = once(child, 'exit');
    child.kill('SIGKILL');
    await over;
    await engine.createVolume('raw', { size: '64Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
    const { status } = await engine.until(Volumes, 'raw', (volume) => volume.status?.obstacle !== undefined);
    assert.match(status?.obstacle?.message ?? '', /raw block volume/u);
    await engine.endsClean();
  },
);

test('what cannot be carried is found before the fence: the move fails, and the volume is used on', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, TWO);
  await engine.volume('odd', { size: '64Mi', pool: 'local', node: 'node-1' });
  const huge = join(await engine.mount('odd'), 'huge');
  writeFileSync(huge, 'x');
  truncateSync(huge, 5 * 2 ** 40);
  await engine.createMove('mounted', { volume: 'odd', target: 'node-2' });
  await engine.untilPhase('mounted', 'Failed');
  await engine.unmount('odd');
  await engine.createMove('idle', { volume: 'odd', target: 'node-2' });
  const { status } = await engine.untilPhase('idle', 'Failed');
  assert.match(status?.obstacle?.message ?? '', /"huge" has [0-9]+ bytes, holes included; files of more than .* are not carried/u);
  assert.equal(status?.outgoing?.fencedEpoch ?? null, null);
  assert.equal(existsSync(join(await engine.mount('odd'), 'huge')), true);
  rmSync(huge);
  await engine.unmount('odd');
  await engine.createMove('again', { volume: 'odd', target: 'node-2' });
  await engine.untilPhase('again', 'Retaining');
  await engine.endsClean();
});

test('flockctl moves a directory, and says what enforces its size', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, TWO);
  await engine.volume('site', { size: '64Mi', pool: 'local', node: 'node-1' });
  const at = await engine.mount('site');
  writeFileSync(join(at, 'index.html'), '<p>hello', { mode: 0o640 });
  assert.equal(lstatSync(at).isDirectory(), true);
  const told = toldTree(at);
  await engine.unmount('site');
  assert.equal((await flockctl(['move', 'site', '--to', 'node-2'], { client: engine.client })).code, 0);
  assert.deepEqual(toldTree(await engine.mount('site', join(engine.folder, 'moved'))), told);
  const { out } = await flockctl(['node', 'show', 'node-2'], { client: engine.client });
  assert.match(out, /sizes are booked/u);
  assert.ok(statSync(join(engine.folder, 'moved', 'index.html')).size > 0);
  await engine.endsClean();
});
