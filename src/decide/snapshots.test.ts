// What a volume that begins with a snapshot waits for.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Stored } from '../model/meta.ts';
import type { Snapshot, SnapshotStatus } from '../model/snapshot.ts';
import { aNewVolume, aNode, at, aVolume, GIBI, SOURCE_COPY } from '../testing/records.ts';
import { nextSnapshotStep, placeOfSource, whyNoSnapshots } from './snapshots.ts';

const aSnapshot = (status: SnapshotStatus): Stored<Snapshot> => ({
  apiVersion: 'flock.dev/v1alpha1',
  kind: 'Snapshot',
  metadata: { name: 's1', uid: 'u1', resourceVersion: '1', creationTimestamp: at(0), finalizers: ['flock.dev/point'] },
  spec: { volume: 'db' },
  status,
});

const WITHOUT_POINTS = aNode('node-1', { pool: { type: 'directory', points: false } });
const READY: SnapshotStatus = { phase: 'Ready', node: 'node-1', pool: 'local', copy: SOURCE_COPY, size: GIBI, filesystem: 'ext4' };
const pending = (reason: string, message: string): SnapshotStatus => ({ phase: 'Pending', obstacle: { reason, message, since: at(0) } });

const WAITS: [string, SnapshotStatus, ReturnType<typeof placeOfSource>][] = [
  ['one that is ready', READY, { node: 'node-1', pool: 'local' }],
  ['one that is being taken', { phase: 'Pending' }, { reason: 'SnapshotNotReady', message: 'snapshot s1 is not ready: wait a moment' }],
  [
    'one whose node is silent',
    pending('NodeNotReady', 'node-1 does not answer'),
    { reason: 'SnapshotNotReady', message: 'snapshot s1 is not ready: node-1 does not answer' },
  ],
  ['one that is never taken', pending('Unsupported', 'no points there'), { reason: 'Unsupported', message: 'no points there' }],
];

for (const [what, status, says] of WAITS)
  test(`a clone of ${what}`, () => {
    assert.deepEqual(placeOfSource(aNewVolume({ spec: { source: { snapshot: 's1' } } }), aSnapshot(status)), says);
  });

test('a volume in a pool without points has no snapshots, and what was written all the same says so', () => {
  const why = whyNoSnapshots(aVolume(), WITHOUT_POINTS);
  assert.match(why?.message ?? '', /pool local of node node-1 cannot keep points in time: volume db has no snapshots and no clones/u);
  assert.equal(whyNoSnapshots(aVolume(), aNode('node-1')), null);
  assert.equal(whyNoSnapshots(aNewVolume(), WITHOUT_POINTS), null);
  const step = nextSnapshotStep({ snapshot: aSnapshot({}), volume: aVolume(), node: WITHOUT_POINTS, makes: [] });
  assert.deepEqual(step, { step: 'tell', status: {}, obstacle: why });
});
