// After a directory has moved: what both sides agreed on against what the source kept, however often it is asked.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { needsRoot } from '../../testing/folders.ts';
import { hello, TARGET } from '../../testing/transfer-rig.ts';
import { aTreeRig, fence, type TreeRig } from '../../testing/trees.ts';
import type { Test } from '../../testing/folders.ts';
import { dropJournal } from '../journal.ts';
import type { ScrubReport } from '../transfer.ts';
import { scrubTree } from './scrub.ts';

async function moved(t: Test): Promise<TreeRig> {
  const rig = await aTreeRig(t);
  mkdirSync(join(rig.from, 'a'));
  for (let index = 0; index < 5; index += 1) writeFileSync(join(rig.from, `a/file-${index}`), `content ${index}`);
  fence(rig);
  await rig.pull({ round: 0, final: true });
  return rig;
}

const scrubbed = async (rig: TreeRig): Promise<ScrubReport> => scrubTree(await rig.options({ hello: { ...hello, purpose: 'scrub' } }));

test('a scrub of which nobody heard is repeated, and finds what the first one found', { skip: needsRoot }, async (t) => {
  const rig = await moved(t);
  const first = await scrubbed(rig);
  assert.deepEqual([first.leaves, first.rotten, first.unproven], [5, 0, 0]);
  assert.deepEqual(await scrubbed(rig), first);
});

test('what rotted at the source is told each time, until the journal is dropped', { skip: needsRoot }, async (t) => {
  const rig = await moved(t);
  writeFileSync(join(rig.from, 'a/file-3'), 'rotten');
  for (let times = 0; times < 2; times += 1) {
    const { leaves, rotten } = await scrubbed(rig);
    assert.deepEqual([leaves, rotten], [5, 1]);
  }
  await dropJournal(rig.target, TARGET.name);
  assert.equal(existsSync(join(rig.target.journals, `${TARGET.name}.committed`)), false);
});
