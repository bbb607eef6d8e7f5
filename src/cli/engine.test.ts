// The whole engine on real disks: volumes made, written, moved while written, and deleted.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Moves } from '../model/move.ts';
import { Volumes } from '../model/volume.ts';
import { startEngine } from '../testing/engine.ts';
import { needsRoot } from '../testing/folders.ts';

const GIB = 2n ** 30n;

test('a volume is moved while it is written, and comes out the same', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: { type: 'xfs', size: 2n * GIB } });
  await engine.createVolume('db', { size: '600Mi', pool: 'local', node: 'node-1', filesystem: 'xfs' });
  await engine.until(Volumes, 'db', (volume) => volume.status?.phase === 'Available');

  const first = join(engine.folder, 'first');
  await (await engine.agent('node-1')).publish({ volume: 'db', target: first });
  await writeFile(join(first, 'big'), Buffer.alloc(32 << 20, 'content that moves '));
  await engine.createMove('db-1', { volume: 'db', target: 'node-2' });
  await engine.until(Moves, 'db-1', (move) => move.status?.obstacle?.reason === 'WaitingForUnpublish');
  await writeFile(join(first, 'late'), 'written when all else was copied');

  await (await engine.agent('node-1')).unpublish({ volume: 'db' });
  const moved = await engine.until(Moves, 'db-1', (move) => move.status?.phase === 'Retaining');
  assert.equal(moved.status?.source?.node, 'node-1');
  const second = join(engine.folder, 'second');
  await mkdir(second);
  await (await engine.agent('node-2')).publish({ volume: 'db', target: second });
  assert.equal(await readFile(join(second, 'late'), 'utf8'), 'written when all else was copied');
  const hash = createHash('sha256')
    .update(await readFile(join(second, 'big')))
    .digest('hex');
  assert.equal(
    hash,
    createHash('sha256')
      .update(Buffer.alloc(32 << 20, 'content that moves '))
      .digest('hex'),
  );

  const scrubbed = await engine.until(Moves, 'db-1', (move) => move.status?.incoming?.scrub?.state === 'Passed');
  assert.equal(scrubbed.status?.incoming?.scrub?.state, 'Passed');
  await (await engine.agent('node-2')).unpublish({ volume: 'db' });
  await engine.client.delete(Volumes, 'db');
  await engine.untilGone(Volumes, 'db');
  for (const node of ['node-1', 'node-2'])
    assert.deepEqual(
      (await readdir(engine.pool(node))).filter((name) => name.includes('.img')),
      [],
    );
});
