// Where only a person can know which copy to go on with, the obstacle names an order, and who follows it has the copy served.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Stored } from '../model/meta.ts';
import type { Volume } from '../model/volume.ts';
import { aVolume, copiesSeen, MOVE_UID, onDisk, SOURCE_COPY } from '../testing/records.ts';
import { nextCopySteps, type CopiesSeen } from './copies.ts';

const atSource = (copy: CopiesSeen['copies'][number], volume: Stored<Volume>): CopiesSeen =>
  copiesSeen('node-1', { copies: [copy], volume });

const STUCK: [reason: string, seen: CopiesSeen][] = [
  ['RecordBehind', atSource(onDisk({ epoch: 3 }), aVolume())],
  ['RecordBehind', atSource(onDisk({ epoch: 3, role: 'retired', moveUid: MOVE_UID }), aVolume())],
  ['FencedWithoutMove', atSource(onDisk({ role: 'retired', moveUid: MOVE_UID }), aVolume())],
  ['DiskBehind', atSource(onDisk(), aVolume({ spec: { epoch: 3, move: 'db-2' } }))],
];

for (const [reason, seen] of STUCK)
  test(`${reason} of a copy that is ${seen.copies[0]?.label.role} names an order, after which the copy is active`, () => {
    const [stuck] = nextCopySteps(seen);
    assert.ok(stuck?.step === 'blocked' && stuck.why.reason === reason);
    const patch = /kubectl patch volume db --type merge -p '(.*)'$/u.exec(stuck.why.message)?.[1] ?? 'null';
    const { move, ...spec } = (JSON.parse(patch) as { spec: { node: string; copy: string; epoch: number; move: null } }).spec;
    assert.equal(move, null);
    const volume = seen.volume ?? aVolume();
    const { move: _, ...before } = volume.spec;
    const named = { ...seen, volume: { ...volume, spec: { ...before, ...spec } } };
    const [step, ...more] = nextCopySteps(named);
    assert.deepEqual(more, []);
    assert.ok(step?.step === 'relabel' && step.copy === SOURCE_COPY && step.label.epoch === spec.epoch);
  });
