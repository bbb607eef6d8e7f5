// Room on real disks: what was promised a moment ago is not promised again, a node that has no room after all loses the volume to another,
// and whoever decides next sees the room as it is.
import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Volumes } from '../model/volume.ts';
import { startEngine, type Engine } from '../testing/engine.ts';
import { needsRoot, type Test } from '../testing/folders.ts';

const MIB = 1n << 20n;
/** Looks at its pools only when it did something itself. */
const NEVER = 3_600_000;

const twoNodes = (t: Test): Promise<Engine> =>
  startEngine(t, {
    nodes: ['node-1', 'node-2'],
    filesystem: { type: 'ext4', size: 256n * MIB },
    agent: () => ({ reportMs: NEVER }),
  });

const freeOf = async (engine: Engine, node: string): Promise<bigint> => BigInt((await engine.pools(node))['local']?.free ?? 0);

test('a burst of new volumes is spread over the nodes by what is left, and all that fits is made', { skip: needsRoot }, async (t) => {
  const engine = await twoNodes(t);
  const free = (await freeOf(engine, 'node-1')) + (await freeOf(engine, 'node-2'));
  const size = 40n * MIB;
  const fitting = Number((free - 2n * size) / size);
  const names = Array.from({ length: fitting }, (_, index) => `db-${index}`);
  await Promise.all(names.map((name) => engine.createVolume(name, { size: String(size), volumeMode: 'Block' })));
  const made = await Promise.all(names.map((name) => engine.until(Volumes, name, ({ status }) => status?.phase === 'Available')));
  assert.deepEqual(
    [...new Set(made.map(({ spec }) => spec.node ?? ''))].toSorted((one, other) => one.localeCompare(other)),
    ['node-1', 'node-2'],
  );
  assert.deepEqual(
    made.map(({ spec }) => spec.epoch),
    names.map(() => 1),
    'none was refused by the node that it was placed on',
  );
  await engine.endsClean();
});

test('room that was taken or given back is reported at once', { skip: needsRoot }, async (t) => {
  const engine = await twoNodes(t);
  const before = await freeOf(engine, 'node-1');
  await engine.volume('db', { size: String(64n * MIB), volumeMode: 'Block', node: 'node-1' });
  assert.ok((await freeOf(engine, 'node-1')) <= before - 64n * MIB, 'the report comes before the copy is recorded as made');
  await engine.client.patch(Volumes, 'db', { spec: { size: String(96n * MIB) } });
  await engine.until(Volumes, 'db', ({ status }) => status?.capacity === String(96n * MIB));
  assert.ok((await freeOf(engine, 'node-1')) <= before - 96n * MIB);
  await engine.client.delete(Volumes, 'db');
  await engine.untilGone(Volumes, 'db');
  assert.ok((await freeOf(engine, 'node-1')) >= before - MIB);
  await engine.endsClean();
});

/** Somebody else takes what the node's last report calls free. */
async function takeRoom(engine: Engine, node: string, bytes: bigint): Promise<void> {
  await using file = await open(join(engine.disk(node), 'somebody-elses'), 'w');
  await file.writeFile(Buffer.alloc(Number(bytes)));
  await file.sync();
}

test('a volume whose node was named stays there, and says that there is no room', { skip: needsRoot }, async (t) => {
  const engine = await twoNodes(t);
  // A little on the other, so that it is the first choice.
  await engine.volume('little', { size: String(8n * MIB), volumeMode: 'Block', node: 'node-2' });
  await takeRoom(engine, 'node-1', 150n * MIB);
  await engine.createVolume('named', { size: String(100n * MIB), volumeMode: 'Block', node: 'node-1' });
  const named = await engine.until(Volumes, 'named', ({ status }) => status?.obstacle !== undefined);
  assert.deepEqual([named.spec.node, named.status?.obstacle?.reason], ['node-1', 'NoSpace']);
  await engine.client.delete(Volumes, 'named');
  await engine.untilGone(Volumes, 'named');
  await engine.endsClean();
});

test('a volume that its node refuses goes to the other', { skip: needsRoot }, async (t) => {
  const engine = await twoNodes(t);
  await engine.volume('little', { size: String(8n * MIB), volumeMode: 'Block', node: 'node-2' });
  await takeRoom(engine, 'node-1', 150n * MIB);
  const made = await engine.volume('db', { size: String(100n * MIB), volumeMode: 'Block' });
  assert.equal(made.spec.node, 'node-2');
  assert.deepEqual(Object.keys(made.status?.copies ?? {}), [made.spec.copy]);
  await engine.untilTold(
    'db',
    ({ reason, message }) => reason === 'VolumeWithdrawn' && message.startsWith('node node-1 has no room for volume db'),
  );
  await engine.endsClean();
});
