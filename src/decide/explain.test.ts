// What is explained, as people read it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GROUP_VERSION, type Stored } from '../model/meta.ts';
import { MOVE_PHASES } from '../model/move.ts';
import type { Snapshot } from '../model/snapshot.ts';
import { aMove, anEntry, aNode, aNewVolume, at, aVolume, dying, NOW, SOURCE_COPY } from '../testing/records.ts';
import { explainMove, explainNode, explainVolume, type Passage, type Records } from './explain.ts';

const records = (change: Partial<Records> = {}): Records => ({
  volumes: [aVolume()],
  moves: [],
  nodes: [aNode('node-1'), aNode('node-2'), aNode('node-3', { ready: false })],
  snapshots: [],
  ...change,
});

const snapshot: Stored<Snapshot> = {
  apiVersion: GROUP_VERSION,
  kind: 'Snapshot',
  metadata: { name: 'monday', uid: '33333333-3333-4333-8333-333333333333', resourceVersion: '1', creationTimestamp: at(0) },
  spec: { volume: 'db' },
  status: { phase: 'Ready', node: 'node-1' },
};

const of = (told: readonly Passage[], title: string): readonly string[] => told.find((each) => each.title === title)?.lines ?? [];

test('a volume at rest', () => {
  const told = explainVolume(aVolume(), records());
  assert.deepEqual(of(told, 'Is'), [
    'volume db: 1.00 GiB, ext4, Available',
    'copy a1 in pool local of node node-1 is the one that is served, at epoch 1; not in use',
  ]);
  assert.deepEqual(of(told, 'Waits for'), []);
  assert.deepEqual(of(told, 'If it is mounted'), [
    'it works on node node-1: flockctl volume mount db DIR. On any other node it is refused',
  ]);
  assert.deepEqual(of(told, 'If it moves'), [
    'it can go to node-2',
    'the agent of node node-3 does not answer; start it, or choose another node',
    'the old copy is kept for 24h after that',
  ]);
  assert.deepEqual(of(told, 'If it is deleted'), ['all its copies are removed, and what is on them is lost']);
});

test('a volume in use, with snapshots, that moves', () => {
  const volume = aVolume({
    copies: { [SOURCE_COPY]: anEntry({ published: ['/srv/db'] }), b2: anEntry({ node: 'node-2', role: 'incoming' }) },
  });
  const told = explainVolume(volume, records({ moves: [aMove('Syncing')], snapshots: [snapshot] }));
  assert.match(of(told, 'Is')[1] ?? '', /mounted at \/srv\/db$/u);
  assert.deepEqual(of(told, 'Waits for'), ['move db-move: Syncing: the target copies, round by round, while the application goes on']);
  assert.deepEqual(of(told, 'Keeps'), [
    'copy b2 on node node-2 (1.00 GiB) is being filled by a move',
    'snapshot monday on node node-1, Ready',
  ]);
  assert.deepEqual(of(told, 'If it is deleted').slice(1), [
    'only after it is unmounted from /srv/db',
    'only after its snapshots are deleted: monday',
  ]);
});

const MOUNTED: readonly [string, Parameters<typeof aVolume>[0], Partial<Records>, RegExp][] = [
  ['that is being deleted', { meta: dying }, {}, /refused: it is being deleted/u],
  ['whose copy is not made', { copies: {} }, {}, /refused until its copy is made/u],
  ['that is cut over', {}, { moves: [aMove('Fencing', { status: { fencingAt: at(0) } })] }, /refused until move db-move has cut over/u],
  [
    'that was fenced once and is given back',
    {},
    { moves: [aMove('ReadyToCutOver', { status: { fencingAt: at(0) } })] },
    /it works on node node-1/u,
  ],
  ['of a silent node', {}, { nodes: [aNode('node-1', { ready: false })] }, /agent of node node-1 does not answer/u],
];

for (const [what, change, more, says] of MOUNTED)
  test(`mounting a volume ${what}`, () => {
    assert.match(of(explainVolume(aVolume(change), records(more)), 'If it is mounted')[0] ?? '', says);
  });

test('a volume without a node', () => {
  const told = explainVolume(aNewVolume(), records());
  assert.deepEqual(of(told, 'Is'), ['volume db: 1Gi, ext4, Pending', 'it has no node yet']);
  assert.deepEqual(of(told, 'If its node is lost'), []);
});

for (const phase of MOVE_PHASES)
  test(`a move in ${phase} is told, and whether it can be cancelled`, () => {
    const told = explainMove(aMove(phase), NOW, []);
    assert.match(of(told, 'Is')[1] ?? '', new RegExp(`^${phase}: \\w`, 'u'));
    const ended = ['Done', 'Cancelled', 'Failed'].includes(phase);
    assert.equal(of(told, 'If it is cancelled').length, ended ? 0 : 1);
  });

const gaveWay = {
  lastTransitionTime: at(0),
  type: 'CopyingHeldBack',
  status: 'True' as const,
  reason: 'DiskPressure',
  message: 'others wait for its disks',
};
for (const [phase, node, said] of [
  ['Syncing', 'node-1', true],
  ['Syncing', 'node-2', true],
  ['Syncing', 'node-3', false],
  ['FinalDelta', 'node-1', false],
  ['Done', 'node-1', false],
] as const)
  test(`a move in ${phase} ${said ? 'says' : 'does not say'} that copying gives way on ${node}`, () => {
    const there = aNode(node);
    const pressed = { ...there, status: { ...there.status, conditions: [...(there.status?.conditions ?? []), gaveWay] } };
    const told = explainMove(aMove(phase), NOW, [aNode('node-9'), pressed]);
    assert.equal(of(told, 'Is').includes('others wait for its disks'), said);
  });

test('a kept copy is told with its age and comparison', () => {
  const status = { committedAt: at(-3_600_000), incoming: { scrub: { state: 'Passed' as const } } };
  assert.deepEqual(of(explainMove(aMove('Retaining', { status }), NOW, []), 'Keeps'), [
    'the old copy a1 on node node-1, for 1.0 h by now; comparison: Passed',
  ]);
});

test('a node: what it serves, and where that would go', () => {
  const web = aVolume({ meta: { name: 'web', uid: '22222222-2222-4222-8222-222222222222' } });
  const nodes = [aNode('node-1'), aNode('node-2', { pool: { free: String(3 * 2 ** 29) } })];
  const told = explainNode(aNode('node-1'), records({ volumes: [aVolume(), web], nodes }));
  assert.match(of(told, 'Is').join('\n'), /^node node-1: its agent answers\npool local \(image\): .* free$/u);
  assert.deepEqual(of(told, 'Serves').length, 2);
  assert.equal(of(told, 'If it is drained')[0], 'db would go to node node-2');
  assert.match(of(told, 'If it is drained')[1] ?? '', /^web could not leave: .*room for 512 MiB/u);
  assert.deepEqual(of(told, 'If it is lost'), ['db, web wait for it: their bytes are on its disks']);
});

/** Copies as they are after a move: the old one is kept. */
const moved = {
  spec: { node: 'node-2', copy: 'b2', epoch: 2 },
  copies: { [SOURCE_COPY]: anEntry({ role: 'stale' }), b2: anEntry({ node: 'node-2', epoch: 2 }) },
};
const retaining = aMove('Retaining', { status: { committedAt: at(0) } });

test('an old copy is told with its size, its end and how to end it sooner, of its volume and of its node', () => {
  const all = records({ volumes: [aVolume(moved)], moves: [retaining] });
  const end = 'at least until 2026-01-02T12:00:00.000Z, or sooner by: flockctl move release db-move';
  assert.deepEqual(of(explainVolume(aVolume(moved), all), 'Keeps'), [
    `copy a1 on node node-1 (1.00 GiB) is superseded and kept for a while; it takes room and is never served; ${end}`,
  ]);
  assert.deepEqual(of(explainNode(aNode('node-1'), all), 'Keeps'), [`copy a1 of volume db in pool local, 1.00 GiB: superseded; ${end}`]);
  assert.deepEqual(of(explainNode(aNode('node-2'), all), 'Keeps'), []);
});

test('while a volume moves, that move is its future: no room is judged that it takes itself', () => {
  const all = records({ moves: [aMove('Syncing')], nodes: [aNode('node-1'), aNode('node-2', { pool: { free: '0' } }), aNode('node-3')] });
  assert.deepEqual(of(explainVolume(aVolume(), all), 'If it moves'), [
    'it is on its way to node node-2 (move db-move); it can go elsewhere once that has ended (flockctl explain move db-move)',
  ]);
  assert.deepEqual(of(explainNode(aNode('node-1'), all), 'If it is drained'), ['db: it is on its way to node node-2 (move db-move)']);
});

test('a move that has not begun leaves the volume where it is when it is cancelled', () => {
  assert.deepEqual(of(explainMove(aMove('Pending'), NOW, []), 'If it is cancelled'), [
    'the volume stays where it is; nothing was copied yet: flockctl move cancel db-move',
  ]);
});

test('a node with one volume: that waits for it', () => {
  assert.deepEqual(of(explainNode(aNode('node-1'), records()), 'If it is lost'), ['db waits for it: its bytes are on its disks']);
});

test('an empty node that is drained and silent', () => {
  const node = aNode('node-9', { ready: false, spec: { drain: true, unschedulable: true } });
  const told = explainNode(node, records());
  assert.match(of(told, 'Is').slice(0, 3).join('\n'), /does not answer.*\nit takes no volumes.*\nit is being drained/u);
  assert.deepEqual(of(told, 'If it is lost'), ['nothing that is served is lost']);
});
