// What a controller believes of the records when it takes a step: what was read for it, and never what a watch told last.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LocalClient } from '../api/local-client.ts';
import { Registry } from '../api/registry.ts';
import { MemoryTable } from '../api/table.ts';
import { DEFAULT_CAPS } from '../decide/moves.ts';
import { noCrash, type CrashPoint } from '../model/crash.ts';
import { isReason } from '../model/errors.ts';
import { GROUP_VERSION, type Stored } from '../model/meta.ts';
import { Moves, type Move, type MoveStatus } from '../model/move.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import { fakeClock } from '../testing/fake-clock.ts';
import { keptLog } from '../testing/kept-log.ts';
import { aMove, aNode, anEntry, SOURCE_COPY, TARGET_COPY } from '../testing/records.ts';
import { MoveController } from './moves.ts';

interface Scene {
  client: LocalClient;
  /** The controller whose watches have told of these moves, and of no others. */
  controller: (told: Stored<Move>[], crash?: CrashPoint) => MoveController;
}

/** db lies on node-1. */
async function scene(): Promise<Scene> {
  const clock = fakeClock();
  const client = new LocalClient({ registry: new Registry({ table: new MemoryTable(), clock, uid: () => crypto.randomUUID() }), clock });
  const spec = { size: '1Gi', pool: 'local', node: 'node-1', copy: SOURCE_COPY, epoch: 1 };
  await client.create(Volumes, { apiVersion: GROUP_VERSION, kind: 'Volume', metadata: { name: 'db' }, spec } as Volume);
  const copies = { [SOURCE_COPY]: anEntry({ role: 'active' }), [TARGET_COPY]: anEntry({ node: 'node-2', role: 'incoming' }) };
  await client.patch(Volumes, 'db', { status: { copies } }, { subresource: 'status' });
  const nodes = [aNode('node-1'), aNode('node-2'), aNode('node-3')];
  return {
    client,
    controller: (told, crash = noCrash) =>
      new MoveController({
        client,
        known: { moves: () => told, nodes: () => nodes, volumes: () => [] },
        caps: DEFAULT_CAPS,
        clock,
        crash,
        log: keptLog(),
        tell: () => undefined,
      }),
  };
}

async function ordered({ client }: Scene, name: string, status: MoveStatus = {}): Promise<Stored<Move>> {
  await client.create(Moves, { apiVersion: GROUP_VERSION, kind: 'Move', metadata: { name }, spec: { volume: 'db', target: 'node-2' } });
  const { metadata } = await client.get(Volumes, 'db');
  return client.patch(Moves, name, { status: { ...status, volumeUid: metadata.uid } }, { subresource: 'status' });
}

test('a move is not accepted beside one of the same volume that no watch has told of', async () => {
  const of = await scene();
  const { status = {} } = aMove('Reserving');
  await ordered(of, 'z-first', status);
  await ordered(of, 'a-second');
  await of.controller([]).reconcile('a-second');
  const { status: after } = await of.client.get(Moves, 'a-second');
  assert.equal(after?.phase ?? 'Pending', 'Pending');
  assert.equal(after?.obstacle?.reason, 'Queued');
});

test('a commit writes over nothing that was written since it was decided', async () => {
  const of = await scene();
  const verified = { round: 0, epoch: 1, bytes: '0', frames: 0 };
  const move = await ordered(of, 'there', { ...aMove('Verifying').status, round: 0, incoming: { completeRound: 0, verified } });
  const grown = { spec: { size: '2Gi' } };
  let growing: Promise<unknown> = Promise.resolve();
  const controller = of.controller([move], (point) => {
    if (point === 'commit:before') growing = of.client.patch(Volumes, 'db', grown);
  });
  await assert.rejects(controller.reconcile('there'), (error) => isReason(error, 'Conflict'));
  await growing;
  const { spec } = await of.client.get(Volumes, 'db');
  assert.deepEqual([spec.size, spec.node, spec.epoch], ['2Gi', 'node-1', 1]);
});
