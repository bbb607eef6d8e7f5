import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isReason } from '../model/errors.ts';
import type { CopyLabel } from '../model/label.ts';
import { aLabel, VOLUME_UID } from '../testing/labels.ts';
import { POINT_TAG, readTags, tagOf, type Marked } from './lvm-tags.ts';

const NAME = 'copy';
const SIZE = 4_194_304n;
const label = aLabel({ size: String(SIZE) });

const EVERY_FIELD: Required<CopyLabel> = {
  ...label,
  role: 'retired',
  epoch: 12,
  formatted: true,
  cloned: true,
  arrivedBy: VOLUME_UID,
  moveUid: VOLUME_UID,
};

const whole: readonly [string, Marked][] = [
  ['a label', { state: 'ready', label }],
  ['every field of a label', { state: 'ready', label: EVERY_FIELD }],
  ['what is being removed, and how', { state: 'removing', label, wipe: 'zero' }],
  ['what is growing, and from where', { state: 'growing', label, from: '4096' }],
];
for (const [about, marked] of whole)
  test(`${about} comes back from its tag as it was`, () => {
    assert.deepEqual(readTags(['backup', tagOf(marked), POINT_TAG], NAME, SIZE), marked);
  });

test('the size is that of the LV, whatever the label said', () => {
  assert.equal(readTags([tagOf({ state: 'ready', label: { ...label, size: '1' } })], NAME, SIZE)?.label.size, String(SIZE));
});

test('a tag has only what LVM takes, also for names that have more', () => {
  assert.match(tagOf({ state: 'ready', label: { ...label, volume: 'ü, %@~ (x)*' } }), /^[A-Za-z0-9_+.\-/=!:&#]+$/u);
  assert.ok(
    tagOf({ state: 'ready', label: { ...label, volume: `${'a'.repeat(250)}.b`, arrivedBy: VOLUME_UID, moveUid: VOLUME_UID } }).length <=
      1024,
  );
});

test('tags of others are no label', () => {
  assert.equal(readTags([], NAME, SIZE), null);
  assert.equal(readTags(['backup', 'flock', POINT_TAG], NAME, SIZE), null);
});

const tag = tagOf({ state: 'ready', label });
for (const [about, tags] of [
  ['two labels', [tag, tag.replace('epoch=1', 'epoch=2')]],
  ['a field that is missing', [tag.replace(/&role=[a-z]+/u, '')]],
  ['a field that is wrong', [tag.replace('epoch=1', 'epoch=x')]],
  ['a truth that is none', [tag.replace('formatted=false', 'formatted=maybe')]],
  ['a state that is not known', [tag.replace('state=ready', 'state=odd')]],
  ['what cannot be decoded', [tag.replace('epoch=1', 'epoch=+zz')]],
] as const)
  test(`${about} is Corrupt, and the copy is named`, () => {
    assert.throws(
      () => readTags(tags, NAME, SIZE),
      (error: Error) => isReason(error, 'Corrupt') && /of copy copy cannot be read/u.test(error.message),
    );
  });
