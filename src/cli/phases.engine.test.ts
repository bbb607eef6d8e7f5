// A move that stands still in each of its phases, on real disks: who may use the volume then, and that it can be given up, that the volume
// can be deleted and that agents and controller can be started again.
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { isReason } from '../model/errors.ts';
import { Moves, type MovePhase } from '../model/move.ts';
import { Volumes } from '../model/volume.ts';
import { hashOf, write } from '../testing/content.ts';
import { startEngine, type Engine } from '../testing/engine.ts';
import { needsRoot, type Test } from '../testing/folders.ts';

const GIB = 2n ** 30n;
const MIB = 1 << 20;

/** Phases of a move whose volume nobody uses, and the controller's step that each waits for. ReadyToCutOver waits for the unmount. */
const PHASES: { phase: MovePhase; holds: string | null }[] = [
  { phase: 'Pending', holds: 'accept' },
  { phase: 'Reserving', holds: 'round' },
  { phase: 'Syncing', holds: 'fence' },
  { phase: 'ReadyToCutOver', holds: null },
  { phase: 'Fencing', holds: 'finalDelta' },
  { phase: 'FinalDelta', holds: 'phase' },
  { phase: 'Verifying', holds: 'commit' },
];
const FENCED: readonly MovePhase[] = ['Fencing', 'FinalDelta', 'Verifying'];

const twoNodes = (t: Test): Promise<Engine> => startEngine(t, { nodes: ['node-1', 'node-2'], filesystem: { type: 'xfs', size: 2n * GIB } });

interface Standing {
  volume: string;
  move: string;
  hash: string;
}

/** A block volume on node-1 with 2 MiB in it, and its move to node-2, which stands in that phase. */
async function standing(engine: Engine, { phase, holds }: (typeof PHASES)[number], name = phase.toLowerCase()): Promise<Standing> {
  await engine.letGo();
  const volume = `in-${name}`;
  const move = `move-${name}`;
  await engine.volume(volume, { size: '16Mi', pool: 'local', node: 'node-1', volumeMode: 'Block' });
  const device = await engine.mount(volume);
  await write(device, { length: 2 * MIB, offset: 3 * MIB, seed: phase.length });
  const hash = await hashOf(device);
  if (holds) await engine.unmount(volume);
  if (holds) engine.held.add(holds);
  await engine.createMove(move, { volume, target: 'node-2' });
  if (phase === 'Pending') await engine.until(Moves, move, () => true);
  else await engine.untilPhase(move, phase);
  return { volume, move, hash };
}

const imagesOf = async (engine: Engine, node: string): Promise<string[]> =>
  (await readdir(engine.pool(node))).filter((name) => /\.(img|json|point)$/u.test(name) && !name.startsWith('.'));

test(
  'in every phase before the commit the target refuses to serve the volume, and afterwards it has all of it',
  { skip: needsRoot },
  async (t) => {
    const engine = await twoNodes(t);
    for (const each of PHASES)
      await t.test(each.phase, async () => {
        const { volume, move, hash } = await standing(engine, each);
        const target = await engine.agent('node-2');
        await assert.rejects(target.publish({ volume, target: `${engine.folder}/early` }), (error) => {
          assert.ok(isReason(error, 'NotPermitted'), String(error));
          assert.match(error.message, /is on node node-1; mount it there/u);
          return true;
        });
        if (FENCED.includes(each.phase))
          await assert.rejects(engine.mount(volume), /is being cut over to node node-2 \(move move-\w+\); mount it there in a moment/u);
        await engine.unmount(volume);
        await engine.letGo();
        await engine.untilPhase(move, 'Retaining');
        assert.equal(await hashOf(await engine.mount(volume)), hash);
        await engine.unmount(volume);
      });
    await engine.endsClean();
  },
);

test(
  'a move is cancelled in every phase before the commit: the source is usable at once and the target clean',
  { skip: needsRoot },
  async (t) => {
    const engine = await twoNodes(t);
    for (const each of PHASES)
      await t.test(each.phase, async () => {
        const { volume, move, hash } = await standing(engine, each);
        await engine.client.patch(Moves, move, { spec: { cancel: true } });
        await engine.untilPhase(move, 'Cancelled');
        assert.equal(await hashOf(await engine.mount(volume)), hash);
        const { spec, status } = await engine.client.get(Volumes, volume);
        assert.equal(spec.node, 'node-1');
        assert.equal(spec.epoch, FENCED.includes(each.phase) ? 2 : 1);
        assert.deepEqual(Object.keys(status?.copies ?? {}), [spec.copy]);
        assert.deepEqual(await imagesOf(engine, 'node-2'), []);
        await engine.letGo();
      });
    await engine.endsClean();
  },
);

test('a volume that is deleted while it moves leaves both nodes clean, whatever the phase', { skip: needsRoot }, async (t) => {
  const engine = await twoNodes(t);
  for (const each of [...PHASES, { phase: 'Activating', holds: 'published' } as const, { phase: 'Retaining', holds: 'release' } as const])
    await t.test(each.phase, async () => {
      const { volume, move } = await standing(engine, each);
      await engine.client.delete(Volumes, volume);
      await engine.unmount(volume);
      await engine.untilGone(Volumes, volume);
      const ended = await engine.until(Moves, move, ({ status }) => ['Cancelled', 'Done'].includes(status?.phase ?? ''));
      if (ended.status?.phase === 'Cancelled') assert.equal(ended.status.obstacle?.reason, 'VolumeDeleted');
      for (const node of ['node-1', 'node-2']) assert.deepEqual(await imagesOf(engine, node), [], node);
      await engine.letGo();
    });
  await engine.endsClean();
});

test('both agents and the controller may be started again in every phase', { skip: needsRoot }, async (t) => {
  const engine = await twoNodes(t);
  const later = ['Committed', 'Activating'] as const;
  for (const each of [...PHASES, ...later.map((phase) => ({ phase, holds: phase === 'Committed' ? 'phase' : 'published' }))])
    await t.test(each.phase, async () => {
      const { volume, move, hash } = each.phase === 'Committed' ? await committed(engine) : await standing(engine, each);
      await engine.stopAgent('node-1');
      await engine.stopAgent('node-2');
      await engine.stopController();
      engine.held.clear();
      engine.startController();
      await engine.startAgent('node-2');
      await engine.startAgent('node-1');
      await engine.unmount(volume);
      await engine.untilPhase(move, 'Retaining');
      assert.equal(await hashOf(await engine.mount(volume)), hash);
      assert.equal((await engine.client.get(Volumes, volume)).spec.node, 'node-2');
      await engine.unmount(volume);
    });
  await engine.endsClean();
});

async function committed(engine: Engine): Promise<Standing> {
  const standing_ = await standing(engine, { phase: 'Verifying', holds: 'commit' }, 'committed');
  engine.held.add('phase');
  engine.held.delete('commit');
  await engine.untilPhase(standing_.move, 'Committed');
  return standing_;
}
