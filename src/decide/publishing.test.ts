// When a node may serve a volume, and what it says when not: a line a case.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aMove, aVolume, dying, onDisk, OTHER_UID, TARGET_COPY } from '../testing/records.ts';
import { whyNotPublish } from './publishing.ts';

const ask = (change: Partial<Parameters<typeof whyNotPublish>[0]> = {}): ReturnType<typeof whyNotPublish> =>
  whyNotPublish({ node: 'node-1', volume: aVolume(), moves: [], copy: onDisk(), leaseFresh: true, ...change });

const refusals: [string, Parameters<typeof ask>[0], string, string][] = [
  ['no volume', { volume: null }, 'VolumeNotFound', 'there is no such volume; flockctl volume list shows the volumes'],
  ['a volume being deleted', { volume: aVolume({ meta: dying }) }, 'VolumeDeleted', 'volume db is being deleted'],
  [
    'a volume on another node',
    { node: 'node-3' },
    'OtherNode',
    'volume db is on node node-1; mount it there, or move it: flockctl move db --to node-3',
  ],
  [
    'a node that lost its Lease',
    { leaseFresh: false },
    'LeaseLost',
    "node node-1 has not reached the server within its Lease's duration; it starts nothing new until it does",
  ],
  [
    'a volume being cut over',
    { moves: [aMove('Fencing')] },
    'Moving',
    'volume db is being cut over to node node-2 (move db-move); mount it there in a moment',
  ],
  ['a copy that is not there', { copy: null }, 'CopyMissing', 'the pool has no copy a1 of volume db yet'],
  [
    'a copy ahead of the record',
    { copy: onDisk({ epoch: 2 }) },
    'RecordBehind',
    "the copy's label says epoch 2, the record of db 1: records were rolled back; flockctl volume show db says how to go on",
  ],
  [
    'a copy that is not active',
    { copy: onDisk({ role: 'retired' }) },
    'NotActive',
    'the copy of db on this node is retired, not active; flockctl volume show db says what it waits for',
  ],
  [
    'a copy that was formatted by its record and not by its label',
    { copy: onDisk({ formatted: false }) },
    'DiskBehind',
    "the record of volume db says that its copy has a filesystem, the copy's own label that it never had one: the disk was put back to an older state. It is not served, and not formatted again: bring the newer disk back, or delete the volume (flockctl volume delete db)",
  ],
  [
    'a copy behind the record',
    { volume: aVolume({ spec: { epoch: 2 } }) },
    'EpochBehind',
    'the copy of db is at epoch 1, the record at 2; try again in a moment',
  ],
];
for (const [what, change, reason, message] of refusals)
  test(`${what} is not served`, () => assert.deepEqual(ask(change), { reason, message }));

test('a volume without a node says what it waits for', () => {
  const { node: _, copy: __, epoch: ___, ...spec } = aVolume().spec;
  const volume = { ...aVolume({ status: { obstacle: { reason: 'NoNode', message: 'no room anywhere' } } }), spec };
  assert.equal(ask({ volume })?.message, 'volume db has no node yet: no room anywhere');
});

test('the active copy at the epoch of the record is served, whatever happens elsewhere', () => {
  assert.equal(ask(), null);
  assert.equal(ask({ moves: [aMove('Syncing')] }), null);
  assert.equal(ask({ moves: [aMove('Fencing', { status: { volumeUid: OTHER_UID } })] }), null);
  assert.equal(
    ask({
      node: 'node-2',
      volume: aVolume({ spec: { node: 'node-2', copy: TARGET_COPY, epoch: 2, move: 'db-move' } }),
      moves: [aMove('Activating')],
      copy: onDisk({ copy: TARGET_COPY, epoch: 2 }),
    }),
    null,
  );
});
