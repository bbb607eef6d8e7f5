// Whom a source serves, by the record's word alone: a line a case.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MOVE_PHASES, type MovePhase } from '../model/move.ts';
import { VOLUME_UID } from '../testing/labels.ts';
import { aMove, MOVE_UID, onDisk, OTHER_UID, SOURCE_COPY, TARGET_COPY } from '../testing/records.ts';
import type { Hello } from '../transfer/transfer.ts';
import { authorizer, whyNot } from './authorize.ts';
import type { Copies } from './copies.ts';
import type { Turns } from '../host/turns.ts';
import type { AgentPorts } from './ports.ts';

const hello = (change: Partial<Hello> = {}): Hello => ({
  protocol: 1,
  purpose: 'round',
  move: 'db-move',
  moveUid: MOVE_UID,
  volumeUid: VOLUME_UID,
  copy: SOURCE_COPY,
  epoch: 1,
  ...change,
});

const cases: [string, Hello, string, string, string | null][] = [
  ["the move's target is served", hello(), 'node-2', 'node-1', null],
  ['X-08: any other node is not', hello(), 'node-3', 'node-1', 'its target is node node-2'],
  ['a node that is not the source does not serve', hello(), 'node-2', 'node-3', 'its source is node node-1, not node-3'],
  [
    'a move made anew under the name is another',
    hello({ moveUid: OTHER_UID }),
    'node-2',
    'node-1',
    'a move of that name was made anew since',
  ],
  ['another volume is not served', hello({ volumeUid: OTHER_UID }), 'node-2', 'node-1', 'it is about another volume or copy'],
  ['another copy is not served', hello({ copy: TARGET_COPY }), 'node-2', 'node-1', 'it is about another volume or copy'],
  ['another epoch is not served', hello({ epoch: 2 }), 'node-2', 'node-1', 'it is at epoch 1, not 2'],
];
for (const [sentence, asked, peer, node, why] of cases)
  test(sentence, () => assert.equal(whyNot(asked, peer, node, aMove('Syncing')), why));

const ROUNDS: readonly MovePhase[] = ['Syncing', 'ReadyToCutOver', 'Fencing', 'FinalDelta', 'Verifying'];
const SCRUBS: readonly MovePhase[] = ['Published', 'Retaining'];
for (const phase of MOVE_PHASES)
  test(`in ${phase} ${ROUNDS.includes(phase) ? 'rounds' : SCRUBS.includes(phase) ? 'a scrub' : 'nothing'} may be read`, () => {
    const move = aMove(phase, { status: { source: { node: 'node-1', copy: SOURCE_COPY }, volumeUid: VOLUME_UID, epoch: 1 } });
    assert.equal(whyNot(hello(), 'node-2', 'node-1', move) === null, ROUNDS.includes(phase));
    assert.equal(whyNot(hello({ purpose: 'scrub' }), 'node-2', 'node-1', move) === null, SCRUBS.includes(phase));
  });

test('what the application wrote is flushed under the lock of its volume: an unmount waits for it, and is not refused for it', async () => {
  const move = aMove('Syncing');
  const order: string[] = [];
  const mounts = { beFlushed: async (target: string) => void order.push(`flush ${target}`) } as unknown as AgentPorts['mounts'];
  const seen = onDisk({}, { published: ['/srv/db'] });
  const copies = { one: async () => ({ seen, found: { pool: null, name: 'copy' } }) } as unknown as Copies;
  const lock: Turns = async (volume, work) => {
    order.push(`lock ${volume}`);
    const done = await work();
    order.push('unlock');
    return done;
  };
  const client = { get: async () => move } as unknown as AgentPorts['client'];
  const offer = await authorizer({ client, node: 'node-1', mounts }, { copies, lock })(hello(), {
    node: move.spec.target,
    uid: move.metadata.uid,
  });
  await offer.flush?.();
  assert.deepEqual(order, ['lock db', 'flush /srv/db', 'unlock']);
});
