// Where a volume may lie: a line a case.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aNewVolume, anEntry, aNode, aVolume, GIBI, SOURCE_COPY, TARGET_COPY } from '../testing/records.ts';
import type { PoolType, StorageNode } from '../model/storage-node.ts';
import { holdsDirectories, lessPromised, place, usualPool, whyNot, type Need } from './placement.ts';

const nodes = [aNode('node-1'), aNode('node-2', { pool: { free: String(20 * 2 ** 30) } })];
const need: Need = { pool: 'local', size: 2n ** 30n, filesystem: 'ext4' };
const refused: [string, Parameters<typeof aNode>[1], Partial<Need>, string | undefined][] = [
  ['room enough', {}, {}, undefined],
  ['a silent agent', { ready: false }, {}, 'NodeNotReady'],
  ['a node that takes nothing new', { spec: { unschedulable: true } }, {}, 'NodeUnschedulable'],
  ['a node without the pool', {}, { pool: 'fast' }, 'NoPool'],
  ['a pool that is not well', { pool: { healthy: false, obstacle: { reason: 'X', message: 'other mount' } } }, {}, 'PoolUnhealthy'],
  ['a full pool', { pool: { free: '1' } }, {}, 'NoSpace'],
  ['a full pool that holds the copy already', { pool: { free: '0' } }, { size: 0n }, undefined],
  ['just room enough', { pool: { free: GIBI } }, {}, undefined],
  ['a kernel without the filesystem', {}, { filesystem: 'btrfs' }, 'NoFilesystem'],
  ['a node that cannot mount at all', { status: { canMount: false, filesystems: [] } }, {}, undefined],
  ['a raw volume', { status: { filesystems: [] } }, { filesystem: null }, undefined],
];
for (const [what, node, more, reason] of refused)
  test(`placement judges ${what}: ${reason ?? 'fits'}`, () =>
    assert.equal(whyNot('node-1', aNode('node-1', node), { ...need, ...more })?.reason, reason));

test('placement is the same whenever it is asked, also among equals', () => {
  const equals = [aNode('node-1'), aNode('node-2')];
  assert.deepEqual(place(equals, need), { node: 'node-1' });
  assert.deepEqual(place([], need), { reason: 'NoNode', message: 'no node has registered yet; start an agent' });
});

const pools = (...types: PoolType[]): StorageNode['status'] => ({
  pools: Object.fromEntries(types.map((type, at) => [`${type}-${at}`, { type, healthy: true }])),
});
const unnamed: [string, StorageNode['status'][], string][] = [
  ['no pool', [{}], 'NoPool'],
  ['one', [pools('image'), pools('image')], 'image-0'],
  ['one of directories', [pools('directory')], 'directory-0'],
  ['one of devices beside one of directories', [pools('image', 'directory')], 'image-0'],
  ['one of devices on one node, directories on all', [pools('directory', 'image'), pools('directory')], 'image-1'],
  ['two of devices', [pools('image'), pools('lvm-thin', 'directory')], 'PoolNeeded'],
  ['two of directories', [pools('directory', 'directory')], 'PoolNeeded'],
  [
    'one name for directories here and devices there',
    [pools('directory'), { pools: { 'directory-0': { type: 'image', healthy: true } } }],
    'directory-0',
  ],
];
for (const [what, reported, expected] of unnamed)
  test(`of pools nobody named one, and there is ${what}: ${expected}`, () => {
    const found = usualPool(reported.map((status, at) => aNode(`node-${at + 1}`, { status: { pools: {}, ...status } })));
    assert.equal(typeof found === 'string' ? found : found.reason, expected);
  });

test('a pool holds directories when every node has it so', () => {
  const node = (type: PoolType): StorageNode => aNode('node-1', { pool: { type } });
  assert.equal(holdsDirectories([node('directory'), aNode('node-2', { status: { pools: {} } })], 'local'), true);
  assert.equal(holdsDirectories([node('directory'), node('image')], 'local'), false);
  assert.equal(holdsDirectories([], 'local'), false);
});

const many = (count: number, change: Parameters<typeof aNode>[1] = {}): ReturnType<typeof aNode>[] =>
  Array.from({ length: count }, (_, index) => aNode(`node-${index + 1}`, change));

const nowhere: [string, Parameters<typeof place>, string][] = [
  [
    'equal causes are told once, nodes in order',
    [[aNode('node-10', { ready: false }), aNode('node-9', { pool: { free: '0' } }), aNode('node-2', { ready: false })], need],
    'the agent of each of node-2, node-10 does not answer; start it, or choose another node; pool local of node node-9 has room for 0 B, 1.00 GiB are needed; free some, or choose another node',
  ],
  [
    'of pools without room, the largest room is told',
    [[aNode('node-1', { pool: { free: '1024' } }), aNode('node-2', { pool: { free: '2048' } })], need],
    'pool local of each of node-1, node-2 has room for 2.00 KiB, 1.00 GiB are needed; free some, or choose another node',
  ],
  [
    'a long list of nodes is cut',
    [many(100, { spec: { unschedulable: true } }), need],
    'each of node-1, node-2, node-3, node-4, node-5, node-6, node-7, node-8 and 92 more takes no new volumes (spec.unschedulable)',
  ],
  ['a node that refused is not asked again', [many(1), need, ['node-1']], 'node node-1 was asked and had no room'],
];
for (const [sentence, asked, message] of nowhere)
  test(`no node can take it: ${sentence}`, () =>
    assert.deepEqual(place(...asked), { reason: 'NoNode', message: `no node can take it: ${message}` }));

test('however many causes there are, a record can hold what is said', () => {
  const all = many(300).map((node, index) => ({
    ...node,
    status: { ...node.status, pools: { [`pool-${index}`]: { type: 'image' as const, healthy: true } } },
  }));
  const found = place(all, need);
  assert.ok('message' in found && found.message.length < 4096);
  assert.match('message' in found ? found.message : '', /and 295 more, for other causes$/u);
});

const NEW = aNewVolume({ spec: { node: 'node-1', pool: 'local', copy: SOURCE_COPY, epoch: 1 } });
const ordered = { node: 'node-1', pool: 'local', role: 'ordered' } as const;
const promises: [string, Parameters<typeof lessPromised>[1], string][] = [
  ['placed a moment ago', [NEW], String(9 * 2 ** 30)],
  ['ordered', [aVolume({ copies: { [SOURCE_COPY]: ordered } })], String(9 * 2 ** 30)],
  [
    'ordered for a move',
    [aVolume({ spec: { node: 'node-2' }, copies: { [SOURCE_COPY]: anEntry({ node: 'node-2', size: '4096' }), [TARGET_COPY]: ordered } })],
    String(10 * 2 ** 30 - 4096),
  ],
  ['made, so that the report tells of it', [aVolume()], String(10 * 2 ** 30)],
  [
    'refused for lack of room',
    [aVolume({ copies: { [SOURCE_COPY]: { ...ordered, obstacle: { reason: 'NoSpace', message: '' } } } })],
    String(10 * 2 ** 30),
  ],
  ['nowhere yet', [aNewVolume()], String(10 * 2 ** 30)],
  ["another pool's", [aVolume({ copies: { [SOURCE_COPY]: { ...ordered, pool: 'fast' } } })], String(10 * 2 ** 30)],
  ['more than there is', Array.from({ length: 11 }, () => NEW), '0'],
];
for (const [what, volumes, free] of promises)
  test(`room is judged less what was promised: ${what}`, () => {
    const [first, second] = lessPromised(nodes, volumes);
    assert.equal(first?.status?.pools?.['local']?.free, free);
    assert.equal(second?.status?.pools?.['local']?.free, String(20 * 2 ** 30));
  });
