import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { KINDS } from '../model/kinds.ts';
import { GROUP_VERSION } from '../model/meta.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { Events } from '../model/system.ts';
import { jsonPath } from './json-path.ts';
import { Tabulator, age } from './table-view.ts';

const NOW = Date.UTC(2026, 0, 2);

describe('a path of a column', () => {
  const object = {
    a: { b: [1, 2], 'c.d': 'e' },
    list: [
      { type: 'Ready', status: 'True' },
      { type: 'Other', status: 'False' },
    ],
  };

  for (const [path, expected] of [
    ['.a.b[1]', 2],
    [".a['c.d']", 'e'],
    ['.list[?(@.type=="Ready")].status', 'True'],
    [".list[?(@.type == 'Other')].status", 'False'],
    ['.list[?(@.type=="None")].status', undefined],
    ['.a.missing.deeper', undefined],
    ['.a.constructor', undefined],
    ['.a.b.length', undefined],
  ] as const) {
    it(`${path} reads ${JSON.stringify(expected)}`, () => {
      assert.equal(jsonPath(path)(object), expected);
    });
  }

  for (const path of ['a', '.a..b', '.a[*]', '.list[?(@.a>1)]']) {
    it(`${path} is beyond what is understood`, () => {
      assert.throws(() => jsonPath(path), /is not understood/u);
    });
  }

  it('is understood in every kind', () => {
    for (const kind of KINDS) assert.doesNotThrow(() => new Tabulator(kind));
  });
});

describe('an age', () => {
  const [second, minute, hour, day] = [1000, 60_000, 3_600_000, 86_400_000];
  for (const [ms, expected] of [
    [-5 * second, '0s'],
    [119 * second, '119s'],
    [2 * minute, '2m'],
    [5 * minute + 30 * second, '5m30s'],
    [179 * minute, '179m'],
    [3 * hour, '3h'],
    [7 * hour + 20 * minute, '7h20m'],
    [47 * hour, '47h'],
    [2 * day + 4 * hour, '2d4h'],
    [400 * day, '400d'],
    [731 * day, '2y1d'],
  ] as const) {
    it(`of ${ms} ms is ${expected}`, () => {
      assert.equal(age(ms), expected);
    });
  }
});

describe('a table', () => {
  const node = {
    apiVersion: GROUP_VERSION,
    kind: 'StorageNode',
    metadata: { name: 'n1', creationTimestamp: '2026-01-01T23:58:00Z' },
    status: { conditions: [{ type: 'Ready', status: 'True', reason: 'Fine' }], transfer: { address: '192.0.2.1' } },
  };

  it('has a column a value, and what is not there stays empty', () => {
    const { columnDefinitions, rows } = new Tabulator(StorageNodes).table([node], { now: NOW, include: 'Metadata' });
    assert.deepEqual(
      columnDefinitions.map(({ name, priority }) => [name, priority]),
      [
        ['Name', 0],
        ['Ready', 0],
        ['Reason', 0],
        ['Address', 0],
        ['Version', 1],
        ['Age', 0],
      ],
    );
    assert.deepEqual(rows[0]?.cells, ['n1', 'True', 'Fine', '192.0.2.1', '', '2m']);
    assert.deepEqual(rows[0]?.object, { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: node.metadata });
  });

  it('of Events shows what each is about, and its name only when there is room', () => {
    const involvedObject = { apiVersion: GROUP_VERSION, kind: 'Volume', name: 'db', uid: 'u' };
    const event = {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: 'e1' },
      involvedObject,
      type: 'Normal',
      reason: 'Moved',
      message: 'told',
    };
    const { columnDefinitions, rows } = new Tabulator(Events).table([event], { now: NOW, include: 'None' });
    const shown = columnDefinitions.map(({ name, priority }, at) => [name, priority, rows[0]?.cells[at]]);
    assert.deepEqual(
      shown.filter(([, , value]) => value !== '<unknown>' && value !== '' && value !== null),
      [
        ['Type', 0, 'Normal'],
        ['Reason', 0, 'Moved'],
        ['Object', 0, 'volume/db'],
        ['Message', 0, 'told'],
        ['Name', 1, 'e1'],
      ],
    );
  });

  it('brings as much of the object as is asked for', () => {
    const object = (include: 'None' | 'Object'): unknown =>
      new Tabulator(StorageNodes).table([node], { now: NOW, include }).rows[0]?.object;
    assert.deepEqual([object('None'), object('Object')], [{}, node]);
  });
});
