// After a move: the target's bytes as of the commit against what the source kept.
import assert from 'node:assert/strict';
import test from 'node:test';
import { isReason } from '../model/errors.ts';
import { aRig, contentOf, fill, hello, MIB, same, SOURCE, TARGET, type Rig } from '../testing/transfer-rig.ts';
import type { Test } from '../testing/folders.ts';
import { dropJournal } from './journal.ts';
import { scrub } from './scrub.ts';
import type { ScrubReport } from './transfer.ts';

const SIZE = 16 * MIB;
const POINT = 'commit';

async function moved(t: Test, damage: (rig: Rig) => Promise<void> = async () => {}): Promise<Rig> {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.source, SOURCE.name, { offset: 0, length: SIZE - 4 * MIB, seed: 1 });
  rig.offer.fenced = true;
  await rig.pull({ round: 0, final: true });
  await damage(rig);
  await rig.target.freeze(TARGET.name, POINT);
  return rig;
}

const scrubbed = async (rig: Rig): Promise<ScrubReport> => scrub(await rig.options({ hello: { ...hello, purpose: 'scrub' } }), POINT);

test('a move that went well passes its scrub', async (t) => {
  const rig = await moved(t);
  const { root, ...counts } = await scrubbed(rig);
  assert.deepEqual(counts, { leaves: 16, repaired: 0, overwritten: 0, rotten: 0, unproven: 0 });
  assert.match(root, /^[0-9a-f]{64}$/u);
});

test('what the application wrote since the commit is none of the scrub’s business', async (t) => {
  const rig = await moved(t);
  await fill(rig.target, TARGET.name, { offset: 3 * MIB, length: MIB, seed: 44 });
  assert.equal((await scrubbed(rig)).repaired, 0);
  const [kept, live] = [await contentOf(rig.source, SOURCE.name, SIZE), await contentOf(rig.target, TARGET.name, SIZE)];
  assert.equal(live.equals(kept), false);
});

test('what was damaged before the commit is written anew from what the source kept', async (t) => {
  const rig = await moved(t, (damaged) => fill(damaged.target, TARGET.name, { offset: 5 * MIB + 8192, length: 4096, seed: 13 }));
  const report = await scrubbed(rig);
  assert.deepEqual([report.repaired, report.overwritten], [1, 0]);
  assert.equal(await same(rig, SIZE), true);
});

test('what was damaged and overwritten since is left to the application', async (t) => {
  const rig = await moved(t, async (damaged) => {
    await fill(damaged.target, TARGET.name, { offset: 5 * MIB, length: 8192, seed: 13 });
    await fill(damaged.target, TARGET.name, { offset: 9 * MIB, length: 4096, seed: 13 });
  });
  await fill(rig.target, TARGET.name, { offset: 5 * MIB, length: 4096, seed: 77 });
  await fill(rig.target, TARGET.name, { offset: 9 * MIB, length: 4096, seed: 78 });
  const written = (await contentOf(rig.target, TARGET.name, SIZE)).subarray(5 * MIB, 5 * MIB + 4096);
  const report = await scrubbed(rig);
  assert.deepEqual([report.repaired, report.overwritten], [1, 1]);
  const [kept, live] = [await contentOf(rig.source, SOURCE.name, SIZE), await contentOf(rig.target, TARGET.name, SIZE)];
  assert.equal(live.subarray(5 * MIB, 5 * MIB + 4096).equals(written), true);
  assert.equal(live.subarray(5 * MIB + 4096, 5 * MIB + 8192).equals(kept.subarray(5 * MIB + 4096, 5 * MIB + 8192)), true);
});

test('what rotted at the source after the commit does not overwrite what is right at the target', async (t) => {
  const rig = await moved(t);
  const right = await contentOf(rig.target, TARGET.name, SIZE);
  await fill(rig.source, SOURCE.name, { offset: 5 * MIB, length: 4096, seed: 66 });
  const { repaired, rotten, unproven } = await scrubbed(rig);
  assert.deepEqual({ repaired, rotten, unproven }, { repaired: 0, rotten: 1, unproven: 0 });
  assert.equal((await contentOf(rig.target, TARGET.name, SIZE)).equals(right), true);
});

test('a leaf of which nothing proves what was committed is left as it is on both sides, and counted', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.source, SOURCE.name, { offset: 0, length: SIZE, seed: 1 });
  await rig.pull({ round: 0, final: false });
  await fill(rig.source, SOURCE.name, { offset: 7 * MIB, length: 4096, seed: 2 });
  rig.offer.fenced = true;
  await rig.pull({ round: 1, final: true });
  await rig.target.freeze(TARGET.name, POINT);
  const right = await contentOf(rig.target, TARGET.name, SIZE);
  // Of leaf 7 only the delta's 4096 bytes were proven; leaf 3 is as both agreed in round 0.
  await fill(rig.source, SOURCE.name, { offset: 7 * MIB + 65536, length: 4096, seed: 66 });
  await fill(rig.source, SOURCE.name, { offset: 3 * MIB, length: 4096, seed: 66 });
  const { repaired, rotten, unproven } = await scrubbed(rig);
  assert.deepEqual({ repaired, rotten, unproven }, { repaired: 0, rotten: 1, unproven: 1 });
  await dropJournal(rig.target, TARGET.name);
  assert.equal((await scrubbed(rig)).unproven, 2);
  assert.equal((await contentOf(rig.target, TARGET.name, SIZE)).equals(right), true);
});

test('a damaged volume that is in use is reported and not written', async (t) => {
  const rig = await moved(t, (damaged) => fill(damaged.target, TARGET.name, { offset: 0, length: 4096, seed: 13 }));
  await rig.target.attach(TARGET.name);
  await assert.rejects(scrubbed(rig), (error) => isReason(error, 'InUse') && /1 leaves differ/u.test(error.message));
  await rig.target.detach(TARGET.name);
  assert.equal((await scrubbed(rig)).repaired, 1);
});

test('a source that does not hold its copy still is not scrubbed against', async (t) => {
  const rig = await moved(t);
  rig.offer.fenced = false;
  await assert.rejects(scrubbed(rig), (error) => isReason(error, 'Conflict'));
});
