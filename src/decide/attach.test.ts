// Where a volume is wanted, and what to do about it: a line a case.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aMove, anEntry, aNode, aVolume, dying, SOURCE_COPY, TARGET_COPY, type VolumeChange } from '../testing/records.ts';
import { nextAttachStep, type AttachSeen, type AttachStep } from './attach.ts';

const movable = (change: VolumeChange = {}): AttachSeen['volume'] =>
  aVolume({ ...change, spec: { dataMigrationMode: 'VolumeTransfer', ...change.spec } });
const see = (volume: AttachSeen['volume'], change: Partial<AttachSeen> = {}): AttachStep =>
  nextAttachStep({ volume, wanted: { name: 'node-2', record: aNode('node-2') }, moves: [], ordered: null, ...change });
const refused = (step: AttachStep): string => (step.step === 'refuse' ? step.why.reason : step.step);
const away = (phase: Parameters<typeof aMove>[0], change = {}): AttachSeen['moves'] => [
  aMove(phase, { meta: { name: 'away' }, spec: { target: 'node-3', ...change } }),
];

const cases: [string, string, string][] = [
  ['where it is, it is there', refused(see(aVolume(), { wanted: { name: 'node-1', record: aNode('node-1') } })), 'there'],
  [
    'after the commit its new copy has to become active first',
    refused(
      see(
        movable({
          spec: { node: 'node-2', copy: TARGET_COPY, epoch: 2 },
          copies: { [TARGET_COPY]: anEntry({ node: 'node-2', role: 'incoming' }) },
        }),
      ),
    ),
    'wait',
  ],
  ['elsewhere it is refused when it does not follow its application', refused(see(aVolume())), 'Elsewhere'],
  ['one that follows is ordered to move', refused(see(movable())), 'order'],
  [
    'a node without room is refused before anything is ordered',
    refused(see(movable(), { wanted: { name: 'node-2', record: aNode('node-2', { pool: { free: '1000' } }) } })),
    'NoSpace',
  ],
  [
    'a node that keeps a copy of it needs no more room',
    refused(
      see(movable({ copies: { [SOURCE_COPY]: anEntry(), old: anEntry({ node: 'node-2', role: 'stale' }) } }), {
        wanted: { name: 'node-2', record: aNode('node-2', { pool: { free: '1000' } }) },
      }),
    ),
    'order',
  ],
  [
    'unless snapshots are in that copy: it is not written again',
    refused(
      see(movable({ copies: { [SOURCE_COPY]: anEntry(), old: anEntry({ node: 'node-2', role: 'stale', snapshots: ['s'] }) } }), {
        wanted: { name: 'node-2', record: aNode('node-2', { pool: { free: '1000' } }) },
      }),
    ),
    'NoSpace',
  ],
  ['a move that goes there already is joined', refused(see(movable(), { moves: [aMove('Syncing')] })), 'wait'],
  ['one that goes elsewhere is cancelled', refused(see(movable(), { moves: away('Syncing') })), 'cancel'],
  ['one that is being cancelled is waited for', refused(see(movable(), { moves: away('Syncing', { cancel: true }) })), 'wait'],
  ['one that is past its commit cannot be cancelled', refused(see(movable(), { moves: away('Activating') })), 'wait'],
  ['one that only keeps its source does not count', refused(see(movable(), { moves: away('Retaining') })), 'order'],
  [
    'the own move that ended without success ends the wish',
    refused(see(movable(), { moves: [aMove('Failed', { meta: { name: 'mine' } })], ordered: 'mine' })),
    'MoveEnded',
  ],
  ['what is being deleted goes nowhere', refused(see(movable({ meta: dying }))), 'Deleting'],
];

for (const [name, seen, wanted] of cases) test(name, () => assert.equal(seen, wanted));
