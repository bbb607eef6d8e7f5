// What counts as copying, unfinished, fencing: a line a phase.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MOVE_PHASES, type MovePhase } from '../model/move.ts';
import { aMove } from '../testing/records.ts';
import { hasEnded, isCommitted, isCopying, isFencing, isUnfinished } from './observed.ts';

const phasesWhere = (holds: (move: ReturnType<typeof aMove>) => boolean): MovePhase[] => MOVE_PHASES.filter((phase) => holds(aMove(phase)));

test('each question about a move names its phases', () => {
  assert.deepEqual(phasesWhere(isCopying), ['Reserving', 'Syncing', 'Fencing', 'FinalDelta', 'Verifying']);
  assert.deepEqual(phasesWhere(isFencing), ['Fencing', 'FinalDelta', 'Verifying', 'Committed', 'Activating']);
  assert.deepEqual(phasesWhere(isCommitted), ['Committed', 'Activating', 'Published', 'Retaining', 'Done']);
  assert.deepEqual(phasesWhere(hasEnded), ['Done', 'Cancelled', 'Failed']);
  assert.deepEqual(
    phasesWhere((move) => !isUnfinished(move)),
    ['Published', 'Retaining', 'Done', 'Cancelled', 'Failed'],
  );
});

test('a move that waits for room at its target does not keep others from copying', () => {
  const obstacle = { reason: 'NoSpace', message: 'no room' };
  assert.equal(isCopying(aMove('Reserving', { status: { obstacle } })), false);
  assert.equal(isCopying(aMove('Syncing', { status: { obstacle } })), true);
});
