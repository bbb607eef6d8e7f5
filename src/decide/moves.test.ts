// The controller's next step of a Move: a line a case, in the order of the phases.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MOVE_PHASES, type MovePhase } from '../model/move.ts';
import { RESTORED } from '../model/volume.ts';
import {
  aMove,
  anEntry,
  aNode,
  at,
  aVolume,
  dying,
  moveSeen,
  OTHER_UID,
  SOURCE_COPY,
  TARGET_COPY,
  type MoveChange,
  type VolumeChange,
} from '../testing/records.ts';
import { bandwidthOf, DEFAULT_CAPS, nextMoveStep, restMs, type MoveSeen, type MoveStep } from './moves.ts';

type Case = [sentence: string, seen: MoveSeen, step: MoveStep];

const table = (phase: string, cases: Case[]): void => {
  for (const [sentence, seen, step] of cases) test(`${phase}: ${sentence}`, () => assert.deepEqual(nextMoveStep(seen), step));
};

const waiting = (reason: string, message: string, againMs?: number): MoveStep => ({
  step: 'wait',
  why: { reason, message },
  ...(againMs === undefined ? {} : { againMs }),
});
const quiet = (againMs?: number): MoveStep => ({ step: 'wait', why: null, ...(againMs === undefined ? {} : { againMs }) });
const cancel = (phase: 'Cancelled' | 'Failed', reason: string, message: string): MoveStep => ({
  step: 'cancel',
  ending: { phase, reason, message },
});

const GIBI = 2 ** 30;
const minutes = (count: number): number => count * 60_000;
const pending = (change: Partial<MoveSeen> = {}, move: MoveChange = {}): MoveSeen => moveSeen(aMove('Pending', move), change);
const seenIn = (phase: MovePhase, move: MoveChange = {}, change: Partial<MoveSeen> = {}): MoveSeen => moveSeen(aMove(phase, move), change);

/** The target's copy beside the source's. */
const both = (
  source: VolumeChange['copies'] = {},
  target = anEntry({ node: 'node-2', role: 'incoming' }),
): NonNullable<VolumeChange['copies']> => ({
  [SOURCE_COPY]: anEntry(),
  [TARGET_COPY]: target,
  ...source,
});
const used = (): MoveSeen['volume'] => aVolume({ copies: both({ [SOURCE_COPY]: anEntry({ published: ['/srv/db'] }) }) });
const idle = (): MoveSeen['volume'] => aVolume({ copies: both() });
const gone = aNode('node-1', { ready: false });
/** Its agent fell silent after it was last judged. */
const UNHEARD: MoveSeen['source'] = (({ status: { transfer: _none, ...status } = {}, ...node }) => ({ ...node, status }))(aNode('node-1'));
const SILENT_SOURCE = 'the agent of the source node node-1 does not answer; the move goes on by itself when it is back, or cancel it';
const SILENT_TARGET = 'the agent of the target node node-2 does not answer; the move goes on by itself when it is back, or cancel it';

const ACCEPTED = {
  volumeUid: aVolume().metadata.uid,
  epoch: 1,
  pool: 'local',
  source: { node: 'node-1', copy: SOURCE_COPY },
  target: { node: 'node-2', copy: 'aaaaaaaabbbb' },
  reused: false,
};
const LEFT_OVER = anEntry({ node: 'node-2', role: 'stale', epoch: 0 });

table('Pending', [
  ['it is accepted when all is well', pending(), { step: 'accept', status: ACCEPTED }],
  [
    'a superseded copy at the target is used again, whatever room is left there',
    pending({ volume: aVolume({ copies: both({}, LEFT_OVER) }), target: aNode('node-2', { pool: { free: '0' } }) }),
    { step: 'accept', status: { ...ACCEPTED, target: { node: 'node-2', copy: TARGET_COPY }, reused: true } },
  ],
  [
    'a superseded copy in another pool is not used again',
    pending({ volume: aVolume({ copies: both({}, { ...LEFT_OVER, pool: 'other' }) }) }),
    { step: 'accept', status: ACCEPTED },
  ],
  [
    'asked to cancel, it ends at once',
    pending({}, { spec: { cancel: true } }),
    { step: 'end', phase: 'Cancelled', why: { reason: 'CancelAsked', message: 'cancelled before it began' } },
  ],
  [
    'deleted, it ends at once',
    pending({}, { meta: dying }),
    { step: 'end', phase: 'Cancelled', why: { reason: 'CancelAsked', message: 'cancelled before it began' } },
  ],
  [
    'it waits for a volume that is not there',
    pending({ volume: null }),
    waiting('VolumeNotFound', 'there is no volume "db"; flockctl volume list shows the volumes'),
  ],
  [
    'it ends when its volume is being deleted',
    pending({ volume: aVolume({ meta: dying }) }),
    { step: 'end', phase: 'Cancelled', why: { reason: 'VolumeDeleted', message: 'volume db is being deleted' } },
  ],
  [
    'it waits for the volume to have a usable copy',
    pending({ volume: aVolume({ copies: { [SOURCE_COPY]: anEntry({ role: 'ordered' }) } }) }),
    waiting('VolumeNotReady', 'volume db has no usable copy yet'),
  ],
  [
    'a move to where the volume is fails',
    pending({}, { spec: { target: 'node-1' } }),
    { step: 'end', phase: 'Failed', why: { reason: 'TargetIsSource', message: 'volume db is on node node-1 already' } },
  ],
  [
    'it queues behind an earlier move of the same volume',
    pending({ earlier: 'first' }),
    waiting('Queued', 'move first of the same volume comes first'),
  ],
  ['it waits for a silent source', pending({ source: gone }), waiting('SourceUnreachable', SILENT_SOURCE)],
  [
    'it waits for an unknown target',
    pending({ target: null }),
    waiting('UnknownNode', 'there is no node "node-2"; flockctl node list shows the nodes'),
  ],
  [
    'it waits for room at the target',
    pending({ target: aNode('node-2', { pool: { free: String(GIBI / 2) } }) }),
    waiting('NoSpace', 'pool local of node node-2 has room for 512 MiB, 1.00 GiB are needed; free some, or choose another node'),
  ],
  [
    'what moves keep at a full target is told, with the way to have it sooner',
    pending({
      target: aNode('node-2', { pool: { free: '0' } }),
      kept: [{ volume: 'web', copy: 'c3', node: 'node-2', pool: 'local', size: 3n << 30n, move: 'web-x', until: 0 }],
    }),
    waiting(
      'NoSpace',
      'pool local of node node-2 has room for 0 B, 1.00 GiB are needed; free some, or choose another node; node node-2 keeps 3.00 GiB of old copies there, which end sooner by: flockctl move release web-x',
    ),
  ],
  [
    'it queues while the source sends another volume',
    pending({ copying: { from: 1, to: 0, all: 1 } }),
    waiting('Queued', 'node node-1 is sending 1 other volume; at most 1 at once'),
  ],
  [
    'it queues while the target receives another volume',
    pending({ copying: { from: 0, to: 1, all: 1 } }),
    waiting('Queued', 'node node-2 is receiving 1 other volume; at most 1 at once'),
  ],
  [
    'it queues while the network is full',
    pending({ copying: { from: 0, to: 0, all: 16 } }),
    waiting('Queued', '16 moves are copying; at most 16 at once'),
  ],
]);

const BEFORE_COMMIT: MovePhase[] = ['Reserving', 'Syncing', 'ReadyToCutOver', 'Fencing', 'FinalDelta', 'Verifying'];
const DIRECTORIES = aNode('node-1', { pool: { type: 'directory', points: false } });
const TOO_DEEP = { reason: 'Unsupported', message: '"a" is too deep', since: at(0) };
for (const phase of BEFORE_COMMIT)
  for (const side of ['outgoing', 'incoming'] as const)
    table(phase, [
      [
        `a directory that cannot be carried, as its ${side} side says, ends it and gives the source back`,
        seenIn(phase, { status: { [side]: { obstacle: TOO_DEEP } } }, { source: DIRECTORIES }),
        cancel('Failed', 'Unsupported', '"a" is too deep'),
      ],
    ]);

for (const phase of BEFORE_COMMIT)
  table(phase, [
    [
      'asked to cancel, it is taken back',
      seenIn(phase, { spec: { cancel: true } }),
      cancel('Cancelled', 'CancelAsked', 'cancelled by request'),
    ],
    ['deleted, it is taken back', seenIn(phase, { meta: dying }), cancel('Cancelled', 'CancelAsked', 'cancelled by request')],
    [
      'its volume deleted, it is taken back',
      seenIn(phase, {}, { volume: aVolume({ meta: dying }) }),
      cancel('Cancelled', 'VolumeDeleted', 'volume db was deleted during the move'),
    ],
    [
      'its volume gone, it is taken back',
      seenIn(phase, {}, { volume: null }),
      cancel('Cancelled', 'VolumeDeleted', 'volume db was deleted during the move'),
    ],
    [
      'its volume made anew under the same name, it is taken back',
      seenIn(phase, {}, { volume: aVolume({ meta: { uid: OTHER_UID } }) }),
      cancel('Cancelled', 'VolumeDeleted', 'volume db was deleted during the move'),
    ],
    [
      'a commit whose answer was lost is found by reading it back',
      seenIn(phase, {}, { volume: aVolume({ spec: { node: 'node-2', copy: TARGET_COPY, epoch: 2, move: 'db-move' } }) }),
      { step: 'phase', phase: 'Committed' },
    ],
    [
      'a takeover by somebody else ends it',
      seenIn(phase, {}, { volume: aVolume({ spec: { node: 'node-3', copy: 'c3', epoch: 2, move: 'other' } }) }),
      cancel('Failed', 'Superseded', "the volume's placement changed during the move: it is at epoch 2, the move began at 1"),
    ],
    [
      'two changes of placement end it, also when the copy is the same',
      seenIn(phase, {}, { volume: aVolume({ spec: { epoch: 3 } }) }),
      cancel('Failed', 'Superseded', "the volume's placement changed during the move: it is at epoch 3, the move began at 1"),
    ],
  ]);

table('Reserving', [
  [
    'the copy at the target is ordered first',
    seenIn('Reserving'),
    { step: 'order', copy: TARGET_COPY, entry: { node: 'node-2', pool: 'local', role: 'ordered' } },
  ],
  ['it waits for the reservation', seenIn('Reserving', {}, { volume: idle() }), quiet()],
  [
    'it says why the target has no room',
    seenIn('Reserving', { status: { incoming: { obstacle: { reason: 'NoSpace', message: 'full', since: at(0) } } } }, { volume: idle() }),
    waiting('NoSpace', 'full'),
  ],
  [
    'a silent target comes before what it last said',
    seenIn(
      'Reserving',
      { status: { incoming: { obstacle: { reason: 'NoSpace', message: 'full' } } } },
      { volume: idle(), target: aNode('node-2', { ready: false }) },
    ),
    waiting('TargetUnreachable', SILENT_TARGET),
  ],
  [
    'reserved, the rounds begin',
    seenIn('Reserving', { status: { incoming: { reserved: true } } }, { volume: idle() }),
    { step: 'round', phase: 'Syncing', round: 0 },
  ],
  [
    'reserved, it gives the source a moment to say where it serves the volume',
    seenIn('Reserving', { status: { incoming: { reserved: true }, startedAt: at(-1_000) } }, { volume: idle(), source: UNHEARD }),
    quiet(4_000),
  ],
  [
    'a source that says nothing is told before anything is copied',
    seenIn('Reserving', { status: { incoming: { reserved: true }, startedAt: at(-6_000) } }, { volume: idle(), source: UNHEARD }),
    waiting(
      'SourceUnreachable',
      "node node-1 does not say where it serves volume data, so its agent may have ended: look at that agent's log, or cancel the move",
    ),
  ],
  [
    'a source that is silent is waited for before anything is copied',
    seenIn('Reserving', { status: { incoming: { reserved: true } } }, { volume: idle(), source: gone }),
    waiting('SourceUnreachable', SILENT_SOURCE),
  ],
  [
    'a pool without points, with nobody using the volume, is copied once, fenced',
    seenIn(
      'Reserving',
      { status: { incoming: { reserved: true } } },
      { volume: idle(), source: aNode('node-1', { pool: { points: false } }) },
    ),
    { step: 'fence' },
  ],
  [
    'a pool without points copies beside a running application first',
    seenIn(
      'Reserving',
      { status: { incoming: { reserved: true } } },
      { volume: used(), source: aNode('node-1', { pool: { points: false } }) },
    ),
    { step: 'round', phase: 'Syncing', round: 0 },
  ],
]);

const rounds = (sizes: number[], more: object = {}): MoveChange['status'] & object => ({
  round: sizes.length - 1,
  incoming: {
    completeRound: sizes.length - 1,
    rate: 100_000_000,
    rounds: sizes.map(String),
    dirty: '1000000000',
    allocated: String(GIBI),
    ...more,
  },
});
const TOO_LONG =
  'the rest (954 MiB) would stop the application for about 10 s, 2 s are allowed; allow more (spec.allowedPause, --pause), choose spec.stallPolicy CutOver, or stop the application';
const ALL_TOO_LONG =
  'the rest (1.00 GiB) would stop the application for about 11 s, 2 s are allowed; allow more (spec.allowedPause, --pause), choose spec.stallPolicy CutOver, or stop the application';
const { dirty: _dirty, ...blindIncoming } = rounds([9])['incoming'] ?? {};
const blind = { round: 0, incoming: blindIncoming };

table('Syncing', [
  [
    'a round under way is awaited',
    seenIn('Syncing', { status: { round: 1, incoming: { completeRound: 0 } } }, { volume: used() }),
    quiet(),
  ],
  [
    'it says what the target said',
    seenIn('Syncing', { status: { round: 0, incoming: { obstacle: { reason: 'Corrupt', message: 'roots differ' } } } }, { volume: used() }),
    waiting('Corrupt', 'roots differ'),
  ],
  [
    'it says what the source said before what the target said',
    seenIn(
      'Syncing',
      {
        status: {
          round: 0,
          incoming: { obstacle: { reason: 'Corrupt', message: 'roots differ' } },
          outgoing: { obstacle: { reason: 'InUse', message: 'held' } },
        },
      },
      { volume: used() },
    ),
    waiting('InUse', 'held'),
  ],
  [
    'it says that the source is silent',
    seenIn('Syncing', { status: { round: 0 } }, { volume: used(), source: gone }),
    waiting('SourceUnreachable', SILENT_SOURCE),
  ],
  [
    'with nobody using the volume it goes on to the cut-over',
    seenIn('Syncing', { status: rounds([9]) }, { volume: idle() }),
    { step: 'fence' },
  ],
  [
    'a rest that fits the allowed pause is ready',
    seenIn('Syncing', { status: rounds([9], { dirty: '200000000' }) }, { volume: used() }),
    { step: 'phase', phase: 'ReadyToCutOver' },
  ],
  [
    "the move's own pause goes before the volume's",
    seenIn('Syncing', { spec: { allowedPause: '10s' }, status: rounds([9]) }, { volume: used() }),
    { step: 'phase', phase: 'ReadyToCutOver' },
  ],
  [
    "the volume's pause counts when the move names none",
    seenIn(
      'Syncing',
      { status: rounds([9]) },
      { volume: aVolume({ spec: { allowedPause: '10s' }, copies: both({ [SOURCE_COPY]: anEntry({ published: ['/srv/db'] }) }) }) },
    ),
    { step: 'phase', phase: 'ReadyToCutOver' },
  ],
  [
    'a rest that does not fit asks for another round',
    seenIn('Syncing', { status: rounds([100, 50]) }, { volume: used() }),
    { step: 'round', phase: 'Syncing', round: 2 },
  ],
  [
    'the second round need not be smaller than the first: one may be all there was',
    seenIn('Syncing', { status: rounds([100, 99]) }, { volume: used() }),
    { step: 'round', phase: 'Syncing', round: 2 },
  ],
  [
    'rounds that shrink by less than a fifth have stalled, and say the way out',
    seenIn('Syncing', { status: rounds([100, 50, 41]) }, { volume: used() }),
    waiting('PauseTooLong', TOO_LONG, 10_000),
  ],
  [
    'rounds that shrink by a fifth go on',
    seenIn('Syncing', { status: rounds([100, 50, 40]) }, { volume: used() }),
    { step: 'round', phase: 'Syncing', round: 3 },
  ],
  [
    'after eight rounds it has stalled, however they shrink',
    seenIn('Syncing', { status: rounds([800, 400, 200, 100, 50, 25, 12, 6]) }, { volume: used() }),
    waiting('PauseTooLong', TOO_LONG, 10_000),
  ],
  [
    'a stalled move copies on in idle rounds',
    seenIn('Syncing', { status: rounds([100, 50, 41]) }, { volume: used(), restedMs: 10_000 }),
    { step: 'round', phase: 'Syncing', round: 3, why: { reason: 'PauseTooLong', message: TOO_LONG } },
  ],
  [
    'a stalled move that may cut over is ready',
    seenIn('Syncing', { spec: { stallPolicy: 'CutOver' }, status: rounds([100, 50, 41]) }, { volume: used() }),
    { step: 'phase', phase: 'ReadyToCutOver' },
  ],
  [
    'a stalled move that shall be aborted fails',
    seenIn('Syncing', { spec: { stallPolicy: 'Abort' }, status: rounds([100, 50, 41]) }, { volume: used() }),
    cancel('Failed', 'Stalled', TOO_LONG),
  ],
  [
    'a source that cannot tell what changed has stalled after one round, and another would not help',
    seenIn('Syncing', { status: blind }, { volume: used(), restedMs: 60_000 }),
    waiting('PauseTooLong', ALL_TOO_LONG),
  ],
]);

const READY = 'ready: stop the application and unmount the volume at /srv/db on node node-1 (flockctl volume unmount db)';
table('ReadyToCutOver', [
  [
    'a half-written round is finished first',
    seenIn('ReadyToCutOver', { status: { round: 1, incoming: { completeRound: 0 } } }, { volume: idle() }),
    quiet(),
  ],
  ['unpublished, the source is fenced', seenIn('ReadyToCutOver', { status: rounds([9]) }, { volume: idle() }), { step: 'fence' }],
  [
    'in use, it says what to do',
    seenIn('ReadyToCutOver', { status: rounds([9]) }, { volume: used() }),
    waiting('WaitingForUnpublish', READY, 10_000),
  ],
  [
    'in use, idle rounds keep the rest small',
    seenIn('ReadyToCutOver', { status: rounds([9]) }, { volume: used(), restedMs: 10_000 }),
    { step: 'round', phase: 'ReadyToCutOver', round: 1, why: { reason: 'WaitingForUnpublish', message: READY } },
  ],
  [
    'while an idle round runs, it waits for what it waited for',
    seenIn(
      'ReadyToCutOver',
      { status: { round: 1, incoming: { completeRound: 0 }, obstacle: { reason: 'WaitingForUnpublish', message: READY, since: at(0) } } },
      { volume: used() },
    ),
    waiting('WaitingForUnpublish', READY),
  ],
  [
    'a copy that grows once the move is over is not in its way',
    seenIn(
      'ReadyToCutOver',
      { status: { round: 1, incoming: { completeRound: 0 }, obstacle: { reason: 'WaitingForUnpublish', message: READY, since: at(0) } } },
      {
        volume: aVolume({
          copies: both({
            [SOURCE_COPY]: anEntry({ published: ['/srv/db'], obstacle: { reason: 'Moving', message: 'later', since: at(0) } }),
          }),
        }),
      },
    ),
    waiting('WaitingForUnpublish', READY),
  ],
  [
    'that was unmounted while an idle round runs waits for nothing but the round',
    seenIn(
      'ReadyToCutOver',
      { status: { round: 1, incoming: { completeRound: 0 }, obstacle: { reason: 'WaitingForUnpublish', message: READY, since: at(0) } } },
      { volume: idle() },
    ),
    quiet(),
  ],
  [
    'idle rounds do not help where changes are not known',
    seenIn('ReadyToCutOver', { status: blind }, { volume: used(), restedMs: 60_000 }),
    waiting('WaitingForUnpublish', READY, 10_000),
  ],
]);

const fencedLong = (attempts: number): MoveChange => ({ status: { round: 1, fencingAt: at(-minutes(10)), attempts } });
const PROOF_MISSING = 'the last delta was not proven within 600 s, 3 times';
for (const phase of ['Fencing', 'FinalDelta', 'Verifying'] as const)
  table(phase, [
    ['fenced for too long, the source is given back', seenIn(phase, fencedLong(0), { volume: idle() }), { step: 'unfence' }],
    ['the third time it fails', seenIn(phase, fencedLong(2), { volume: idle() }), cancel('Failed', 'FencedTooLong', PROOF_MISSING)],
    [
      'the third time it fails, with what stood in the way',
      seenIn(phase, fencedLong(2), { volume: idle(), source: gone }),
      cancel('Failed', 'FencedTooLong', `${PROOF_MISSING}: ${SILENT_SOURCE}`),
    ],
    [
      'a source that was given back is awaited, for its agent takes the fence down',
      seenIn(phase, fencedLong(0), {
        volume: aVolume({ spec: { epoch: 2 }, copies: both({ [SOURCE_COPY]: anEntry({ role: 'retired' }) }) }),
      }),
      quiet(),
    ],
    [
      'a source that was given back goes on from its new epoch, with a round that was never begun',
      seenIn(phase, fencedLong(0), { volume: aVolume({ spec: { epoch: 2 }, copies: both({ [SOURCE_COPY]: anEntry({ epoch: 2 }) }) }) }),
      { step: 'resume', epoch: 2, round: 2 },
    ],
  ]);
for (const phase of ['Reserving', 'Syncing', 'ReadyToCutOver'] as const)
  table(phase, [
    [
      'an epoch that somebody raised ends it: nothing was fenced that could be given back',
      seenIn(phase, {}, { volume: aVolume({ spec: { epoch: 2 } }) }),
      cancel('Failed', 'Superseded', "the volume's placement changed during the move: it is at epoch 2, the move began at 1"),
    ],
  ]);

const FENCING = { round: 1, fencingAt: at(0) };
table('Fencing', [
  ['the fence is awaited, and looked after', seenIn('Fencing', { status: FENCING }, { volume: idle() }), quiet(DEFAULT_CAPS.fencedMs)],
  [
    'it says who holds the source',
    seenIn(
      'Fencing',
      { status: { ...FENCING, outgoing: { obstacle: { reason: 'InUse', message: 'held by pid 7' } } } },
      { volume: idle() },
    ),
    waiting('InUse', 'held by pid 7', DEFAULT_CAPS.fencedMs),
  ],
  [
    'fenced, the last delta is read',
    seenIn('Fencing', { status: { ...FENCING, outgoing: { fencedEpoch: 1 } } }, { volume: idle() }),
    { step: 'finalDelta', round: 2 },
  ],
  [
    'fenced without a round before, all is read',
    seenIn('Fencing', { status: { fencingAt: at(0), outgoing: { fencedEpoch: 1 } } }, { volume: idle() }),
    { step: 'finalDelta', round: 0 },
  ],
  [
    'a fence of another epoch is none',
    seenIn('Fencing', { status: { ...FENCING, outgoing: { fencedEpoch: 0 } } }, { volume: idle() }),
    quiet(DEFAULT_CAPS.fencedMs),
  ],
  [
    'published again before the fence stood, it waits again',
    seenIn('Fencing', { status: FENCING }, { volume: used() }),
    { step: 'phase', phase: 'ReadyToCutOver' },
  ],
  [
    'published again without a round before, it begins to copy',
    seenIn('Fencing', { status: { fencingAt: at(0) } }, { volume: used() }),
    { step: 'round', phase: 'Syncing', round: 0 },
  ],
]);

const delta = (incoming: object): MoveChange => ({ status: { round: 2, fencingAt: at(0), outgoing: { fencedEpoch: 1 }, incoming } });
const VERIFIED = { round: 2, epoch: 1, bytes: '0', frames: 0 };
table('FinalDelta', [
  [
    'the delta is awaited, and looked after',
    seenIn('FinalDelta', delta({ completeRound: 1 }), { volume: idle() }),
    quiet(DEFAULT_CAPS.fencedMs),
  ],
  ['durable, it is verified', seenIn('FinalDelta', delta({ completeRound: 2 }), { volume: idle() }), { step: 'phase', phase: 'Verifying' }],
]);

table('Verifying', [
  [
    'verified for this round and epoch, it is committed',
    seenIn('Verifying', delta({ completeRound: 2, verified: VERIFIED }), { volume: idle() }),
    { step: 'commit' },
  ],
  [
    'without proof nothing is committed',
    seenIn('Verifying', delta({ completeRound: 2 }), { volume: idle() }),
    quiet(DEFAULT_CAPS.fencedMs),
  ],
  [
    'a proof of another round is none',
    seenIn('Verifying', delta({ completeRound: 2, verified: { ...VERIFIED, round: 1 } }), { volume: idle() }),
    quiet(DEFAULT_CAPS.fencedMs),
  ],
  [
    'a proof of another epoch is none',
    seenIn('Verifying', delta({ completeRound: 2, verified: { ...VERIFIED, epoch: 0 } }), { volume: idle() }),
    quiet(DEFAULT_CAPS.fencedMs),
  ],
]);

const moved = (
  target = anEntry({ node: 'node-2', epoch: 2 }),
  source = anEntry({ role: 'stale' }),
  change: VolumeChange = {},
): MoveSeen['volume'] =>
  aVolume({
    ...change,
    spec: { node: 'node-2', copy: TARGET_COPY, epoch: 2, move: 'db-move', ...change.spec },
    copies: { [SOURCE_COPY]: source, [TARGET_COPY]: target },
  });
const arriving = anEntry({ node: 'node-2', role: 'incoming', epoch: 1 });

table('Committed', [
  ['it is activated', seenIn('Committed', {}, { volume: moved(arriving) }), { step: 'phase', phase: 'Activating' }],
  [
    'a cancel comes too late',
    seenIn('Committed', { spec: { cancel: true } }, { volume: moved(arriving) }),
    { step: 'phase', phase: 'Activating' },
  ],
]);

table('Activating', [
  ['the target is awaited', seenIn('Activating', {}, { volume: moved(arriving) }), quiet()],
  ['a cancel comes too late', seenIn('Activating', { spec: { cancel: true } }, { volume: moved(arriving) }), quiet()],
  [
    'it says why the copy is not served',
    seenIn('Activating', {}, { volume: moved({ ...arriving, obstacle: { reason: 'NotVerified', message: 'no proof' } }) }),
    waiting('NotVerified', 'no proof'),
  ],
  [
    'it says that the target is silent',
    seenIn('Activating', {}, { volume: moved(arriving), target: aNode('node-2', { ready: false }) }),
    waiting('TargetUnreachable', SILENT_TARGET),
  ],
  ['active at the old epoch is not enough', seenIn('Activating', {}, { volume: moved({ ...arriving, role: 'active' }) }), quiet()],
  [
    'active, the pause is over',
    seenIn('Activating', { status: { fencingAt: at(-1500) } }, { volume: moved() }),
    { step: 'published', pauseMs: 1500 },
  ],
  [
    'a clock that went back makes no negative pause',
    seenIn('Activating', { status: { fencingAt: at(1500) } }, { volume: moved() }),
    { step: 'published', pauseMs: 0 },
  ],
  [
    'its volume being deleted, it goes on to its end',
    seenIn('Activating', {}, { volume: moved(arriving, undefined, { meta: dying }) }),
    { step: 'phase', phase: 'Retaining' },
  ],
  ['its volume gone, it goes on to its end', seenIn('Activating', {}, { volume: null }), { step: 'phase', phase: 'Retaining' }],
]);

table('Published', [
  ['the source is kept from now on', seenIn('Published', {}, { volume: moved() }), { step: 'phase', phase: 'Retaining' }],
]);

const DAY = 24 * 3_600_000;
const kept = (scrub: object | null, committed = 0, more: object = {}): MoveChange => ({
  status: { committedAt: at(committed), ...more, ...(scrub ? { incoming: { scrub: scrub as { state: 'Passed' } } } : {}) },
});
const DONE: MoveStep = { step: 'end', phase: 'Done', why: null };
table('Retaining', [
  ['the source is kept for a day by default', seenIn('Retaining', kept({ state: 'Passed' }), { volume: moved() }), quiet(DAY)],
  [
    'the volume says for how long it is kept',
    seenIn('Retaining', kept({ state: 'Passed' }), { volume: moved(undefined, undefined, { spec: { retainSource: '1h' } }) }),
    quiet(3_600_000),
  ],
  [
    'the move itself may say for how long, and is asked first',
    seenIn('Retaining', { ...kept({ state: 'Passed' }), spec: { retainSource: '0s' } }, { volume: moved() }),
    { step: 'release' },
  ],
  [
    'however short that is, it is kept until the scrub has passed',
    seenIn('Retaining', { ...kept({ state: 'Running' }), spec: { retainSource: '0s' } }, { volume: moved() }),
    quiet(),
  ],
  [
    'kept long enough and scrubbed, it is let go',
    seenIn('Retaining', kept({ state: 'Passed' }, -DAY), { volume: moved() }),
    { step: 'release' },
  ],
  [
    'a repaired volume counts as scrubbed',
    seenIn('Retaining', kept({ state: 'Repaired' }, -DAY), { volume: moved() }),
    { step: 'release' },
  ],
  [
    'where there is nothing to scrub the read-back counts',
    seenIn('Retaining', kept({ state: 'Impossible' }, -DAY), { volume: moved() }),
    { step: 'release' },
  ],
  ['unscrubbed it is kept', seenIn('Retaining', kept(null, -DAY), { volume: moved() }), quiet()],
  ['while the scrub runs it is kept', seenIn('Retaining', kept({ state: 'Running' }, -DAY), { volume: moved() }), quiet()],
  [
    'unscrubbed and overdue it says why',
    seenIn('Retaining', kept(null, -DAY), { volume: moved(), source: gone }),
    waiting('SourceUnreachable', SILENT_SOURCE),
  ],
  [
    'after a failed scrub it is kept, and says so',
    seenIn('Retaining', kept({ state: 'Failed', message: 'leaf 3 differs' }, -DAY), { volume: moved() }),
    waiting('ScrubFailed', 'leaf 3 differs'),
  ],
  [
    'after a failed scrub a person who deletes the move accepts the target',
    seenIn('Retaining', { ...kept({ state: 'Failed', message: 'leaf 3 differs' }, -DAY), meta: dying }, { volume: moved() }),
    { step: 'release' },
  ],
  [
    'released, its removal is awaited',
    seenIn('Retaining', kept({ state: 'Passed' }, -DAY, { release: true }), { volume: moved() }),
    quiet(),
  ],
  [
    'released, it says that the source is silent',
    seenIn('Retaining', kept({ state: 'Passed' }, -DAY, { release: true }), { volume: moved(), source: gone }),
    waiting('SourceUnreachable', SILENT_SOURCE),
  ],
  ['removed, it is done', seenIn('Retaining', kept(null), { volume: aVolume({ copies: { [TARGET_COPY]: anEntry({ epoch: 2 }) } }) }), DONE],
  ['its volume gone, it is done', seenIn('Retaining', kept(null), { volume: null }), DONE],
  [
    'its volume being deleted, the removal of all copies is awaited',
    seenIn('Retaining', kept(null, -DAY), { volume: moved(undefined, undefined, { meta: dying }) }),
    quiet(),
  ],
  [
    'a later move that fills the kept copy anew ends it',
    seenIn('Retaining', kept(null), { volume: moved(undefined, anEntry({ role: 'incoming', epoch: 2 })) }),
    DONE,
  ],
  [
    'it is done too when it saw that later move only after its commit',
    seenIn('Retaining', kept({ state: 'Passed' }, -DAY), { volume: moved(undefined, anEntry({ role: 'active', epoch: 3 })) }),
    DONE,
  ],
  [
    'an agent that has not marked the kept copy yet does not end it',
    seenIn('Retaining', kept(null), { volume: moved(undefined, anEntry({ role: 'retired' })) }),
    quiet(DAY),
  ],
  [
    'when a still later move took the scrubbed side away, nothing is left to compare with',
    seenIn('Retaining', kept(null, -DAY), {
      volume: aVolume({
        spec: { node: 'node-3', copy: 'c3', epoch: 3, move: 'later' },
        copies: { [SOURCE_COPY]: anEntry({ role: 'stale' }), c3: anEntry({ node: 'node-3', epoch: 3 }) },
      }),
    }),
    { step: 'release' },
  ],
]);

const ENDING = { phase: 'Cancelled', reason: 'CancelAsked', message: 'cancelled by request' } as const;
const taken = (more: object = {}): MoveChange => ({ status: { ending: ENDING, ...more } });
const atSource = (epoch: number, source = anEntry({ epoch }), target?: typeof arriving): MoveSeen['volume'] =>
  aVolume({ spec: { epoch }, copies: { [SOURCE_COPY]: source, ...(target ? { [TARGET_COPY]: target } : {}) } });
const ENDED: MoveStep = { step: 'end', phase: 'Cancelled', why: { reason: 'CancelAsked', message: 'cancelled by request' } };
table('Cancelling', [
  [
    'a commit that came first wins',
    seenIn('Cancelling', taken({ fencingAt: at(0) }), { volume: moved(arriving) }),
    { step: 'phase', phase: 'Committed' },
  ],
  [
    'a fence is lifted first, by a swap that makes late commits fail',
    seenIn('Cancelling', taken({ fencingAt: at(0) }), { volume: atSource(1) }),
    { step: 'unfence' },
  ],
  [
    'then the source is awaited',
    seenIn('Cancelling', taken({ fencingAt: at(0) }), { volume: atSource(2, anEntry({ role: 'retired' })) }),
    quiet(),
  ],
  [
    'a silent source keeps it, and it says so',
    seenIn('Cancelling', taken({ fencingAt: at(0) }), { volume: atSource(2, anEntry({ role: 'retired' })), source: gone }),
    waiting('SourceUnreachable', SILENT_SOURCE),
  ],
  [
    'then the removal at the target is awaited',
    seenIn('Cancelling', taken({ fencingAt: at(0) }), { volume: atSource(2, anEntry({ epoch: 2 }), arriving) }),
    quiet(),
  ],
  ['then it ends', seenIn('Cancelling', taken({ fencingAt: at(0) }), { volume: atSource(2) }), ENDED],
  ['without a fence only the target is awaited', seenIn('Cancelling', taken(), { volume: atSource(1, undefined, arriving) }), quiet()],
  ['without a fence and without a target it ends', seenIn('Cancelling', taken(), { volume: atSource(1) }), ENDED],
  [
    'a silent target cleans up when it is back: nobody waits for it',
    seenIn('Cancelling', taken(), { volume: atSource(1, undefined, arriving), target: aNode('node-2', { ready: false }) }),
    ENDED,
  ],
  ['an untouched superseded copy stays', seenIn('Cancelling', taken(), { volume: atSource(1, undefined, LEFT_OVER) }), ENDED],
  [
    'its volume being deleted, the source is not given back',
    seenIn('Cancelling', taken({ fencingAt: at(0) }), {
      volume: aVolume({ meta: dying, copies: { [SOURCE_COPY]: anEntry({ role: 'retired' }) } }),
    }),
    ENDED,
  ],
  [
    'so it is when its records had been restored: the deletion is the decision',
    seenIn('Cancelling', taken({ fencingAt: at(0) }), {
      volume: aVolume({
        meta: { ...dying, annotations: { [RESTORED]: at(0) } },
        copies: { [SOURCE_COPY]: anEntry({ role: 'retired' }) },
      }),
    }),
    ENDED,
  ],
  ['its volume gone, it ends', seenIn('Cancelling', taken({ fencingAt: at(0) }), { volume: null }), ENDED],
  [
    'after a takeover the source is not given back',
    seenIn('Cancelling', taken({ fencingAt: at(0) }), {
      volume: aVolume({ spec: { node: 'node-3', copy: 'c3', epoch: 2, move: 'other' } }),
    }),
    ENDED,
  ],
  [
    'it ends when a person named its target as the volume',
    seenIn('Cancelling', taken(), { volume: aVolume({ spec: { node: 'node-2', copy: TARGET_COPY, epoch: 5 }, copies: both({}) }) }),
    ENDED,
  ],
  [
    'it ends as it was told to',
    seenIn('Cancelling', { status: { ending: { phase: 'Failed', reason: 'Stalled', message: 'too slow' } } }, { volume: atSource(1) }),
    { step: 'end', phase: 'Failed', why: { reason: 'Stalled', message: 'too slow' } },
  ],
]);

for (const phase of ['Done', 'Cancelled', 'Failed'] as const)
  table(phase, [
    ['nothing is left to do', seenIn(phase), quiet()],
    [
      'why it ended stays to be read',
      seenIn(phase, { status: { obstacle: { reason: 'Stalled', message: 'too slow' } } }),
      waiting('Stalled', 'too slow'),
    ],
    ['deleted, it is forgotten', seenIn(phase, { meta: dying }), { step: 'forget' }],
  ]);

test('every phase has its step, also without a status', () => {
  for (const phase of MOVE_PHASES) assert.ok(nextMoveStep(moveSeen(aMove(phase), { volume: null })).step);
  const { status: _, ...bare } = aMove('Pending');
  assert.equal(nextMoveStep(moveSeen(bare)).step, 'accept');
});

test('the rest is judged by the rate last seen, and by everything when changes are not known', () => {
  assert.equal(restMs({ dirty: '1000', rate: 1000 }), 1000);
  assert.equal(restMs({ allocated: '5000', rate: 1000 }), 5000);
  assert.equal(restMs({ dirty: '0', rate: 0 }), 0);
  assert.equal(restMs({}), 0);
});

test("the move's bandwidth goes before the volume's, and 0 means no limit", () => {
  const volume = aVolume({ spec: { transferBandwidth: '10M' } });
  assert.equal(bandwidthOf(aMove('Syncing', { spec: { bandwidth: '1M' } }), volume), 1_000_000);
  assert.equal(bandwidthOf(aMove('Syncing'), volume), 10_000_000);
  assert.equal(bandwidthOf(aMove('Syncing', { spec: { bandwidth: '0' } }), volume), null);
  assert.equal(bandwidthOf(aMove('Syncing'), null), null);
});

test('no move goes on where a disk is of a later epoch than the record: records were rolled back', () => {
  const volume = aVolume({ copies: both({}, anEntry({ node: 'node-2', role: 'active', epoch: 2 })) });
  const fencing = { fencingAt: at(-DAY), attempts: 0 };
  for (const phase of ['Pending', 'Reserving', 'Syncing', 'ReadyToCutOver', 'Fencing', 'FinalDelta', 'Verifying', 'Cancelling'] as const) {
    for (const spec of [{}, { cancel: true }]) {
      if (phase === 'Pending' && spec.cancel) continue;
      const step = nextMoveStep(seenIn(phase, { spec, status: fencing }, { volume }));
      assert.equal(step.step, 'wait', phase);
      assert.equal(step.step === 'wait' && step.why?.reason, 'RecordBehind', phase);
    }
  }
});
