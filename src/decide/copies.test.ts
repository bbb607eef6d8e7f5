// What an agent does next about its copies: a line a case. Then the rules, over all combinations of what disks and records can say.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { CopyLabel } from '../model/label.ts';
import type { Stored } from '../model/meta.ts';
import { MOVE_PHASES, type Move, type MovePhase } from '../model/move.ts';
import { commitPoint, roundPoint } from '../model/points.ts';
import { COPY_ROLES, type CopyStatus, type Volume } from '../model/volume.ts';
import { VOLUME_UID } from '../testing/labels.ts';
import {
  aMove,
  anEntry,
  aVolume,
  copiesSeen,
  dying,
  GIBI,
  MOVE_UID,
  onDisk,
  OTHER_UID,
  SOURCE_COPY,
  TARGET_COPY,
  type MoveChange,
} from '../testing/records.ts';
import { nextCopySteps, type CopiesSeen, type CopyOnDisk, type CopyStep } from './copies.ts';
import { whyNotPublish } from './publishing.ts';

type Case = [sentence: string, seen: CopiesSeen, steps: CopyStep[]];

const table = (about: string, cases: Case[]): void => {
  for (const [sentence, seen, steps] of cases) test(`${about}: ${sentence}`, () => assert.deepEqual(nextCopySteps(seen), steps));
};

const blocked = (copy: string, reason: string, message: string): CopyStep => ({ step: 'blocked', copy, why: { reason, message } });
const remove = (copy: string): CopyStep => ({ step: 'remove', copy });

/** Its node had no room: no node is named until that node says what it made. */
const withdrawn = (copies: { [copy: string]: CopyStatus }): Stored<Volume> =>
  aVolume({ spec: { node: undefined, copy: undefined, epoch: 2 } as object, copies });

const arriving = anEntry({ node: 'node-2', role: 'incoming' });
/** Before the commit, the target's copy ordered or being filled. */
const moving = (change: Parameters<typeof aVolume>[0] = {}): Stored<Volume> =>
  aVolume({ copies: { [SOURCE_COPY]: anEntry(), [TARGET_COPY]: arriving }, ...change });
const ordered = (): Stored<Volume> =>
  moving({ copies: { [SOURCE_COPY]: anEntry(), [TARGET_COPY]: { node: 'node-2', pool: 'local', role: 'ordered' } } });
const committed = (change: Parameters<typeof aVolume>[0] = {}): Stored<Volume> =>
  moving({ ...change, spec: { node: 'node-2', copy: TARGET_COPY, epoch: 2, move: 'db-move' } });
const atSource = (copy: CopyOnDisk, change: Partial<CopiesSeen> = {}): CopiesSeen => copiesSeen('node-1', { copies: [copy], ...change });
const atTarget = (copy: CopyOnDisk | null, change: Partial<CopiesSeen> = {}): CopiesSeen =>
  copiesSeen('node-2', { copies: copy ? [copy] : [], volume: moving(), ...change });
const incoming = (label: Partial<CopyLabel> = {}, change: Partial<CopyOnDisk> = {}): CopyOnDisk =>
  onDisk({ copy: TARGET_COPY, role: 'incoming', moveUid: MOVE_UID, ...label }, change);
const during = (phase: MovePhase, change: MoveChange = {}): { moves: Stored<Move>[] } => ({ moves: [aMove(phase, change)] });
const fenced = { epoch: 1, fencingAt: '2026-01-01T12:00:00Z' };

const MISSING = blocked(
  SOURCE_COPY,
  'CopyMissing',
  'the record says that this copy was made here, but the pool does not have it; it is not made again. Bring its disk back, or delete the volume',
);

table('recorded, not on the disk', [
  [
    'what was ordered is made',
    copiesSeen('node-1', { volume: aVolume({ copies: { [SOURCE_COPY]: { node: 'node-1', pool: 'local', role: 'ordered' } } }) }),
    [{ step: 'create', copy: SOURCE_COPY, pool: 'local', epoch: 1, size: BigInt(GIBI), role: 'active' }],
  ],
  ['what was made once is never made again', copiesSeen('node-1'), [MISSING]],
  ['a pool that cannot be read proves nothing', copiesSeen('node-1', { pools: new Set() }), []],
  ["another node's copy is not ours", copiesSeen('node-3'), []],
  [
    'of a volume being deleted the entry goes',
    copiesSeen('node-1', { volume: aVolume({ meta: dying }) }),
    [{ step: 'dropEntry', copy: SOURCE_COPY }],
  ],
  [
    'the target of a move is made as large as the source really is',
    atTarget(null, { volume: ordered(), ...during('Reserving') }),
    [{ step: 'create', copy: TARGET_COPY, pool: 'local', epoch: 1, size: BigInt(GIBI), role: 'incoming', moveUid: MOVE_UID }],
  ],
  ['an order without a move is void', atTarget(null, { volume: ordered() }), [{ step: 'dropEntry', copy: TARGET_COPY }]],
  [
    'an order that was taken back because there was no room is void',
    copiesSeen('node-1', { volume: withdrawn({ [SOURCE_COPY]: { node: 'node-1', pool: 'local', role: 'ordered' } }) }),
    [{ step: 'dropEntry', copy: SOURCE_COPY }],
  ],
  [
    'one that was made all the same stays, and the controller hears of it',
    copiesSeen('node-1', { volume: withdrawn({ [SOURCE_COPY]: anEntry() }), copies: [onDisk()] }),
    [],
  ],
  [
    'an order is void once the move is taken back',
    atTarget(null, { volume: ordered(), ...during('Cancelling') }),
    [{ step: 'dropEntry', copy: TARGET_COPY }],
  ],
  [
    'a superseded copy that was removed before its move began is ordered anew',
    atTarget(null, {
      volume: moving({ copies: { [SOURCE_COPY]: anEntry(), [TARGET_COPY]: anEntry({ node: 'node-2', role: 'stale', epoch: 0 }) } }),
      ...during('Reserving', { status: { reused: true } }),
    }),
    [{ step: 'dropEntry', copy: TARGET_COPY }],
  ],
  ['a target that was lost while it was filled is not made again', atTarget(null, during('Syncing')), [{ ...MISSING, copy: TARGET_COPY }]],
  ['a lost target goes with the cancel', atTarget(null, during('Cancelling')), [{ step: 'dropEntry', copy: TARGET_COPY }]],
]);

table('without a record', [
  [
    'a copy is kept and told of',
    copiesSeen('node-1', { volume: null, copies: [onDisk({ copy: 'x1' })] }),
    [blocked('x1', 'Orphan', 'no Volume record speaks of this copy; it is kept. Remove it by hand when it is not needed')],
  ],
]);

const fence: CopyStep = { step: 'fence', copy: SOURCE_COPY, move: 'db-move', epoch: 1 };
const naming = (copy: string, epoch: number, node = 'node-1'): string =>
  `kubectl patch volume db --type merge -p '{"spec":{"node":"${node}","copy":"${copy}","epoch":${epoch},"move":null}}'`;

const WITHOUT_MOVE = blocked(
  SOURCE_COPY,
  'FencedWithoutMove',
  `the copy is fenced for a move that is not under way. If no other node has a newer copy of the volume, give this one back by: ${naming(SOURCE_COPY, 2)}`,
);
const FENCED = { outgoing: { fencedEpoch: 1 } };
const retiredCopy = (held: boolean): CopyOnDisk => onDisk({ role: 'retired', moveUid: MOVE_UID }, { held });
table('the copy that the record names', [
  ['active and at peace there is nothing to do', atSource(onDisk()), []],
  [
    'active at an earlier epoch it follows the record',
    atSource(onDisk(), { volume: aVolume({ spec: { epoch: 2 } }) }),
    [{ step: 'relabel', copy: SOURCE_COPY, label: { epoch: 2 } }],
  ],
  [
    'ahead of the record nothing is activated',
    atSource(onDisk({ epoch: 3 })),
    [
      blocked(
        SOURCE_COPY,
        'RecordBehind',
        `the copy's own label says epoch 3, the record says 1: records were rolled back, and nothing is activated. With all agents running, compare the copies (flockctl volume show db); if this is the newest, go on with it by: ${naming(SOURCE_COPY, 4)}`,
      ),
    ],
  ],
  [
    'a larger volume is grown',
    atSource(onDisk(), { volume: aVolume({ spec: { size: '2Gi' } }) }),
    [{ step: 'grow', copy: SOURCE_COPY, size: 2n ** 31n }],
  ],
  [
    'it is not grown during a move, and says so',
    atSource(onDisk(), { volume: moving({ spec: { size: '2Gi' } }), ...during('Syncing') }),
    [
      blocked(
        SOURCE_COPY,
        'Moving',
        'volume db grows to 2Gi once move db-move is over, on node node-2; to grow it here, cancel the move: flockctl move cancel db-move',
      ),
    ],
  ],
  ['ordered to be fenced it is', atSource(onDisk(), { volume: moving(), ...during('Fencing', { status: fenced }) }), [fence]],
  [
    'a fence is not begun for a move that is asked to cancel',
    atSource(onDisk(), { volume: moving(), ...during('Fencing', { spec: { cancel: true } }) }),
    [],
  ],
  [
    'in use again it is not fenced: the controller takes the order back',
    atSource(onDisk({}, { published: ['/srv/db'] }), { volume: moving(), ...during('Fencing') }),
    [],
  ],
  [
    'given back, the old order is void',
    atSource(onDisk({ epoch: 2 }), { volume: moving({ spec: { epoch: 2 } }), ...during('Verifying', { status: fenced }) }),
    [],
  ],
  ['fenced and held it waits', atSource(retiredCopy(true), { volume: moving(), ...during('FinalDelta', { status: FENCED }) }), []],
  [
    'fenced, but not held after a restart, it is held again',
    atSource(retiredCopy(false), { volume: moving(), ...during('FinalDelta', { status: FENCED }) }),
    [fence],
  ],
  ['fenced, but not reported, it is reported', atSource(retiredCopy(true), { volume: moving(), ...during('Fencing') }), [fence]],
  ['fenced while the abort is being written it waits', atSource(retiredCopy(true), { volume: moving(), ...during('Cancelling') }), []],
  [
    'the abort gives it back',
    atSource(retiredCopy(true), { volume: moving({ spec: { epoch: 2 } }), ...during('Cancelling') }),
    [
      {
        step: 'relabel',
        copy: SOURCE_COPY,
        label: { role: 'active', epoch: 2 },
        report: { move: 'db-move', outgoing: { unfencedEpoch: 2 } },
      },
    ],
  ],
  [
    'active at an older epoch, and knowing nothing of the move that brought the volume here, it is not served: its disk was put back',
    atSource(onDisk(), { volume: aVolume({ spec: { epoch: 3, move: 'db-2' } }) }),
    [
      blocked(
        SOURCE_COPY,
        'DiskBehind',
        `the copy's own label says epoch 1 and does not know of the move that brought the volume here (epoch 3): the disk was put back to an older state. It is not served: bring the newer disk back; if this copy is the one to go on with, say so by: ${naming(SOURCE_COPY, 4)}`,
      ),
    ],
  ],
  [
    'active at an older epoch that a person raised, with no move named, it is given the new epoch',
    atSource(onDisk({ arrivedBy: OTHER_UID }), { volume: aVolume({ spec: { epoch: 3 } }) }),
    [{ step: 'relabel', copy: SOURCE_COPY, label: { epoch: 3 } }],
  ],
  [
    'active at an older epoch and brought here by that move, it is given the new epoch: a move from here was aborted',
    atSource(onDisk({ arrivedBy: OTHER_UID }), { volume: aVolume({ spec: { epoch: 3, move: 'db-2' } }) }),
    [{ step: 'relabel', copy: SOURCE_COPY, label: { epoch: 3 } }],
  ],
  ['a fence whose move is gone says the way out', atSource(retiredCopy(false)), [WITHOUT_MOVE]],
  [
    'so does one whose move never began by records that were rolled back',
    atSource(retiredCopy(false), { moves: [aMove('Pending')] }),
    [WITHOUT_MOVE],
  ],
  [
    'a fenced copy is not given back beside one that another node serves at that epoch: records were rolled back',
    atSource(retiredCopy(false), {
      volume: aVolume({
        spec: { epoch: 2 },
        copies: { [SOURCE_COPY]: anEntry({ role: 'retired' }), [TARGET_COPY]: anEntry({ node: 'node-2', role: 'active', epoch: 2 }) },
      }),
    }),
    [blocked(SOURCE_COPY, 'TwoActive', `copy ${TARGET_COPY} on node node-2 is active at epoch 2; this one is not given back beside it`)],
  ],
  [
    'a fence whose move is gone is lifted by a higher epoch',
    atSource(retiredCopy(false), { volume: aVolume({ spec: { epoch: 2 } }) }),
    [{ step: 'relabel', copy: SOURCE_COPY, label: { role: 'active', epoch: 2 } }],
  ],
  [
    'a superseded one is not served',
    atSource(onDisk({ role: 'stale', epoch: 1 })),
    [
      blocked(
        SOURCE_COPY,
        'RecordNamesOld',
        `the record names this copy, but its label says stale at epoch 1: a newer one was made after it. It is not served. No node that answers has that one. With all agents running, look for it (flockctl volume show db); if it is lost for good, go on with this older one, without what was written since, by: ${naming(SOURCE_COPY, 2)}`,
      ),
    ],
  ],
  [
    'a superseded one is not served when the record was at that epoch before',
    atSource(onDisk({ role: 'stale', epoch: 1 }), {
      volume: aVolume({
        copies: { [SOURCE_COPY]: anEntry({ role: 'stale' }), [TARGET_COPY]: anEntry({ node: 'node-2', role: 'active', epoch: 2 }) },
      }),
    }),
    [
      blocked(
        SOURCE_COPY,
        'RecordNamesOld',
        `the record names this copy, but its label says stale at epoch 1: a newer one was made after it. It is not served. Copy ${TARGET_COPY} on node node-2 is active: go on with it by: ${naming(TARGET_COPY, 3, 'node-2')}`,
      ),
    ],
  ],
  [
    'a superseded one is served again by the word of a person, whose newer one is lost',
    atSource(onDisk({ role: 'stale', epoch: 1 }), { volume: aVolume({ spec: { epoch: 2 } }) }),
    [{ step: 'relabel', copy: SOURCE_COPY, label: { role: 'active', epoch: 2 } }],
  ],
  [
    'but not beside the newer one',
    atSource(onDisk({ role: 'stale', epoch: 1 }), {
      volume: aVolume({
        spec: { epoch: 2 },
        copies: { [SOURCE_COPY]: anEntry({ role: 'stale' }), [TARGET_COPY]: anEntry({ node: 'node-2', role: 'active', epoch: 2 }) },
      }),
    }),
    [
      blocked(
        SOURCE_COPY,
        'RecordNamesOld',
        `the record names this copy, but its label says stale at epoch 1: a newer one was made after it. It is not served. Copy ${TARGET_COPY} on node node-2 is active: go on with it by: ${naming(TARGET_COPY, 3, 'node-2')}`,
      ),
    ],
  ],
  [
    'one that the record has on another node is left alone: two agents have one pool',
    atSource(onDisk({ role: 'incoming' }), { volume: aVolume({ copies: { [SOURCE_COPY]: anEntry({ node: 'node-3' }) } }) }),
    [
      blocked(
        SOURCE_COPY,
        'OtherNode',
        'the record has this copy on node node-3, and it lies in a pool of node node-1: two nodes have one pool, or its disk was moved here. It is neither served nor changed here',
      ),
    ],
  ],
  [
    'arrived, it is scrubbed',
    atTarget(onDisk({ copy: TARGET_COPY, epoch: 2, moveUid: MOVE_UID }), { volume: committed(), ...during('Retaining') }),
    [{ step: 'scrub', copy: TARGET_COPY, move: 'db-move' }],
  ],
  [
    'scrubbed once is enough',
    atTarget(onDisk({ copy: TARGET_COPY, epoch: 2 }), {
      volume: committed(),
      ...during('Retaining', { status: { incoming: { scrub: { state: 'Passed' } } } }),
    }),
    [],
  ],
]);

const proven = (epoch: number, moveUid = MOVE_UID): Partial<CopyOnDisk> => ({
  proof: { moveUid, verified: { round: 1, epoch, bytes: '0', frames: 0 } },
});
const NOT_VERIFIED = blocked(
  TARGET_COPY,
  'NotVerified',
  `the record names this copy, but its journal does not say that it was verified for this commit; it is not served. The copy that it was made from is whole: find it (flockctl volume show db) and go on with it by: ${naming('COPY', 3, 'NODE')}`,
);
for (const phase of ['Verifying', 'Committed', 'Activating', 'Cancelling'] as const)
  table(`committed, the move's record still ${phase}`, [
    [
      'the target activates on its own proof',
      atTarget(incoming({}, proven(1)), { volume: committed(), ...during(phase, { status: fenced }) }),
      [{ step: 'activate', copy: TARGET_COPY, move: 'db-move', epoch: 2 }],
    ],
    ['without a proof it is not served', atTarget(incoming(), { volume: committed(), ...during(phase) }), [NOT_VERIFIED]],
    ['the proof of another epoch is none', atTarget(incoming({}, proven(0)), { volume: committed(), ...during(phase) }), [NOT_VERIFIED]],
    [
      'the proof of another move is none',
      atTarget(incoming({}, proven(1, OTHER_UID)), { volume: committed(), ...during(phase) }),
      [NOT_VERIFIED],
    ],
    [
      'the source becomes stale',
      atSource(retiredCopy(true), { volume: committed(), ...during(phase) }),
      [{ step: 'relabel', copy: SOURCE_COPY, label: { role: 'stale' } }],
    ],
  ]);

const pull = (round: number, final = false, fresh = true): CopyStep => ({
  step: 'pull',
  copy: TARGET_COPY,
  move: 'db-move',
  round,
  final,
  fresh,
});
const reported = (round: number, incomingStatus: object = {}, more: object = {}): MoveChange => ({
  status: { round, incoming: incomingStatus, ...more },
});
const verified = { verified: { round: 2, epoch: 1, bytes: '0', frames: 0 } };
table('the copy being filled', [
  ['made, it is reported', atTarget(incoming(), during('Reserving')), [{ step: 'reserved', copy: TARGET_COPY, move: 'db-move' }]],
  ['reported, it waits', atTarget(incoming(), during('Reserving', { status: { incoming: { reserved: true } } })), []],
  ['the round is pulled', atTarget(incoming(), during('Syncing', reported(0))), [pull(0)]],
  [
    'a copy that was used before is not taken for empty',
    atTarget(incoming(), during('Syncing', reported(0, {}, { reused: true }))),
    [pull(0, false, false)],
  ],
  ['a complete round is not pulled again', atTarget(incoming(), during('Syncing', reported(0, { completeRound: 0 }))), []],
  ['idle rounds are pulled', atTarget(incoming(), during('ReadyToCutOver', reported(3, { completeRound: 2 }))), [pull(3)]],
  ['while the source is being fenced it waits', atTarget(incoming(), during('Fencing', reported(1, { completeRound: 1 }))), []],
  ['the last delta is pulled', atTarget(incoming(), during('FinalDelta', reported(2, { completeRound: 1 }))), [pull(2, true)]],
  [
    'the last delta is pulled until it is proven',
    atTarget(incoming(), during('Verifying', reported(2, { completeRound: 2 }))),
    [pull(2, true)],
  ],
  ['proven, it waits for the commit', atTarget(incoming(), during('Verifying', reported(2, { completeRound: 2, ...verified }))), []],
  [
    'a source that was grown meanwhile is followed first',
    atTarget(incoming(), {
      volume: moving({ copies: { [SOURCE_COPY]: anEntry({ size: String(2n ** 31n) }), [TARGET_COPY]: arriving } }),
      ...during('Syncing', reported(0)),
    }),
    [{ step: 'grow', copy: TARGET_COPY, size: 2n ** 31n }],
  ],
  ['taken back, it is removed', atTarget(incoming(), during('Cancelling')), [remove(TARGET_COPY)]],
  [
    'taken back after the fence, it stays while a late commit could still name it',
    atTarget(incoming(), during('Cancelling', { status: fenced })),
    [],
  ],
  [
    'taken back after the fence, it goes when the swap makes late commits fail',
    atTarget(incoming(), { volume: moving({ spec: { epoch: 2 } }), ...during('Cancelling', { status: fenced }) }),
    [remove(TARGET_COPY)],
  ],
  ['when its move has ended it is removed', atTarget(incoming(), during('Cancelled')), [remove(TARGET_COPY)]],
  ['without a move it is removed', atTarget(incoming()), [remove(TARGET_COPY)]],
  [
    'a move of another volume of that name does not hold it',
    atTarget(incoming(), during('Syncing', { status: { volumeUid: OTHER_UID } })),
    [remove(TARGET_COPY)],
  ],
]);

const old = (label: Partial<CopyLabel> = {}): CopyOnDisk => onDisk({ role: 'stale', moveUid: MOVE_UID, ...label });
const again = aMove('Reserving', {
  meta: { name: 'back', uid: OTHER_UID },
  status: { epoch: 2, source: { node: 'node-2', copy: TARGET_COPY }, target: { node: 'node-1', copy: SOURCE_COPY }, reused: true },
});
table('a superseded copy', [
  ['is kept', atSource(old(), { volume: committed(), ...during('Retaining') }), []],
  [
    'is removed when its move lets it go',
    atSource(old(), { volume: committed(), ...during('Retaining', { status: { release: true } }) }),
    [remove(SOURCE_COPY)],
  ],
  [
    'is not removed because the move that once brought it here let its own source go',
    atSource(old(), {
      volume: committed(),
      ...during('Retaining', {
        status: { release: true, source: { node: 'node-9', copy: 'z9' }, target: { node: 'node-1', copy: SOURCE_COPY } },
      }),
    }),
    [],
  ],
  [
    'becomes the target of a move back',
    atSource(old(), { volume: committed(), moves: [again] }),
    [{ step: 'relabel', copy: SOURCE_COPY, label: { role: 'incoming', epoch: 2, moveUid: OTHER_UID } }],
  ],
  [
    'is wanted by a move back before it is removed',
    atSource(old(), { volume: committed(), moves: [aMove('Retaining', { status: { release: true } }), again] }),
    [{ step: 'relabel', copy: SOURCE_COPY, label: { role: 'incoming', epoch: 2, moveUid: OTHER_UID } }],
  ],
  [
    'is not filled unless it says incoming',
    atSource(old(), { volume: committed(), moves: [{ ...again, status: { ...again.status, phase: 'Syncing' } }] }),
    [blocked(SOURCE_COPY, 'NotIncoming', 'move back is to fill this copy, but its label says stale')],
  ],
  [
    'that is still in use says what is lost, and stays',
    atSource(onDisk({}, { published: ['/srv/db'] }), { volume: committed() }),
    [blocked(SOURCE_COPY, 'Superseded', 'the volume is served by node node-2 now; what is written here at /srv/db is lost. Unmount it')],
  ],
  [
    'that claims the same epoch is not served',
    atSource(onDisk({ epoch: 2 }), { volume: committed() }),
    [blocked(SOURCE_COPY, 'TwoActive', 'the record names copy b2 on node node-2 at the same epoch 2; this one is not served')],
  ],
  ['a standby is left alone', atSource(onDisk({ role: 'standby' }), { volume: committed() }), []],
]);

const deleted = (change: Parameters<typeof aVolume>[0] = {}): Stored<Volume> => moving({ meta: dying, ...change });
table('deleted', [
  [
    'a move that was never accepted is not waited for',
    atSource(onDisk(), { volume: aVolume({ meta: dying }), moves: [aMove('Pending')] }),
    [remove(SOURCE_COPY)],
  ],
  ['an idle volume goes', atSource(onDisk(), { volume: aVolume({ meta: dying }) }), [remove(SOURCE_COPY)]],
  [
    'a volume in use stays until it is unmounted',
    atSource(onDisk({}, { published: ['/srv/db'] }), { volume: aVolume({ meta: dying }) }),
    [blocked(SOURCE_COPY, 'InUse', 'the volume is deleted once it is unmounted from /srv/db')],
  ],
  ['superseded copies go too', atSource(old(), { volume: committed({ meta: dying }), ...during('Retaining') }), [remove(SOURCE_COPY)]],
]);
for (const phase of ['Reserving', 'Syncing', 'ReadyToCutOver', 'Fencing', 'FinalDelta', 'Verifying'] as const)
  table(`deleted during ${phase}`, [
    ['the source waits for the move to be taken back', atSource(onDisk(), { volume: deleted(), ...during(phase) }), []],
    ['the target waits for the move to be taken back', atTarget(incoming(), { volume: deleted(), ...during(phase) }), []],
  ]);
table('deleted during Cancelling', [
  [
    'the target goes first',
    atTarget(incoming(), { volume: deleted(), ...during('Cancelling', { status: fenced }) }),
    [remove(TARGET_COPY)],
  ],
  ['the source waits for it', atSource(retiredCopy(true), { volume: deleted(), ...during('Cancelling', { status: fenced }) }), []],
]);
for (const phase of ['Committed', 'Activating'] as const)
  table(`deleted during ${phase}`, [
    [
      'the target goes first',
      atTarget(incoming({}, proven(1)), { volume: committed({ meta: dying }), ...during(phase) }),
      [remove(TARGET_COPY)],
    ],
    ['the source waits for it', atSource(retiredCopy(true), { volume: committed({ meta: dying }), ...during(phase) }), []],
  ]);
for (const phase of ['Published', 'Retaining', 'Done', 'Cancelled', 'Failed'] as const)
  table(`deleted after ${phase}`, [
    ['the source goes', atSource(old(), { volume: committed({ meta: dying }), ...during(phase) }), [remove(SOURCE_COPY)]],
    [
      'the target goes',
      atTarget(onDisk({ copy: TARGET_COPY, epoch: 2 }), { volume: committed({ meta: dying }), ...during(phase) }),
      [remove(TARGET_COPY)],
    ],
  ]);

test('points in time are released when their move does not need them any more, and only ours', () => {
  const points = [roundPoint(MOVE_UID, 0), commitPoint(MOVE_UID), roundPoint(OTHER_UID, 1), 'somebodyelses'];
  const left = (...moves: Stored<Move>[]): string[] =>
    nextCopySteps(atSource(onDisk({}, { points }), { moves })).flatMap((step) => (step.step === 'releasePoint' ? [step.point] : []));
  const [round, commit, foreign] = points;
  assert.deepEqual(left(aMove('Syncing')), [foreign]);
  assert.deepEqual(left(aMove('Published')), [round, foreign]);
  assert.deepEqual(left(aMove('Retaining')), [round, foreign]);
  assert.deepEqual(left(aMove('Retaining', { status: { incoming: { scrub: { state: 'Passed' } } } })), [round, commit, foreign]);
  assert.deepEqual(left(aMove('Done')), [round, commit, foreign]);
  assert.deepEqual(left(), [round, commit, foreign]);
});

for (const phase of MOVE_PHASES.slice(0, MOVE_PHASES.indexOf('Committed')))
  test(`G-02: before the commit the target cannot be used, here in ${phase}`, () => {
    for (const role of COPY_ROLES)
      for (const epoch of [0, 1, 2]) {
        const copy = onDisk({ copy: TARGET_COPY, role, epoch });
        assert.notEqual(whyNotPublish({ node: 'node-2', volume: moving(), moves: [aMove(phase)], copy, leaseFresh: true }), null);
        for (const { step } of nextCopySteps(atTarget(copy, during(phase)))) assert.notEqual(step, 'activate');
      }
  });

// ---- the rules, over all combinations ------------------------------------------------------------------------------------------

interface Drawn {
  node: 'node-1' | 'node-2';
  named: 'node-1' | 'node-2';
  role: CopyLabel['role'];
  labelEpoch: number;
  phase: MovePhase;
  moveEpoch: number;
  fencing: boolean;
  proofEpoch: number | null;
  deleted: boolean;
  held: boolean;
  published: boolean;
}
const drawn: fc.Arbitrary<Drawn> = fc.record({
  node: fc.constantFrom('node-1', 'node-2'),
  named: fc.constantFrom('node-1', 'node-2'),
  role: fc.constantFrom(...COPY_ROLES),
  labelEpoch: fc.integer({ min: 1, max: 3 }),
  phase: fc.constantFrom(...MOVE_PHASES),
  moveEpoch: fc.integer({ min: 1, max: 3 }),
  fencing: fc.boolean(),
  proofEpoch: fc.option(fc.integer({ min: 1, max: 3 })),
  deleted: fc.boolean(),
  held: fc.boolean(),
  published: fc.boolean(),
});

/** The record is at epoch 2. */
function drawnSeen(draw: Drawn): { seen: CopiesSeen; copy: CopyOnDisk; volume: Stored<Volume> } {
  const volume = moving({
    ...(draw.deleted ? { meta: dying } : {}),
    spec: draw.named === 'node-1' ? { epoch: 2 } : { node: 'node-2', copy: TARGET_COPY, epoch: 2, move: 'db-move' },
  });
  const copy = onDisk(
    { copy: draw.node === 'node-1' ? SOURCE_COPY : TARGET_COPY, role: draw.role, epoch: draw.labelEpoch, moveUid: MOVE_UID },
    {
      held: draw.held,
      published: draw.published ? ['/srv/db'] : [],
      proof: draw.proofEpoch === null ? null : { moveUid: MOVE_UID, verified: { round: 1, epoch: draw.proofEpoch, bytes: '0', frames: 0 } },
    },
  );
  const { moves } = during(draw.phase, { status: { epoch: draw.moveEpoch, ...(draw.fencing ? { fencingAt: fenced.fencingAt } : {}) } });
  return { seen: copiesSeen(draw.node, { volume, moves, copies: [copy] }), copy, volume };
}

const makesActive = (step: CopyStep, copy: CopyOnDisk): boolean =>
  step.step === 'activate' || (step.step === 'relabel' && (step.label.role ?? copy.label.role) === 'active');

test('a copy becomes or stays active only where the record says, never ahead of it, and incoming ones only on their own proof', () => {
  fc.assert(
    fc.property(drawn, (draw) => {
      const { seen, copy } = drawnSeen(draw);
      for (const step of nextCopySteps(seen).filter((one) => makesActive(one, copy))) {
        assert.equal(draw.node, draw.named);
        assert.ok(draw.labelEpoch <= 2);
        // One that was superseded only by a person's word, which names no move.
        assert.ok(
          ['active', 'retired', 'incoming'].includes(draw.role) || (draw.role === 'stale' && draw.labelEpoch < 2 && draw.node === 'node-1'),
        );
        if (draw.role === 'incoming') assert.equal(draw.proofEpoch, 1);
        // A fence is lifted by a higher epoch only.
        if (draw.role === 'retired') assert.ok(draw.labelEpoch < 2);
        assert.equal(step.step === 'activate' ? step.epoch : step.step === 'relabel' && step.label.epoch, 2);
      }
    }),
    { numRuns: 3000 },
  );
});

test('of two nodes with any labels, at most one would serve', () => {
  fc.assert(
    fc.property(drawn, drawn, (one, other) => {
      const source = drawnSeen({ ...one, node: 'node-1' });
      const target = drawnSeen({ ...other, node: 'node-2', named: one.named });
      const serves = (node: string, copy: CopyOnDisk): boolean =>
        whyNotPublish({ node, volume: source.volume, moves: source.seen.moves, copy, leaseFresh: true }) === null;
      assert.ok(!(serves('node-1', source.copy) && serves('node-2', target.copy)));
    }),
    { numRuns: 3000 },
  );
});

/** Phases in which some controller, however late, could still carry out a commit that it saw coming. */
const COULD_COMMIT: readonly MovePhase[] = ['Fencing', 'FinalDelta', 'Verifying', 'Cancelling'];

test('rule 2: what the record names, or a late commit could name, is removed only with its volume', () => {
  fc.assert(
    fc.property(drawn, (draw) => {
      const { seen } = drawnSeen(draw);
      if (draw.deleted || !nextCopySteps(seen).some(({ step }) => step === 'remove')) return;
      assert.notEqual(draw.node, draw.named);
      const couldCommit = COULD_COMMIT.includes(draw.phase) && draw.fencing && draw.moveEpoch === 2;
      assert.ok(!(draw.role === 'incoming' && draw.node === 'node-2' && couldCommit));
    }),
    { numRuns: 3000 },
  );
});

test('what is in use is neither fenced nor removed', () => {
  fc.assert(
    fc.property(drawn, (draw) => {
      const { seen } = drawnSeen({ ...draw, published: true, role: 'active' });
      for (const { step } of nextCopySteps(seen)) assert.ok(!['fence', 'remove'].includes(step));
    }),
    { numRuns: 1000 },
  );
});

test('all volumes of one name keep to their own uid', () => {
  const steps = nextCopySteps(
    copiesSeen('node-1', { uid: OTHER_UID, volume: null, copies: [onDisk({ volumeUid: OTHER_UID, copy: 'x1' })] }),
  );
  assert.deepEqual(
    steps.map(({ step }) => step),
    ['blocked'],
  );
  assert.notEqual(OTHER_UID, VOLUME_UID);
});
