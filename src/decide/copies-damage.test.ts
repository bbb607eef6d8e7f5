// What an agent does about a copy that is damaged: nothing but say so, whatever records and labels ask; and what ends it all the same.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MOVE_PHASES, type MovePhase } from '../model/move.ts';
import { COPY_ROLES } from '../model/volume.ts';
import { aMove, anEntry, aVolume, copiesSeen, dying, MOVE_UID, onDisk, SOURCE_COPY, TARGET_COPY } from '../testing/records.ts';
import { nextCopySteps, type CopiesSeen, type CopyOnDisk, type CopyStep } from './copies.ts';
import { whyNotPublish } from './publishing.ts';

const damage = 'the image is gone';
const told = (copy: string): CopyStep => ({ step: 'blocked', copy, why: { reason: 'CopyDamaged', message: damage } });
const remove = (copy: string): CopyStep => ({ step: 'remove', copy });

const entries = { [SOURCE_COPY]: anEntry(), [TARGET_COPY]: anEntry({ node: 'node-2', role: 'incoming' }) };
const atSource = (copy: CopyOnDisk, change: Partial<CopiesSeen> = {}): CopiesSeen => copiesSeen('node-1', { copies: [copy], ...change });
const atTarget = (copy: CopyOnDisk, change: Partial<CopiesSeen> = {}): CopiesSeen =>
  copiesSeen('node-2', { copies: [copy], volume: aVolume({ copies: entries }), ...change });
const incoming = (): CopyOnDisk => onDisk({ copy: TARGET_COPY, role: 'incoming', moveUid: MOVE_UID }, { damage });
/** The same copy when its label cannot be read. */
const unlabelled = ({ copies, ...seen }: CopiesSeen): CopiesSeen => ({
  ...seen,
  copies: [],
  unlabelled: copies.map(({ id, published }) => ({ id, published, damage })),
});

const cases: [sentence: string, seen: CopiesSeen, steps: CopyStep[]][] = [
  ['it is told of', atSource(onDisk({}, { damage })), [told(SOURCE_COPY)]],
  ['it is not grown', atSource(onDisk({}, { damage }), { volume: aVolume({ spec: { size: '2Gi' } }) }), [told(SOURCE_COPY)]],
  ['it does not follow the epoch', atSource(onDisk({}, { damage }), { volume: aVolume({ spec: { epoch: 2 } }) }), [told(SOURCE_COPY)]],
  ['it is not fenced', atSource(onDisk({}, { damage }), { moves: [aMove('Fencing')] }), [told(SOURCE_COPY)]],
  ['nothing is pulled into it', atTarget(incoming(), { moves: [aMove('Syncing', { status: { round: 1 } })] }), [told(TARGET_COPY)]],
  ['its points stay', atSource(onDisk({}, { damage, points: [`r0-${MOVE_UID.slice(0, 8)}`] })), [told(SOURCE_COPY)]],
  ['without its move it stays', atTarget(incoming()), [told(TARGET_COPY)]],
  ['of a move that is taken back the target goes', atTarget(incoming(), { moves: [aMove('Cancelling')] }), [remove(TARGET_COPY)]],
  [
    'but not while a late commit could name it',
    atTarget(incoming(), { moves: [aMove('Cancelling', { status: { epoch: 1, fencingAt: '2026-01-01T12:00:00Z' } })] }),
    [told(TARGET_COPY)],
  ],
  [
    'what is left of it goes with its volume',
    atSource(onDisk({}, { damage }), { volume: aVolume({ meta: dying }) }),
    [remove(SOURCE_COPY)],
  ],
];
for (const [sentence, seen, steps] of cases) {
  test(`a damaged copy: ${sentence}`, () => assert.deepEqual(nextCopySteps(seen), steps));
  test(`a copy without a readable label: ${sentence}`, () => assert.deepEqual(nextCopySteps(unlabelled(seen)), steps));
}

test('a damaged copy in use goes with its volume once it is unmounted', () => {
  const seen = atSource(onDisk({}, { damage, published: ['/srv/db'] }), { volume: aVolume({ meta: dying }) });
  for (const each of [seen, unlabelled(seen)]) {
    const [step, ...more] = nextCopySteps(each);
    assert.deepEqual([step?.step === 'blocked' && step.why.reason, more], ['InUse', []]);
  }
});

test('a label that is ahead of the record keeps a damaged copy from going with its volume', () => {
  const [step] = nextCopySteps(atSource(onDisk({ epoch: 3 }, { damage }), { volume: aVolume({ meta: dying }) }));
  assert.equal(step?.step === 'blocked' && step.why.reason, 'RecordBehind');
});

test('an unreadable label of a copy that the record does not place here is nobody’s business', () => {
  const seen = copiesSeen('node-3', { unlabelled: [{ id: SOURCE_COPY, published: [], damage }], volume: aVolume({ meta: dying }) });
  assert.deepEqual(nextCopySteps(seen), []);
});

test('whatever records and label say, a damaged copy is neither made, labelled, filled, served nor removed while its volume is wanted', () => {
  const places = ['node-1', 'node-2'].flatMap((node) => [SOURCE_COPY, TARGET_COPY].map((named) => ({ node, named })));
  for (const place of places)
    for (const role of COPY_ROLES) for (const phase of [null, ...MOVE_PHASES]) checkAlone({ ...place, role, phase });
});

function checkAlone(of: { node: string; named: string; role: (typeof COPY_ROLES)[number]; phase: MovePhase | null }): void {
  const { node, named, role, phase } = of;
  const id = node === 'node-1' ? SOURCE_COPY : TARGET_COPY;
  const spec = { epoch: 2, copy: named, node: named === SOURCE_COPY ? 'node-1' : 'node-2', size: '2Gi' };
  const volume = aVolume({ spec, copies: { [id]: anEntry({ node, role, epoch: 2 }) } });
  const moves = phase === null ? [] : [aMove(phase, { status: { epoch: 2, release: true } })];
  for (const epoch of [1, 2]) {
    const copy = onDisk({ copy: id, role, epoch, moveUid: MOVE_UID }, { damage });
    const seen = copiesSeen(node, { volume, moves, copies: [copy] });
    const isTakenBack = role === 'incoming' && phase === 'Cancelling' && node === 'node-2' && named === SOURCE_COPY;
    for (const each of [seen, unlabelled(seen)])
      assert.deepEqual(nextCopySteps(each), [isTakenBack ? remove(id) : told(id)], JSON.stringify({ ...of, epoch }));
    assert.notEqual(whyNotPublish({ node, volume, moves, copy, leaseFresh: true }), null);
  }
}

test('a damaged copy is not served, and the reason is its damage', () => {
  const asked = { node: 'node-1', volume: aVolume(), moves: [], copy: onDisk({}, { damage }), leaseFresh: true };
  assert.deepEqual(whyNotPublish(asked), { reason: 'CopyDamaged', message: damage });
});
