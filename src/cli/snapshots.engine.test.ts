// Snapshots and clones by the commands that people type, on real disks: taken under a writer, begun with, mounted beside their source,
// moved, deleted.
import assert from 'node:assert/strict';
import { readFile, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Moves } from '../model/move.ts';
import { Snapshots } from '../model/snapshot.ts';
import { FILESYSTEMS, Volumes, type Filesystem } from '../model/volume.ts';
import { flockctl, type Ran } from '../testing/cli.ts';
import { startEngine, type Engine } from '../testing/engine.ts';
import { needsRoot, type Test } from '../testing/folders.ts';

const skip = needsRoot;

async function withVolume(t: Test, filesystem: Filesystem, nodes = ['node-1']): Promise<{ engine: Engine; at: string; ctl: Ctl }> {
  const engine = await startEngine(t, { nodes, filesystem: { type: 'xfs', size: 4n << 30n } });
  await engine.volume('db', { size: '320Mi', pool: 'local', node: 'node-1', filesystem });
  const at = await engine.mount('db');
  await writeFile(join(at, 'file'), 'first', { flush: true });
  return { engine, at, ctl: ctlOf(engine) };
}

type Ctl = (...words: string[]) => Promise<Ran>;
const ctlOf =
  ({ client }: Engine): Ctl =>
  (...words) =>
    flockctl(words, { client });

const done = ({ code, out, err }: Ran, says: RegExp): void => {
  assert.equal(code, 0, err);
  assert.match(out, says);
};

for (const filesystem of FILESYSTEMS)
  test(`a snapshot of ${filesystem} in use is begun with, and its clone mounts beside the source`, { skip }, async (t) => {
    const { engine, at, ctl } = await withVolume(t, filesystem);
    done(await ctl('snapshot', 'create', 'monday', '--volume', 'db'), /^snapshot monday of volume db is taken on node node-1: 320 MiB$/mu);
    await writeFile(join(at, 'file'), 'second', { flush: true });
    done(
      await ctl('volume', 'clone', 'old', '--snapshot', 'monday', '--size', '400Mi'),
      /^volume old is available on node node-1: 400 MiB/mu,
    );
    done(await ctl('volume', 'clone', 'now', '--from', 'db'), /^volume now is available on node node-1: 320 MiB/mu);
    const [old, now] = [await engine.mount('old'), await engine.mount('now')];
    assert.equal(await readFile(join(old, 'file'), 'utf8'), 'first');
    assert.equal(await readFile(join(now, 'file'), 'utf8'), 'second');
    await writeFile(join(old, 'file'), 'of the clone', { flush: true });
    assert.equal(await readFile(join(at, 'file'), 'utf8'), 'second');
    if (filesystem !== 'ext4') assert.ok((await statfs(old)).blocks > (await statfs(now)).blocks, 'the larger clone fills its size');
    done(await ctl('snapshot', 'list'), /^monday +db +320 MiB +node-1 +Ready/mu);
    done(await ctl('snapshot', 'show', 'monday'), /^Taken at: /mu);
    done(await ctl('snapshot', 'delete', 'monday'), /^snapshot monday is deleted$/mu);
    assert.match((await ctl('snapshot', 'list')).err, /^no snapshots/u);
    await engine.endsClean();
  });

test('N-02: what cannot be begun with is refused with the reason, and nothing is made', { skip }, async (t) => {
  const { engine, ctl } = await withVolume(t, 'ext4');
  const refused = async (words: string[], code: number, says: RegExp): Promise<void> => {
    const ran = await ctl(...words);
    assert.deepEqual([ran.code, ran.out], [code, ''], ran.err);
    assert.match(ran.err, says);
  };
  await refused(['snapshot', 'create', 's', '--volume', 'none'], 3, /there is no volume "none"/u);
  await refused(['snapshot', 'create', '../s', '--volume', 'db'], 2, /not valid/u);
  await refused(['volume', 'clone', 'new'], 2, /--from VOLUME or --snapshot SNAPSHOT/u);
  await refused(['volume', 'clone', 'new', '--from', 'db', '--snapshot', 's'], 2, /cannot be used with/u);
  await refused(['volume', 'clone', 'new', '--snapshot', 'none'], 3, /there is no snapshot "none"/u);
  await refused(['volume', 'clone', 'new', '--from', 'none'], 3, /there is no volume "none"/u);
  await refused(['volume', 'clone', 'new', '--from', 'db', '--size', '100Mi'], 2, /less than the 320 MiB of its source/u);
  await refused(['volume', 'clone', 'db', '--from', 'db'], 4, /there is a volume "db" already/u);
  await refused(['snapshot', 'delete', 'none'], 3, /there is no snapshot "none"/u);
  done(await ctl('snapshot', 'create', 's', '--volume', 'db'), /is taken/u);
  await refused(['snapshot', 'create', 's', '--volume', 'db'], 4, /there is a snapshot "s" already/u);
  const volumes = await engine.client.list(Volumes);
  assert.deepEqual(
    volumes.items.map(({ metadata }) => metadata.name),
    ['db'],
  );
  done(await ctl('snapshot', 'delete', 's'), /is deleted/u);
  await engine.endsClean();
});

test('a snapshot is booked: a pool without room for it says so, and takes it when there is', { skip }, async (t) => {
  const { engine } = await withVolume(t, 'ext4');
  const { free = '0' } = (await engine.pools('node-1'))['local'] ?? {};
  await engine.volume('rest', { size: free, pool: 'local', volumeMode: 'Block' });
  const record = { apiVersion: 'flock.dev/v1alpha1', kind: 'Snapshot', metadata: { name: 's' }, spec: { volume: 'db' } };
  await engine.client.create(Snapshots, record);
  await engine.until(Snapshots, 's', ({ status }) => status?.obstacle?.reason === 'NoSpace');
  await engine.client.delete(Volumes, 'rest');
  const { status } = await engine.until(Snapshots, 's', (seen) => seen.status?.phase === 'Ready');
  assert.equal(status?.obstacle, undefined);
  await engine.client.delete(Snapshots, 's');
  await engine.untilGone(Snapshots, 's');
  await engine.endsClean();
});

test('a volume moves away from its snapshot, which keeps the old copy until it is deleted', { skip }, async (t) => {
  const { engine, ctl } = await withVolume(t, 'xfs', ['node-1', 'node-2']);
  done(await ctl('snapshot', 'create', 's', '--volume', 'db'), /is taken/u);
  await engine.unmount('db');
  await engine.client.patch(Volumes, 'db', { spec: { retainSource: '0s' } });
  await engine.createMove('m', { volume: 'db', target: 'node-2' });
  await engine.until(Moves, 'm', ({ status }) => status?.phase === 'Retaining' && status.obstacle?.reason === 'HasSnapshots');
  done(await ctl('volume', 'clone', 'old', '--snapshot', 's'), /available on node node-1/u);
  const old = await engine.mount('old');
  assert.equal(await readFile(join(old, 'file'), 'utf8'), 'first');
  await engine.client.delete(Snapshots, 's');
  await engine.untilPhase('m', 'Done');
  await engine.endsClean();
});
