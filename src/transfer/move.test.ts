// A volume's bytes from one node to another, round by round, over real TLS connections between two pools in memory.
import assert from 'node:assert/strict';
import test from 'node:test';
import { aRig, fill, MIB, same, SOURCE, TARGET } from '../testing/transfer-rig.ts';
import { readJournal } from './journal.ts';

const SIZE = 24 * MIB;

test('a first round copies what is allocated and both sides agree on the root', async (t) => {
  const rig = await aRig(t, { size: SIZE });
  await fill(rig.source, SOURCE.name, { offset: 0, length: 5 * MIB, seed: 1 });
  await fill(rig.source, SOURCE.name, { offset: 10 * MIB + 4096, length: 3 * MIB, seed: 2 });
  const report = await rig.pull({ round: 0 });
  assert.equal(await same(rig, SIZE), true);
  assert.equal(report.bytesSent, BigInt(8 * MIB));
  assert.equal(report.allocated, BigInt(8 * MIB));
  assert.equal(report.dirty, 0n);
  assert.match(report.root ?? '', /^[0-9a-f]{64}$/u);
  const journal = await readJournal(rig.target, TARGET.name);
  assert.equal(journal?.completeRound, 0);
  assert.equal(journal?.root, report.root);
});
