import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isReason } from '../model/errors.ts';
import { lvmReport, THICK, THIN } from '../testing/lvm-report.ts';
import { parseReport, reportArguments, type LogicalVolume } from './lvm-report.ts';

const data = () => parseReport(lvmReport(), 'data');
function volume(name: string): LogicalVolume {
  const found = data().volumes.find((each) => each.name === name);
  assert.ok(found, name);
  return found;
}

test('reads a volume group in bytes', () => {
  const { name, size, free, extent, missing, volumes } = data();
  assert.deepEqual([name, size, free, extent, missing], ['data', 4_290_772_992n, 3_036_676_096n, 4_194_304n, 0]);
  assert.equal(volumes.length, 8);
});

test('tells thick from thin, volumes from points, and what a point shows from how large its store is', () => {
  const thick = volume(THICK);
  assert.deepEqual([thick.layout, thick.pool, thick.tags], [['linear'], null, ['flock:1:copy&state=ready&version=1']]);
  const point = volume(`${THICK}.p1`);
  assert.deepEqual([point.origin, point.originSize, point.size, point.snapPercent], [THICK, 104_857_600n, 20_971_520n, 50.62]);
  const thin = volume(THIN);
  assert.deepEqual([thin.pool, thin.thinId, thin.dataPercent], ['pool0', 1, 30]);
  assert.deepEqual([volume(`${THIN}.p1`).thinId, volume(`${THIN}.p1`).dataPercent], [2, null]);
});

test('a point whose store overflowed is invalid, and nothing else is', () => {
  assert.deepEqual(
    data()
      .volumes.filter(({ invalid }) => invalid)
      .map(({ name }) => name),
    [`${THICK}.p2`],
  );
});

test('reads a thin pool with its blocks, its use, and whether it zeroes', () => {
  const pool = volume('pool0');
  assert.deepEqual(
    [pool.layout, pool.chunk, pool.zeroes, pool.discards, pool.dataPercent, pool.metadataPercent, pool.metadataSize],
    [['thin', 'pool'], 65_536n, true, 'passdown', 5.86, 11.52, 4_194_304n],
  );
});

test('asks for every field that it reads, of that group only', () => {
  assert.equal(reportArguments('data').at(-1), 'data');
  for (const field of ['vg_uuid', 'lv_tags', 'origin_size', 'thin_id', 'lv_snapshot_invalid'])
    assert.ok(
      reportArguments('data').some((word) => word.split(',').includes(field)),
      field,
    );
});

for (const [about, text, reason, message] of [
  ['a group that is not there', '{"report": [], "log": []}', 'NotFound', /no volume group data on this node/u],
  ['another group', lvmReport((report) => void (report.vg[0]!['vg_name'] = 'other')), 'NotFound', /no volume group data/u],
  [
    'two groups of one name',
    JSON.stringify({ report: [1, 2].map(() => ({ vg: [{ vg_name: 'data' }] })) }),
    'Conflict',
    /two volume groups/u,
  ],
  ['what is no report', 'Segmentation fault', 'Internal', /report cannot be read/u],
] as const)
  test(`says what is wrong with ${about}`, () => {
    assert.throws(
      () => parseReport(text, 'data'),
      (error: Error) => isReason(error, reason) && message.test(error.message),
    );
  });
