// The controller's next step of a Volume: a line a case.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { REFUSED_BY, VOLUME_FINALIZER } from '../model/volume.ts';
import { VOLUME_UID } from '../testing/labels.ts';
import { aNewVolume, anEntry, aNode, aVolume, dying, GIBI, SOURCE_COPY, TARGET_COPY } from '../testing/records.ts';
import { copyIdFrom, isNew, saysSame, withSince } from './observed.ts';
import { nextVolumeStep, type VolumeSeen, type VolumeStep } from './volumes.ts';

const nodes = [aNode('node-1'), aNode('node-2', { pool: { free: String(20 * 2 ** 30) } })];
const see = (volume: VolumeSeen['volume'], change: Partial<VolumeSeen> = {}): VolumeStep =>
  nextVolumeStep({ volume, nodes, moves: 0, ...change });
const adopted = { meta: { finalizers: [VOLUME_FINALIZER] } };
const tell = (phase: string, obstacle: { reason: string; message: string } | null = null, capacity?: string): VolumeStep => ({
  step: 'tell',
  summary: { phase: phase as 'Pending', obstacle, ...(capacity === undefined ? {} : { capacity }) },
});
const named = (node: string): VolumeStep => ({ step: 'place', node, copy: copyIdFrom(VOLUME_UID), pool: 'local', epoch: 1 });
const placed = (node: string): VolumeStep => ({ ...named(node), refusedBy: [] }) as VolumeStep;
const SILENT = { reason: 'NodeNotReady', message: 'the agent of node node-1 does not answer' };
const silent = [aNode('node-1', { ready: false }), aNode('node-2')];

const cases: [string, VolumeStep, VolumeStep][] = [
  ['a new volume is adopted before anything else', see(aNewVolume()), { step: 'adopt' }],
  ['it goes to the node with the most room', see(aNewVolume(adopted)), placed('node-2')],
  ['it goes where its maker said', see(aNewVolume({ ...adopted, spec: { node: 'node-1' } })), named('node-1')],
  ['its pool may be named', see(aNewVolume({ ...adopted, spec: { pool: 'local' } })), placed('node-2')],
  [
    'a pool that is nowhere is an obstacle, for every node',
    see(aNewVolume({ ...adopted, spec: { pool: 'fast' } })),
    tell('Pending', {
      reason: 'NoNode',
      message: 'no node can take it: each of node-1, node-2 has no pool "fast"; it has local',
    }),
  ],
  [
    'an unknown node is an obstacle',
    see(aNewVolume({ ...adopted, spec: { node: 'nowhere' } })),
    tell('Pending', { reason: 'UnknownNode', message: 'there is no node "nowhere"; flockctl node list shows the nodes' }),
  ],
  [
    'several pools need a choice',
    see(aNewVolume(adopted), {
      nodes: [aNode('node-1', { status: { pools: { a: { type: 'image', healthy: true }, b: { type: 'lvm', healthy: true } } } })],
    }),
    tell('Pending', { reason: 'PoolNeeded', message: 'the cluster has several pools (a, b): name one in spec.pool' }),
  ],
  [
    'without nodes it waits',
    see(aNewVolume(adopted), { nodes: [] }),
    tell('Pending', { reason: 'NoPool', message: 'no node has a pool yet' }),
  ],
  [
    'placed, its copy is ordered',
    see(aNewVolume({ ...adopted, spec: { node: 'node-1', pool: 'local', copy: SOURCE_COPY, epoch: 1 } })),
    { step: 'order', copy: SOURCE_COPY, entry: { node: 'node-1', pool: 'local', role: 'ordered' } },
  ],
  [
    'a copy that was there and is gone from the record is never ordered anew',
    see(aVolume({ copies: {}, status: { capacity: GIBI, phase: 'Pending' } })),
    { step: 'none' },
  ],
  [
    'ordered, it is Pending',
    see(aVolume({ copies: { [SOURCE_COPY]: anEntry({ role: 'ordered' }) }, status: { phase: 'Available' } })),
    tell('Pending'),
  ],
  [
    'made, it is Available, as large as it really is',
    see(aVolume({ copies: { [SOURCE_COPY]: anEntry({ size: '4096' }) } })),
    tell('Available', null, '4096'),
  ],
  ['in use, it is Published', see(aVolume({ copies: { [SOURCE_COPY]: anEntry({ published: ['/srv'] }) } })), tell('Published', null, GIBI)],
  ['unchanged, nothing is written', see(aVolume()), { step: 'none' }],
  [
    'an obstacle of its copy is its own',
    see(aVolume({ copies: { [SOURCE_COPY]: anEntry({ obstacle: { reason: 'CopyMissing', message: 'gone' } }) } })),
    tell('Blocked', { reason: 'CopyMissing', message: 'gone' }, GIBI),
  ],
  [
    'an obstacle told already is not told again',
    see(
      aVolume({
        copies: { [SOURCE_COPY]: anEntry({ obstacle: { reason: 'CopyMissing', message: 'gone' } }) },
        status: { phase: 'Blocked', obstacle: { reason: 'CopyMissing', message: 'gone', since: '2026-01-01T00:00:00Z' } },
      }),
    ),
    { step: 'none' },
  ],
  ['a silent node is an obstacle', see(aVolume(), { nodes: silent }), tell('Blocked', SILENT, GIBI)],
  [
    "another copy's silent node is none",
    see(aVolume({ copies: { [SOURCE_COPY]: anEntry({ node: 'node-2' }), old: anEntry({ role: 'stale' }) }, spec: { node: 'node-2' } }), {
      nodes: silent,
    }),
    { step: 'none' },
  ],
  [
    'its own silent node is found behind another silent one',
    see(aVolume({ copies: { old: anEntry({ node: 'node-9', role: 'stale' }), [SOURCE_COPY]: anEntry() } }), { nodes: silent }),
    tell('Blocked', SILENT, GIBI),
  ],
  ['deleted, it waits for its copies to go', see(aVolume({ meta: dying })), tell('Deleting', null, GIBI)],
  ['deleted, it says which node it waits for', see(aVolume({ meta: dying }), { nodes: silent }), tell('Deleting', SILENT, GIBI)],
  [
    'deleted, it says what any of its copies waits for',
    see(
      aVolume({
        meta: dying,
        copies: { [SOURCE_COPY]: anEntry(), [TARGET_COPY]: anEntry({ obstacle: { reason: 'InUse', message: 'mounted' } }) },
      }),
    ),
    tell('Deleting', { reason: 'InUse', message: 'mounted' }, GIBI),
  ],
  ['deleted, it is let go when no copy is left', see(aVolume({ meta: dying, copies: {} })), { step: 'letGo' }],
  [
    'deleted, it is not let go while a move is under way',
    see(aVolume({ meta: dying, copies: {}, status: { phase: 'Deleting' } }), { moves: 1 }),
    { step: 'none' },
  ],
  [
    'deleted and held by others only, nothing is left to do',
    see(aVolume({ meta: { ...dying, finalizers: ['other'] }, copies: {} })),
    { step: 'none' },
  ],
];
for (const [sentence, step, expected] of cases) test(`Volume: ${sentence}`, () => assert.deepEqual(step, expected));

const NO_ROOM = { reason: 'NoSpace', message: 'pool local has room for 1 KiB' };
const NEW = aNewVolume({ spec: { node: 'node-1', pool: 'local', copy: SOURCE_COPY, epoch: 1 } });
const refusing = (refusedBy: string | null, change: Partial<ReturnType<typeof anEntry>> = {}): VolumeSeen['volume'] => ({
  ...NEW,
  metadata: { ...NEW.metadata, ...adopted.meta, ...(refusedBy === null ? {} : { annotations: { [REFUSED_BY]: refusedBy } }) },
  status: { copies: { [SOURCE_COPY]: { node: 'node-1', pool: 'local', role: 'ordered', obstacle: NO_ROOM, ...change } } },
});
const withdrawn = (change: Parameters<typeof anEntry>[0] | null): VolumeSeen['volume'] =>
  aVolume({
    spec: { node: undefined, copy: undefined, epoch: 2 } as object,
    copies: change === null ? {} : { [SOURCE_COPY]: anEntry(change) },
    meta: { ...adopted.meta, annotations: { [REFUSED_BY]: 'node-1' } },
    status: { capacity: undefined, phase: 'Pending' } as object,
  });
const third = [...nodes, aNode('node-3')];

const refusals: [string, VolumeStep, VolumeStep][] = [
  ['its node refused and another has room: it is taken back', see(refusing('')), { step: 'withdraw', epoch: 2, refusedBy: ['node-1'] }],
  ['a node that was named is kept, whatever it says', see(refusing(null)), tell('Pending', NO_ROOM)],
  ['no other has room: it stays, and says why', see(refusing(''), { nodes: nodes.slice(0, 1) }), tell('Pending', NO_ROOM)],
  ['whoever refused is not asked again', see(refusing('node-2')), tell('Pending', NO_ROOM)],
  ['a third is asked', see(refusing('node-2'), { nodes: third }), { step: 'withdraw', epoch: 2, refusedBy: ['node-2', 'node-1'] }],
  [
    'another obstacle is no refusal',
    see(refusing('', { obstacle: { reason: 'Unavailable', message: 'x' } })),
    tell('Pending', { reason: 'Unavailable', message: 'x' }),
  ],
  [
    'taken back, it waits for the word of the node that was asked',
    see(withdrawn({ role: 'ordered', created: false })),
    tell('Pending', {
      reason: 'Withdrawn',
      message: 'node node-1 had no room; it is placed elsewhere once that node says that it made nothing',
    }),
  ],
  [
    'nothing was made: another is chosen',
    see(withdrawn(null)),
    { step: 'place', node: 'node-2', copy: copyIdFrom(VOLUME_UID), pool: 'local', epoch: 3, refusedBy: ['node-1'] },
  ],
  [
    'it was made after all: it stays there',
    see(withdrawn({})),
    { step: 'place', node: 'node-1', copy: SOURCE_COPY, pool: 'local', epoch: 3 },
  ],
];
for (const [sentence, step, expected] of refusals) test(`a refused volume: ${sentence}`, () => assert.deepEqual(step, expected));

test('a size too small for its filesystem is an obstacle that names the smallest', () => {
  const step = see(aNewVolume({ ...adopted, spec: { size: '10Mi', filesystem: 'xfs' } }));
  assert.deepEqual(
    step,
    tell('Pending', {
      reason: 'TooSmall',
      message:
        '10.0 MiB are too small for xfs: it needs at least 300Mi; make it larger (flockctl volume grow db SIZE), or delete it (flockctl volume delete db)',
    }),
  );
});

test("a directory has its pool's filesystem, so that none of its own sets its least size", () => {
  const nodes = [aNode('node-1', { pool: { type: 'directory' } })];
  const step = see(aNewVolume({ ...adopted, spec: { size: '1Mi', filesystem: 'xfs' } }), { nodes });
  assert.equal(step.step, 'place');
});

test('P-03: a repeated step places and orders the very same copy', () => {
  const volume = aNewVolume({ ...adopted, spec: { size: '1.5Gi' } });
  assert.deepEqual(see(volume), see(structuredClone(volume)));
  assert.deepEqual(see(volume), placed('node-2'));
});

test('an epoch that is there is raised when a volume is placed: node and copy change only with it', () => {
  const step = see(aNewVolume({ ...adopted, spec: { epoch: 7 } }));
  assert.equal(step.step === 'place' && step.epoch, 8);
});

test('an obstacle keeps the time since when it stands', () => {
  const why = { reason: 'NoSpace', message: 'full' };
  const before = { ...why, message: 'fuller', since: 'then' };
  assert.deepEqual(withSince(why, before, 'now'), { ...why, since: 'then' });
  assert.deepEqual(withSince(why, { reason: 'InUse', message: '', since: 'then' }, 'now'), { ...why, since: 'now' });
  assert.equal(withSince(null, before, 'now'), null);
  assert.ok(saysSame(why, { ...why }) && saysSame(null, undefined) && !saysSame(why, before));
  assert.ok(isNew(why, undefined) && !isNew(why, before) && !isNew(null, before));
});
