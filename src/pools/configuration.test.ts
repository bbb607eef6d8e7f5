import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isReason } from '../model/errors.ts';
import { parsePools } from './configuration.ts';

test('reads a list of pools, as YAML or JSON, under `pools` or alone', () => {
  const wanted = [{ name: 'local', type: 'image', path: '/srv/flock', reserve: '10Gi', overcommit: 2 }];
  assert.deepEqual(parsePools('pools:\n- {name: local, type: image, path: /srv/flock, reserve: 10Gi, overcommit: 2}'), wanted);
  assert.deepEqual(parsePools(JSON.stringify(wanted)), wanted);
  assert.equal(parsePools('[{name: a, type: image, path: /x, overcommit: unlimited, reserve: 2.5%}]')[0]?.overcommit, 'unlimited');
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
  ['[{name: a, type: image, path: /x, size: 5}]', 'Invalid', /pools\[0\]\.size/u],
  ['[{name: a, type: zfs, path: /x}]', 'Invalid', /pools\[0\]\.type.*"lvm", "lvm-thin", "image", "directory"/u],
  ['[{name: a, type: image, path: /x, overcommit: 0.5}]', 'Invalid', /pools\[0\]\.overcommit/u],
  ['[{name: a, type: image, path: /x, overcommit: some}]', 'Invalid', /pools\[0\]\.overcommit/u],
  ['[{name: a, type: image, path: /x, reserve: 5 GB}]', 'Invalid', /pools\[0\]\.reserve: "5 GB" is neither/u],
  ['[{name: a, type: image, path: /x, reserve: 100m}]', 'Invalid', /pools\[0\]\.reserve/u],
  ['[{name: a, type: image, path: /x, reserve: 100%}]', 'Invalid', /pools\[0\]\.reserve/u],
  ['[{name: a, type: image, path: /x}, {name: a, type: image, path: /y}]', 'Invalid', /the name a is there twice/u],
  ['[{name: a, type: lvm}]', 'Unsupported', /pools\[0\]\.type: pools of type lvm are not in this release/u],
  ['[{name: a, type: lvm-thin}]', 'Unsupported', /not in this release/u],
  ['[{name: a, type: directory, path: /x}]', 'Unsupported', /not in this release/u],
] as const)
  test(`says what is wrong with ${JSON.stringify(text)}`, () => {
    assert.throws(
      () => parsePools(text),
      (error: Error) => isReason(error, reason) && message.test(error.message),
    );
  });
