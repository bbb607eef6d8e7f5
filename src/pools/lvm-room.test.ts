import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseReport, type VolumeGroup } from '../host/lvm-report.ts';
import { isReason } from '../model/errors.ts';
import { commitPoint, snapshotPoint } from '../model/points.ts';
import { aCopy, VOLUME_UID } from '../testing/labels.ts';
import { lvmReport, THICK, THIN } from '../testing/lvm-report.ts';
import { checkIdentity, poolUuid } from './lvm-identity.ts';
import { listVolumes, readable } from './lvm-layout.ts';
import { checkRoom, extension, roomOf, storeExtension, storeSize, thickLayout, thinPoolOf, type LvmPolicy } from './lvm-room.ts';
import { tagOf } from './lvm-tags.ts';

const MiB = 1n << 20n;
const GiB = 1n << 30n;

type Change = Parameters<typeof lvmReport>[0];
const group = (change?: Change): VolumeGroup => parseReport(lvmReport(change), 'data');
/** One field of one LV. */
const set =
  (name: string, field: string, value: string): NonNullable<Change> =>
  (report) => {
    for (const row of report.lv) if (row['lv_name'] === name) row[field] = value;
  };
const policy = (change: Partial<LvmPolicy> = {}): LvmPolicy => ({
  reserve: '0%',
  overcommit: null,
  snapshotReserve: '20%',
  autoextend: null,
  layout: thickLayout([]),
  ...change,
});

test('sorts what lies in a volume group: copies with their points, and what is not ours', () => {
  const thick = listVolumes(group(), null);
  assert.deepEqual([...thick.copies.keys()], [THICK]);
  assert.deepEqual([...(thick.copies.get(THICK)?.points.keys() ?? [])], ['p1']);
  assert.deepEqual(
    thick.copies.get(THICK)?.brokenPoints.map(({ name }) => name),
    [`${THICK}.p2`],
  );
  assert.deepEqual(
    thick.foreign.map(({ name }) => name),
    ['pool0', 'root'],
  );
  const thin = listVolumes(group(), 'pool0');
  assert.deepEqual([...thin.copies.keys()], [THIN]);
  assert.deepEqual(
    thin.foreign.map(({ name }) => name),
    ['theirs'],
  );
});

test('a point without its copy is a stray, one without our tag is foreign, and a half-made one is broken', () => {
  const gone = listVolumes(
    group((report) => void (report.lv = report.lv.filter((row) => row['lv_name'] !== THIN))),
    'pool0',
  );
  assert.deepEqual(
    gone.stray.map(({ name }) => name),
    [`${THIN}.p1`],
  );
  const theirs = listVolumes(group(set(`${THIN}.p1`, 'lv_tags', '')), 'pool0');
  assert.deepEqual(
    theirs.foreign.map(({ name }) => name),
    [`${THIN}.p1`, 'theirs'],
  );
  const half = listVolumes(group(set(`${THICK}.p1`, 'lv_role', 'public')), null);
  assert.deepEqual(
    half.copies.get(THICK)?.brokenPoints.map(({ name }) => name),
    [`${THICK}.p1`, `${THICK}.p2`],
  );
});

const LABELLED = tagOf({ state: 'ready', label: aCopy('a1').label });
for (const [about, tags, reason] of [
  ['a label', LABELLED, null],
  ['no label', '', 'Corrupt'],
  ['a label that cannot be read', 'flock:1:copy&state=ready', 'Corrupt'],
  ['the label of another copy', LABELLED.replace('copy=a1', 'copy=a2'), 'Corrupt'],
] as const)
  test(`a copy with ${about} is ${reason ?? 'whole'}`, () => {
    const listing = listVolumes(group(set(THICK, 'lv_tags', tags)), null);
    if (reason === null) assert.equal(readable(listing, THICK, 'local').marked.label.volumeUid, VOLUME_UID);
    else
      assert.throws(
        () => readable(listing, THICK, 'local'),
        (error: Error) => isReason(error, reason) && error.message.includes(THICK),
      );
  });

test('of a volume group what others have may not be booked, and what is free may not be promised twice', () => {
  const { capacity, booked, free, size, used } = roomOf(group(), null, policy());
  assert.deepEqual([size, used, booked], [4_290_772_992n, 4_290_772_992n - 3_036_676_096n, 100n * MiB]);
  // A thin pool of 1 GiB with two times 4 MiB of metadata, and 40 MiB of theirs.
  assert.equal(capacity, size - GiB - 8n * MiB - 40n * MiB);
  assert.equal(free, 3_036_676_096n);
  assert.equal(roomOf(group(), null, policy({ reserve: '50%' })).free, ((capacity - size / 2n - 100n * MiB) / (4n * MiB)) * 4n * MiB);
});

test('a mirror books half of what it takes, and stripes are taken whole', () => {
  const mirrored = roomOf(group(), null, policy({ layout: thickLayout(['--type=raid1', '--mirrors=1']) }));
  assert.ok(mirrored.free <= 3_036_676_096n / 2n);
  assert.equal(mirrored.capacity, (roomOf(group(), null, policy()).capacity ?? 0n) / 2n);
  assert.equal(roomOf(group(), null, policy({ layout: thickLayout(['--stripes=3']) })).free % (12n * MiB), 0n);
});

test('a thick copy’s snapshot is booked like a copy, a move’s point is not', () => {
  const kept = snapshotPoint('0123456789ab-cdef');
  const renamed = (report: { lv: { [field: string]: string }[] }): void => {
    for (const row of report.lv) if (row['lv_name'] === `${THICK}.p1`) row['lv_name'] = `${THICK}.${kept}`;
  };
  assert.equal(roomOf(group(renamed), null, policy()).booked, 200n * MiB);
});

test('a thin pool is promised once, several times, or without limit', () => {
  const foreign = 54_525_952n;
  assert.equal(roomOf(group(), 'pool0', policy()).capacity, GiB - foreign);
  assert.equal(roomOf(group(), 'pool0', policy({ overcommit: 2.5 })).capacity, (GiB * 5n) / 2n - foreign);
  const unlimited = roomOf(group(), 'pool0', policy({ overcommit: 'unlimited' }));
  assert.deepEqual([unlimited.capacity, unlimited.booked, unlimited.warning], [null, 200n * MiB, undefined]);
  assert.ok(unlimited.free > GiB);
});

for (const [about, field, value, message] of [
  ['data', 'data_percent', '95.01', /has used 95.01 % of its 1.00 GiB.*lvextend/u],
  ['metadata', 'metadata_percent', '80.00', /has used 80 % of its metadata.*--poolmetadatasize/u],
] as const)
  test(`a thin pool that runs out of ${about} takes nothing new, without limit either, and says so`, () => {
    const room = roomOf(group(set('pool0', field, value)), 'pool0', policy({ overcommit: 'unlimited', reserve: '5%' }));
    assert.equal(room.free, 0n);
    assert.match(room.warning ?? '', message);
    assert.throws(
      () => checkRoom('fast', room, 1n),
      (error: Error) => isReason(error, 'NoSpace') && message.test(error.message),
    );
  });

for (const [about, changes, autoextend, wanted] of [
  ['has room', [], '20%', null],
  ['is full and may not grow', [['data_percent', '85']], null, null],
  ['is full', [['data_percent', '85']], '20%', ['-L', `+${208n * MiB}b`]],
  ['is short of metadata', [['metadata_percent', '85']], '20%', ['--poolmetadatasize', `+${4n * MiB}b`]],
] as const)
  test(`a thin pool that ${about} ${wanted ? 'is extended' : 'stays as it is'}`, () => {
    const changed = group((report) => changes.forEach(([field, value]) => set('pool0', field, value)(report)));
    assert.deepEqual(extension(changed, thinPoolOf(changed, 'pool0'), autoextend), wanted);
  });

test('a thin pool never grows by more than its volume group has', () => {
  const changed = group((report) => {
    set('pool0', 'data_percent', '85')(report);
    report.vg[0]!['vg_free'] = String(9n * MiB);
  });
  assert.deepEqual(extension(changed, thinPoolOf(changed, 'pool0'), '20%'), ['-L', `+${8n * MiB}b`]);
});

const MOVE = commitPoint('0123456789ab-cdef');
const SNAPSHOT = snapshotPoint('0123456789ab-cdef');
for (const [about, size, point, wanted] of [
  ['a small copy has room for all of it', 100n * MiB, MOVE, 104n * MiB],
  ['a large copy has its part', 100n * GiB, MOVE, 20n * GiB],
  ['a snapshot of a large copy can never overflow', 100n * GiB, SNAPSHOT, 100n * GiB + 404n * MiB],
  ['a copy in between has a quarter of a GiB', GiB, MOVE, 256n * MiB],
] as const)
  test(`a store of ${about}`, () => {
    assert.equal(storeSize(size, point, { extent: 4n * MiB, policy: policy() }), wanted);
  });

test('a store that is half full doubles, one that could take everything does not', () => {
  const point = (name: string, of: VolumeGroup) => of.volumes.find((volume) => volume.name === name)!;
  const found = group();
  assert.equal(storeExtension(found, point(`${THICK}.p1`, found)), 20_971_520n);
  const large = group(set(`${THICK}.p1`, 'lv_size', '115343360'));
  assert.equal(storeExtension(large, point(`${THICK}.p1`, large)), null);
  const idle = group(set(`${THICK}.p1`, 'snap_percent', '49.99'));
  assert.equal(storeExtension(idle, point(`${THICK}.p1`, idle)), null);
});

test('a pool is known by its volume group, a thin one by its thin pool too, whatever they are called', () => {
  assert.match(poolUuid(group(), null), /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/u);
  assert.notEqual(poolUuid(group(), null), poolUuid(group(), 'pool0'));
  assert.throws(() => poolUuid(group(), 'root'), /has no thin pool root: make it \(lvcreate --type thin-pool/u);
  const other = group((report) => void (report.vg[0]!['vg_uuid'] = 'another'));
  const place = { name: 'fast', thinPool: null };
  checkIdentity(place, poolUuid(group(), null), group());
  assert.throws(
    () => checkIdentity(place, poolUuid(group(), null), other),
    (error: Error) => isReason(error, 'NotPermitted'),
  );
});
