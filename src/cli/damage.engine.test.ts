// What a person or a dying disk does to one copy's files, with the engine as it is: an image cut short, gone, or without its label. Its own
// volume stands still and says why; the node's others are mounted, unmounted and moved; and it is as it was when its file is back.
import assert from 'node:assert/strict';
import { readFile, rename, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { mountsAt } from '../host/mounts.ts';
import { isReason } from '../model/errors.ts';
import { copyName } from '../model/label.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { Volumes } from '../model/volume.ts';
import { hashOf, write } from '../testing/content.ts';
import { startEngine, type Engine } from '../testing/engine.ts';
import { needsRoot } from '../testing/folders.ts';

const XFS = { type: 'xfs', size: 1n << 30n } as const;

async function fileOf(engine: Engine, volume: string, kind: 'img' | 'json'): Promise<string> {
  const { metadata, spec } = await engine.client.get(Volumes, volume);
  return join(engine.pool(spec.node ?? ''), `${copyName({ volumeUid: metadata.uid, copy: spec.copy ?? '' })}.${kind}`);
}

const HARMS: { what: string; kind: 'img' | 'json'; harm: (path: string, away: string) => Promise<void>; says: RegExp }[] = [
  {
    what: 'an image that was cut short',
    kind: 'img',
    harm: async (path, away) => {
      await writeFile(away, await readFile(path));
      await truncate(path, 8 << 20);
    },
    says: /has 8388608 bytes, and its label says 16777216/u,
  },
  { what: 'an image that is gone', kind: 'img', harm: (path, away) => rename(path, away), says: /is gone/u },
  {
    what: 'a label that is garbled',
    kind: 'json',
    harm: async (path, away) => {
      await rename(path, away);
      await writeFile(path, '{');
    },
    says: /cannot be read/u,
  },
];

for (const { what, kind, harm, says } of HARMS)
  test(`${what} stops its own volume and no other, and is over when the file is back`, { skip: needsRoot }, async (t) => {
    const engine = await startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: XFS });
    for (const name of ['bad', 'good']) await engine.volume(name, { size: '16Mi', pool: 'local', node: 'node-1' });
    const path = await engine.mount('bad');
    await write(join(path, 'content'), { length: 4 << 20, seed: 7 });
    const hash = await hashOf(join(path, 'content'));
    await engine.unmount('bad');
    const good = await engine.mount('good');
    const [file, away] = [await fileOf(engine, 'bad', kind), join(engine.disk('node-1'), 'away')];
    await harm(file, away);
    const damaged = (await stat(file).catch(() => null))?.size;
    const { status } = await engine.until(Volumes, 'bad', (volume) => volume.status?.phase === 'Blocked');
    assert.equal(status?.obstacle?.reason, 'CopyDamaged');
    assert.match(status.obstacle.message, says);
    await assert.rejects(engine.mount('bad'), (error) => isReason(error, 'Corrupt') && says.test(error.message));
    const node = await engine.until(StorageNodes, 'node-1', ({ status }) => status?.pools?.['local']?.damaged?.length === 1);
    assert.equal(node.status?.pools?.['local']?.healthy, true);
    await engine.unmount('good');
    assert.deepEqual(await mountsAt(good), []);
    await engine.createMove('away', { volume: 'good', target: 'node-2' });
    await engine.untilPhase('away', 'Retaining');
    assert.equal((await stat(file).catch(() => null))?.size, damaged, 'the file was changed');
    await writeFile(file, await readFile(away));
    await engine.until(Volumes, 'bad', (volume) => volume.status?.phase === 'Available');
    await engine.mount('bad');
    assert.equal(await hashOf(join(path, 'content')), hash);
    await engine.endsClean();
  });

test('a volume is unmounted while its pool cannot be read', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, { nodes: ['node-1'], filesystem: XFS });
  const marker = join(engine.pool('node-1'), '.flock-pool.json');
  await engine.volume('one', { size: '16Mi', pool: 'local', node: 'node-1' });
  const path = await engine.mount('one');
  await rename(marker, `${marker}.away`);
  await engine.until(Volumes, 'one', (volume) => volume.status?.obstacle?.reason === 'PoolNotUsable');
  await engine.unmount('one');
  assert.deepEqual(await mountsAt(path), []);
  await engine.until(Volumes, 'one', ({ status }) => Object.values(status?.copies ?? {}).every(({ published }) => published?.length === 0));
  await rename(`${marker}.away`, marker);
  await engine.until(Volumes, 'one', (volume) => volume.status?.phase === 'Available');
  await engine.endsClean();
});
