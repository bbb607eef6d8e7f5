import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isReason } from '../model/errors.ts';
import { parsePools } from './configuration.ts';

test('reads a list of pools, as YAML or JSON, under `pools` or alone', () => {
  const wanted = [{ name: 'local', type: 'image', path: '/srv/flock', reserve: '10Gi', overcommit: 2 }];
  assert.deepEqual(parsePools('pools:\n- {name: local, type: image, path: /srv/flock, reserve: 10Gi, overcommit: 2}'), wanted);
  assert.deepEqual(parsePools(JSON.stringify(wanted)), wanted);
  assert.equal(parsePools('[{name: a, type: image, path: /x, overcommit: unlimited, reserve: 2.5%}]').length, 1);
});

test('reads pools of LVM', () => {
  const wanted = [
    {
      name: 'thick',
      type: 'lvm',
      volumeGroup: 'data',
      snapshotReserve: '10%',
      lvcreateOptions: ['--type=raid1', '--mirrors=1'],
      tools: 'host',
    },
    { name: 'thin', type: 'lvm-thin', volumeGroup: 'data', thinPool: 'pool0', overcommit: 'unlimited', autoextend: '20%' },
  ];
  assert.deepEqual(parsePools(JSON.stringify(wanted)), wanted);
});

for (const [text, reason, message] of [
  ['{', 'Invalid', /neither YAML nor JSON/u],
  ['pools: 5', 'Invalid', /no list `pools:`/u],
  ['', 'Invalid', /no list `pools:`/u],
  ['[null]', 'Invalid', /pools\[0\]: must be object/u],
  ['[{name: A, type: image, path: /x}]', 'Invalid', /pools\[0\]\.name/u],
  ['[{name: ../x, type: image, path: /x}]', 'Invalid', /pools\[0\]\.name/u],
  ['[{name: a, type: image}]', 'Invalid', /pools\[0\].*path/u],
  ['[{name: a, type: image, path: x}]', 'Invalid', /pools\[0\]\.path/u],
  [
    '[{name: a, type: image, path: /x, size: 5}]',
    'Invalid',
    /^the pools file: pools\[0\]\.size: there is no such key\. A pool of type image has name, type, path, reserve, overcommit$/u,
  ],
  ['[{name: a, type: image, path: /x, resrve: 5%}]', 'Invalid', /pools\[0\]\.resrve: there is no such key; did you mean reserve\?/u],
  ['[{name: a, type: image, paht: /x}]', 'Invalid', /pools\[0\]\.paht: .*did you mean path\?/u],
  ['[{name: a, type: image, path: /x, reserve: 5}]', 'Invalid', /pools\[0\]\.reserve: "5" is neither a percentage such as 5% nor a size/u],
  ['[{name: a, type: image, path: 5}]', 'Invalid', /pools\[0\]\.path: must be string$/u],
  ['[{name: a, type: zfs, path: /x}]', 'Invalid', /pools\[0\]\.type.*"lvm", "lvm-thin", "image", "directory"/u],
  ['[{name: a, type: image, path: /x, overcommit: 0.5}]', 'Invalid', /pools\[0\]\.overcommit/u],
  ['[{name: a, type: image, path: /x, overcommit: some}]', 'Invalid', /pools\[0\]\.overcommit/u],
  ['[{name: a, type: image, path: /x, reserve: 5 GB}]', 'Invalid', /pools\[0\]\.reserve: "5 GB" is neither/u],
  ['[{name: a, type: image, path: /x, reserve: 100m}]', 'Invalid', /pools\[0\]\.reserve/u],
  ['[{name: a, type: image, path: /x, reserve: 100%}]', 'Invalid', /pools\[0\]\.reserve/u],
  ['[{name: a, type: image, path: /x}, {name: a, type: image, path: /y}]', 'Invalid', /the name a is there twice/u],
  ['[{name: a, path: /x}]', 'Invalid', /pools\[0\]\.type: is none of/u],
  ['[{name: a, type: lvm}]', 'Invalid', /pools\[0\].*volumeGroup/u],
  ['[{name: a, type: lvm-thin, volumeGroup: data}]', 'Invalid', /pools\[0\].*thinPool/u],
  ['[{name: a, type: lvm, volumeGroup: ../data}]', 'Invalid', /pools\[0\]\.volumeGroup/u],
  ['[{name: a, type: lvm, volumeGroup: -data}]', 'Invalid', /pools\[0\]\.volumeGroup/u],
  ['[{name: a, type: lvm, volumeGroup: data, path: /x}]', 'Invalid', /pools\[0\].*path/u],
  ['[{name: a, type: lvm, volumeGroup: data, snapshotReserve: much}]', 'Invalid', /pools\[0\]\.snapshotReserve: "much" is neither/u],
  ['[{name: a, type: lvm, volumeGroup: data, lvcreateOptions: [--zero=n]}]', 'Invalid', /pools\[0\]\.lvcreateOptions/u],
  ['[{name: a, type: lvm, volumeGroup: data, tools: mine}]', 'Invalid', /pools\[0\]\.tools/u],
  ['[{name: a, type: directory}]', 'Invalid', /pools\[0\].*path/u],
] as const)
  test(`says what is wrong with ${JSON.stringify(text)}`, () => {
    assert.throws(
      () => parsePools(text),
      (error: Error) => isReason(error, reason) && message.test(error.message),
    );
  });

test('says in which file', () => {
  assert.throws(() => parsePools('[{name: a}]', '/etc/flock/pools.yaml'), /^Invalid: \/etc\/flock\/pools\.yaml: pools\[0\]\.type/u);
});
