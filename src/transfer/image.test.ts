// The same moves between image pools on real filesystems: direct IO, reflinks, extents as the kernel tells them.
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { openPool } from '../pools/open.ts';
import type { Pool } from '../pools/pool.ts';
import { needsRoot, temporaryFilesystem, type Test } from '../testing/folders.ts';
import { aRig, fill, hello, MIB, same, SOURCE, TARGET } from '../testing/transfer-rig.ts';
import { readJournal } from './journal.ts';
import { scrub } from './scrub.ts';

const SIZE = 96 * MIB;

async function twoPools(t: Test, type: 'xfs' | 'ext4'): Promise<[Pool, Pool]> {
  const { path } = await temporaryFilesystem(t, { type, size: BigInt(1200 * MIB) });
  const pools: Pool[] = [];
  for (const name of ['source', 'target']) {
    await mkdir(join(path, name));
    pools.push(await openPool({ name, type: 'image', path: join(path, name) }, { uuid: null }));
  }
  return pools as [Pool, Pool];
}

for (const [type, points] of [
  ['xfs', true],
  ['ext4', false],
] as const)
  test(`a volume moves between image pools on ${type}, written to between the rounds`, { skip: needsRoot }, async (t) => {
    const [source, target] = await twoPools(t, type);
    const rig = await aRig(t, { size: SIZE, source, target });
    assert.equal(source.points, points);
    await fill(source, SOURCE.name, { offset: 0, length: 40 * MIB, seed: 1 });
    await fill(source, SOURCE.name, { offset: 60 * MIB + 4096, length: 8192, seed: 2 });
    const first = await rig.pull({ round: 0 });
    assert.equal(await same(rig, SIZE), true);
    assert.ok(first.bytesSent < BigInt(41 * MIB), `${first.bytesSent} bytes`);
    await fill(source, SOURCE.name, { offset: 70 * MIB, length: 4096, seed: 3 });
    const second = await rig.pull({ round: 1 });
    assert.ok(second.bytesSent < BigInt(2 * MIB), `${second.bytesSent} bytes`);
    await fill(source, SOURCE.name, { offset: 3 * MIB, length: 4096, seed: 4 });
    const held = await source.hold(SOURCE.name);
    rig.offer.fenced = true;
    const last = await rig.pull({ round: 2, final: true });
    assert.equal(await same(rig, SIZE), true);
    assert.equal(last.verified?.round, 2);
    assert.match(last.verified?.root ?? '', /^[0-9a-f]{64}$/u);
    assert.equal((await readJournal(target, TARGET.name))?.completeRound, 2);
    if (points) {
      await target.freeze(TARGET.name, 'commit');
      const report = await scrub(await rig.options({ hello: { ...hello, purpose: 'scrub' } }), 'commit');
      assert.equal(report.repaired + report.overwritten, 0);
    }
    await held.release();
  });
