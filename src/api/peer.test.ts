// What is read of a certificate's names: one node, or none at all when there is any doubt.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeIn } from './peer.ts';

const CASES: [names: string | undefined, found: string | null][] = [
  ['URI:flock://c/node/n1', 'c n1'],
  ['DNS:n1, URI:flock://c/node/n1, IP Address:127.0.0.1', 'c n1'],
  ['URI:flock://other/node/n1', 'other n1'],
  ['URI:flock://c/node/n1, URI:flock://c/node/n2', null],
  ['URI:"flock://x, URI:flock://c/node/n1"', null],
  ['URI:flock://c/node/N1', null],
  ['URI:flock://c/node/', null],
  ['DNS:flock://c/node/n1', null],
  [undefined, null],
];

for (const [names, found] of CASES)
  test(`names of a certificate: ${names} is ${found ?? 'no node'}`, () => {
    const node = nodeIn(names);
    assert.equal(node && `${node.cluster} ${node.node}`, found);
  });
