// What draining a node does next: a line a case.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aMove, anEntry, aNode, aVolume, dying, SOURCE_COPY } from '../testing/records.ts';
import { drainMove, nextDrainStep, type DrainSeen, type DrainStep } from './drain.ts';

const drained = aNode('node-1', { spec: { drain: true } });
const others = [aNode('node-2'), aNode('node-3', { pool: { free: String(20 * 2 ** 30) } })];
const see = (change: Partial<DrainSeen> = {}): DrainStep =>
  nextDrainStep({ node: drained, nodes: [drained, ...others], volumes: [aVolume()], moves: [], ...change });
const left = (count: number, moving: number, message: string): DrainStep => ({ step: 'tell', drain: { left: count, moving, message } });
const order = (target: string, volume = 'db'): DrainStep => ({ step: 'order', move: `${volume}-drain-1`, volume, target });
const web = aVolume({ meta: { name: 'web', uid: '22222222-2222-4222-8222-222222222222' } });
const moved = aVolume({ spec: { node: 'node-2' } });
const scrub = (state: 'Running' | 'Passed'): { incoming: object } => ({ incoming: { scrub: { state } } });

const cases: [string, DrainStep, DrainStep][] = [
  ['a volume goes to the node with the most room', see(), order('node-3')],
  ['one after the other', see({ volumes: [web, aVolume()] }), order('node-3')],
  [
    'the next finds the room that is promised to the last gone',
    see({
      volumes: [aVolume(), web],
      nodes: [
        drained,
        aNode('node-2', { pool: { free: String(12 * 2 ** 27) } }),
        aNode('node-3', { pool: { free: String(14 * 2 ** 27) } }),
      ],
      moves: [aMove('Pending', { spec: { target: 'node-3' } })],
    }),
    order('node-2', 'web'),
  ],
  ['what is on its way is waited for', see({ moves: [aMove('Syncing')] }), left(1, 1, 'volume db: on its way to node node-2 (Syncing)')],
  [
    'and what it waits for is told',
    see({ moves: [aMove('ReadyToCutOver', { status: { obstacle: { reason: 'WaitingForUnpublish', message: 'unmount it' } } })] }),
    left(1, 1, 'volume db: on its way to node node-2 (ReadyToCutOver, WaitingForUnpublish: unmount it)'),
  ],
  [
    'a full node that keeps an old copy of it takes it',
    see({
      nodes: [drained, aNode('node-2', { pool: { free: '0' } })],
      volumes: [aVolume({ copies: { [SOURCE_COPY]: anEntry(), old: anEntry({ node: 'node-2', role: 'stale' }) } })],
    }),
    order('node-2'),
  ],
  [
    'without room anywhere it says so',
    see({ nodes: [drained, aNode('node-2', { pool: { free: '0' } })] }),
    left(
      1,
      0,
      'volume db: no node can take it: pool local of node node-2 has room for 0 B, 1.00 GiB are needed; free some, or choose another node',
    ),
  ],
  [
    'a node that is drained too takes nothing',
    see({ nodes: [drained, aNode('node-2', { spec: { drain: true } })] }),
    left(1, 0, 'volume db: no node can take it: node node-2 is being drained; choose another node'),
  ],
  [
    'a move that failed is not ordered again by itself',
    see({ moves: [aMove('Failed', { meta: { name: 'db-drain-1' }, status: { obstacle: { reason: 'Stalled', message: 'too slow' } } })] }),
    left(1, 0, 'volume db: move db-drain-1 ended as Failed: too slow; delete it to try again, or move it by hand'),
  ],
  [
    'a volume without a copy is told',
    see({ volumes: [aVolume({ copies: {} })] }),
    left(1, 0, 'volume db: it is not made yet; delete it, or wait'),
  ],
  [
    'one that is being deleted is not waited for',
    see({ volumes: [aVolume({ meta: dying })] }),
    left(0, 0, 'no volume depends on node node-1 any more'),
  ],
  [
    'one on another node does not count',
    see({ volumes: [aVolume({ spec: { node: 'node-2' } })] }),
    left(0, 0, 'no volume depends on node node-1 any more'),
  ],
  [
    'a volume that was just committed is not away yet',
    see({ volumes: [moved], moves: [aMove('Verifying')] }),
    left(1, 1, 'volume db: on node node-2, which is compared with the old copy here'),
  ],
  [
    'the old copy is needed until it was compared',
    see({ volumes: [moved], moves: [aMove('Retaining', { status: scrub('Running') })] }),
    left(1, 1, 'volume db: on node node-2, which is compared with the old copy here'),
  ],
  [
    'and then no more',
    see({ volumes: [moved], moves: [aMove('Retaining', { status: scrub('Passed') })] }),
    left(0, 0, 'no volume depends on node node-1 any more'),
  ],
  [
    'said once',
    see({
      volumes: [],
      node: aNode('node-1', {
        spec: { drain: true },
        status: { drain: { left: 0, moving: 0, message: 'no volume depends on node node-1 any more' } },
      }),
    }),
    { step: 'none' },
  ],
  [
    'drained no more, nothing is said',
    see({ node: aNode('node-1', { status: { drain: { left: 1, moving: 1, message: 'x' } } }) }),
    { step: 'tell', drain: null },
  ],
  ['a node that nobody drains is left alone', see({ node: aNode('node-1') }), { step: 'none' }],
];

for (const [what, step, wanted] of cases) test(what, () => assert.deepEqual(step, wanted));

test('a long name is cut to a name', () => {
  assert.equal(drainMove(aVolume({ meta: { name: 'a'.repeat(253) }, spec: { epoch: 12 } })), `${'a'.repeat(244)}-drain-12`);
  assert.equal(drainMove(aVolume({ meta: { name: `${'a'.repeat(244)}.b` } })), `${'a'.repeat(244)}-drain-1`);
});

test('many are told in short, those that wait for somebody first', () => {
  const volumes = Array.from({ length: 9 }, (_, index) =>
    aVolume({ meta: { name: `v${index}`, uid: `${index}2222222-2222-4222-8222-222222222222` } }),
  );
  const moves = volumes
    .slice(0, 8)
    .map((volume) => aMove('Syncing', { meta: { name: `m-${volume.metadata.name}` }, spec: { volume: volume.metadata.name } }));
  const step = see({ volumes, moves, nodes: [drained] });
  assert.ok(step.step === 'tell' && step.drain !== null);
  assert.deepEqual([step.drain.left, step.drain.moving], [9, 8]);
  assert.match(step.drain.message, /^volume v8: no node has registered yet.*; volume v0: .*; and 4 more$/u);
  assert.ok(step.drain.message.length <= 1000);
});
