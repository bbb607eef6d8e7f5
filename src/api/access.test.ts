import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Kind } from '../model/kind.ts';
import { GROUP_VERSION, type ApiObject } from '../model/meta.ts';
import { Moves, type MoveStatus } from '../model/move.ts';
import { Snapshots, type SnapshotStatus } from '../model/snapshot.ts';
import { StorageNodes } from '../model/storage-node.ts';
import { Events, Leases } from '../model/system.ts';
import { Volumes, type CopyStatus, type VolumeStatus } from '../model/volume.ts';
import { mayRead, mayWrite, type Identity } from './access.ts';
import type { Verb } from './registry.ts';

const admin: Identity = { user: 'admin', groups: ['flock:admins'] };
const controller: Identity = { user: 'controller', groups: ['flock:controllers'] };
const node: Identity = { user: 'flock:node:n1', groups: ['flock:nodes'] };
const stranger: Identity = { user: 'flock:node:n1', groups: ['people'] };
const nameless: Identity = { user: 'n1', groups: ['flock:nodes'] };

type Loose = ApiObject & { [field: string]: unknown };
const object = (name: string, more: object = {}, namespace?: string): Loose => ({
  apiVersion: GROUP_VERSION,
  kind: 'X',
  metadata: { name, ...(namespace ? { namespace } : {}) },
  ...more,
});

const copy = (on: string, change: Partial<CopyStatus> = {}): CopyStatus => ({ node: on, pool: 'local', role: 'active', ...change });
const volume = (status: VolumeStatus, spec: object = { size: '1Gi' }): Loose => object('db', { spec, status });
const move = (status: MoveStatus): Loose => object('m', { spec: { volume: 'db', target: 'n2' }, status });
const snapshot = (status: SnapshotStatus): Loose => object('s', { spec: { volume: 'db' }, status });
const from = { source: { node: 'n1', copy: 'a' }, target: { node: 'n2', copy: 'b' } };
const to = { source: { node: 'n2', copy: 'a' }, target: { node: 'n1', copy: 'b' } };
const { source: _, target: __, ...nowhere } = from;

describe('reading', () => {
  for (const [who, allowed] of [
    [admin, true],
    [controller, true],
    [node, true],
    [stranger, false],
    [nameless, false],
  ] as const) {
    it(`is ${allowed ? 'for' : 'not for'} ${who.user} of ${who.groups[0]}`, () => {
      assert.equal(mayRead(who) === null, allowed);
    });
  }
});

describe('writing', () => {
  for (const who of [admin, controller]) {
    it(`is open to ${who.user}`, () => {
      assert.equal(mayWrite(who, 'update', Volumes, { old: volume({}), next: volume({ phase: 'Available' }) }), null);
      assert.equal(mayWrite(who, 'delete', StorageNodes, { old: object('n1'), next: null }), null);
    });
  }

  for (const who of [stranger, nameless]) {
    it(`is closed to ${who.user} of ${who.groups[0]}`, () => {
      assert.match(mayWrite(who, 'create', Events, { old: null, next: object('e') }) ?? '', /only flock:admins and flock:controllers may/u);
    });
  }

  const cases: [string, Verb, Kind, Loose | null, Loose | null, RegExp | null][] = [
    ['its own StorageNode', 'create', StorageNodes, null, object('n1'), null],
    ['what its own StorageNode says', 'update', StorageNodes, object('n1'), object('n1', { status: {} }), null],
    [
      'a hold on its own StorageNode',
      'update',
      StorageNodes,
      object('n1'),
      object('n1', { metadata: { name: 'n1', finalizers: ['evil.example/stay'] } }),
      /nobody holds its own record/u,
    ],
    [
      'its own end of being drained',
      'update',
      StorageNodes,
      object('n1', { spec: { drain: true } }),
      object('n1', { spec: { drain: false } }),
      /spec\.drain: that is for an administrator/u,
    ],
    [
      'an order about itself',
      'create',
      StorageNodes,
      null,
      object('n1', { spec: { unschedulable: true } }),
      /spec\.unschedulable: that is for an administrator/u,
    ],
    [
      'how far it is drained',
      'update',
      StorageNodes,
      object('n1', { status: {} }),
      object('n1', { status: { drain: { left: 0, moving: 0, message: '' } } }),
      /status\.drain: the controller says/u,
    ],
    ['another StorageNode', 'update', StorageNodes, object('n2'), object('n2', { status: {} }), /a node writes its own StorageNode, n1/u],
    ['its own removal', 'delete', StorageNodes, object('n1'), null, /for an administrator to say/u],
    ['its own Lease', 'create', Leases, null, object('node-n1', {}, 'flock-system'), null],
    ['a renewal of its own Lease', 'update', Leases, object('node-n1', {}, 'flock-system'), object('node-n1', {}, 'flock-system'), null],
    [
      'another’s Lease',
      'update',
      Leases,
      object('node-n2', {}, 'flock-system'),
      object('node-n2', {}, 'flock-system'),
      /flock-system\/node-n1/u,
    ],
    ['a Lease of its name elsewhere', 'create', Leases, null, object('node-n1', {}, 'default'), /flock-system\/node-n1/u],
    ['the controllers’ Lease', 'delete', Leases, object('controller', {}, 'flock-system'), null, /flock-system\/node-n1/u],
    ['an Event', 'create', Events, null, object('e', {}, 'default'), null],
    ['an Event’s count', 'update', Events, object('e', {}, 'default'), object('e', { count: 2 }, 'default'), null],
    ['an Event’s removal', 'delete', Events, object('e', {}, 'default'), null, /go by themselves/u],
    ['a Volume', 'create', Volumes, null, volume({}), /may not create it/u],
    ['a Volume’s removal', 'delete', Volumes, volume({}), null, /may not delete it/u],
    ['a Volume’s spec', 'update', Volumes, volume({}), volume({}, { size: '2Gi' }), /may not change its spec/u],
    [
      'a Volume’s labels',
      'update',
      Volumes,
      volume({}),
      { ...volume({}), metadata: { name: 'db', labels: { a: 'b' } } },
      /may not change its metadata/u,
    ],
    ['a Volume’s phase', 'update', Volumes, volume({}), volume({ phase: 'Available' }), /may not change status\.phase/u],
    [
      'its own copy’s entry',
      'update',
      Volumes,
      volume({ copies: { a: copy('n1') } }),
      volume({ copies: { a: copy('n1', { created: true }) } }),
      null,
    ],
    ['a new entry of its own', 'update', Volumes, volume({}), volume({ copies: { a: copy('n1') } }), null],
    [
      'the end of its own entry',
      'update',
      Volumes,
      volume({ copies: { a: copy('n1'), b: copy('n2') } }),
      volume({ copies: { b: copy('n2') } }),
      null,
    ],
    [
      'another’s entry',
      'update',
      Volumes,
      volume({ copies: { a: copy('n2') } }),
      volume({ copies: { a: copy('n2', { role: 'stale' }) } }),
      /status\.copies\.a: that copy is on node "n2"/u,
    ],
    [
      'the end of another’s entry',
      'update',
      Volumes,
      volume({ copies: { a: copy('n2') } }),
      volume({ copies: {} }),
      /that copy is on node "n2"/u,
    ],
    [
      'an entry that it takes over',
      'update',
      Volumes,
      volume({ copies: { a: copy('n2') } }),
      volume({ copies: { a: copy('n1') } }),
      /that copy is on node "n2"/u,
    ],
    [
      'an entry that it gives away',
      'update',
      Volumes,
      volume({ copies: { a: copy('n1') } }),
      volume({ copies: { a: copy('n2') } }),
      /that copy is on node "n2"/u,
    ],
    ['the source’s part of a Move from it', 'update', Moves, move(from), move({ ...from, outgoing: { fencedEpoch: 1 } }), null],
    [
      'the source’s part of a Move to it',
      'update',
      Moves,
      move(to),
      move({ ...to, outgoing: { fencedEpoch: 1 } }),
      /status\.outgoing: that is for node "n2"/u,
    ],
    ['the target’s part of a Move to it', 'update', Moves, move(to), move({ ...to, incoming: { reserved: true } }), null],
    [
      'the target’s part of a Move from it',
      'update',
      Moves,
      move(from),
      move({ ...from, incoming: { reserved: true } }),
      /status\.incoming: that is for node "n2"/u,
    ],
    [
      'a part of a Move that has no places yet',
      'update',
      Moves,
      move(nowhere),
      move({ ...from, outgoing: {} }),
      /may not change status\.(source|outgoing)/u,
    ],
    ['a Move’s phase', 'update', Moves, move(from), move({ ...from, phase: 'Done' }), /may not change status\.phase/u],
    ['a Move’s places', 'update', Moves, move(to), move(from), /may not change status\.(source|target)/u],
    ['a Move’s order to cancel', 'update', Moves, move(from), { ...move(from), spec: { cancel: true } }, /may not change its spec/u],
    ['a Snapshot of its copy', 'update', Snapshots, snapshot({ node: 'n1' }), snapshot({ node: 'n1', phase: 'Ready' }), null],
    ['a Snapshot elsewhere', 'update', Snapshots, snapshot({ node: 'b' }), snapshot({ node: 'b', phase: 'Ready' }), /on node "b"/u],
    ['a Snapshot of no copy', 'update', Snapshots, snapshot({}), snapshot({ node: 'n1' }), /on node "none yet"/u],
    ['a Snapshot’s copy', 'update', Snapshots, snapshot({ node: 'n1' }), snapshot({ node: 'b' }), /may not change status\.node/u],
  ];
  for (const [what, verb, kind, old, next, refusal] of cases) {
    it(`of ${what} is ${refusal ? 'not ' : ''}for a node`, () => {
      const answer = mayWrite(node, verb, kind, { old, next });
      if (refusal) assert.match(answer ?? '(allowed)', refusal);
      else assert.equal(answer, null);
    });
  }
});
