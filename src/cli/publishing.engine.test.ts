// Where volumes may be mounted, on real disks: one path for one volume, one way of use at a time, and no path that leads elsewhere.
import assert from 'node:assert/strict';
import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { mountsAt } from '../host/mounts.ts';
import { startEngine } from '../testing/engine.ts';
import { needsRoot } from '../testing/folders.ts';

const POOL = { nodes: ['node-1'], filesystem: { type: 'xfs', size: 2n ** 30n } } as const;

test('two volumes that are to be at one path at once: one gets it, the other is told who has it', { skip: needsRoot }, async (t) => {
  const engine = await startEngine(t, POOL);
  for (const name of ['one', 'two']) await engine.volume(name, { size: '32Mi', pool: 'local', node: 'node-1', filesystem: 'ext4' });
  const agent = await engine.agent('node-1');
  const target = join(engine.folder, 'target');
  for (let round = 0; round < 5; round += 1) {
    const tried = await Promise.allSettled(['one', 'two'].map((volume) => agent.publish({ volume, target })));
    assert.deepEqual(tried.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
    assert.equal((await mountsAt(target)).length, 1);
    for (const volume of ['one', 'two']) await agent.unpublish({ volume });
    assert.equal((await mountsAt(target)).length, 0);
  }
});

test(
  'a volume that is mounted one way is not mounted another way beside it, and nothing is left of the attempt',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, POOL);
    await engine.volume('db', { size: '32Mi', pool: 'local', node: 'node-1', filesystem: 'ext4' });
    await engine.volume('raw', { size: '16Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
    const agent = await engine.agent('node-1');
    const [first, second] = [join(engine.folder, 'first'), join(engine.folder, 'second')];
    for (const readOnly of [true, false]) {
      await agent.publish({ volume: 'db', target: first, readOnly });
      await assert.rejects(agent.publish({ volume: 'db', target: second, readOnly: !readOnly }), {
        reason: 'InUse',
        message: new RegExp(`mounted ${readOnly ? 'read-only' : 'writable'} at ${first}; unmount it there first`, 'u'),
      });
      assert.equal((await mountsAt(second)).length, 0);
      await agent.unpublish({ volume: 'db' });
    }
    await assert.rejects(agent.publish({ volume: 'raw', target: second, readOnly: true }), { reason: 'Unsupported' });
  },
);

test(
  'a mount point that is a link, or can never be, is refused at once; its folder is called by its real name',
  { skip: needsRoot },
  async (t) => {
    const engine = await startEngine(t, POOL);
    await engine.volume('db', { size: '32Mi', pool: 'local', node: 'node-1', filesystem: 'ext4' });
    const agent = await engine.agent('node-1');
    const real = join(engine.folder, 'real');
    await mkdir(real);
    await symlink(real, join(engine.folder, 'link'));
    await assert.rejects(agent.publish({ volume: 'db', target: join(engine.folder, 'link') }), {
      reason: 'Invalid',
      message: /is a symbolic link/u,
    });
    await assert.rejects(agent.publish({ volume: 'db', target: '/proc/self/ns/x' }), {
      reason: 'Invalid',
      message: /no folder can be made/u,
    });
    const { target } = await agent.publish({ volume: 'db', target: join(engine.folder, 'link', 'db') });
    assert.equal(target, join(real, 'db'));
    await agent.unpublish({ volume: 'db', target: join(engine.folder, 'link', 'db') });
    assert.equal((await mountsAt(target)).length, 0);
  },
);
