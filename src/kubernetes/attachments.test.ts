// Whether a volume is still wanted on a node, as the cluster's own objects say: a line a case.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from '../api/client.ts';
import { FlockError } from '../model/errors.ts';
import { attachmentName, isWanted } from './attachments.ts';

const VOLUME = 'pvc-1';
const claimed = (claimName: string): object => ({ name: 'data', persistentVolumeClaim: { claimName } });
const pod = (volume: object, change: { metadata?: object; status?: object } = {}): object => ({
  metadata: { name: 'db', ...change.metadata },
  spec: { volumes: [volume] },
  status: { phase: 'Pending', ...change.status },
});

interface Seen {
  attachment?: object | null;
  claim?: object;
  pods?: object[];
}

/** Answers as the API server would for node-2. */
function cluster({ attachment = {}, claim = { namespace: 'shop', name: 'data' }, pods = [] }: Seen): Client {
  const get = async (kind: { kind: string }, name: string): Promise<object> => {
    if (kind.kind === 'PersistentVolume') return { metadata: { name }, spec: { claimRef: claim } };
    if (attachment === null || name !== attachmentName(VOLUME, 'node-2')) throw new FlockError('NotFound', 'there is none');
    return { metadata: { name, ...attachment }, spec: { source: { persistentVolumeName: VOLUME } } };
  };
  const list = async (_kind: object, { namespace, fieldSelector }: { namespace: string; fieldSelector: string }): Promise<object> => {
    assert.deepEqual([namespace, fieldSelector], ['shop', 'spec.nodeName=node-2']);
    return { items: pods, resourceVersion: '1' };
  };
  return { get, list } as unknown as Client;
}

const gone = { deletionTimestamp: '2026-01-01T00:00:00Z' };
const CASES: [string, Seen, boolean][] = [
  ['a pod there uses its claim', { pods: [pod(claimed('data'))] }, true],
  [
    'a pod there has it for itself alone',
    { claim: { namespace: 'shop', name: 'db-data' }, pods: [pod({ name: 'data', ephemeral: {} })] },
    true,
  ],
  ['no pod is there', {}, false],
  ['the pod there uses another claim', { pods: [pod(claimed('other'))] }, false],
  ['the pod there is going', { pods: [pod(claimed('data'), { metadata: gone })] }, false],
  ['the pod there has ended', { pods: [pod(claimed('data'), { status: { phase: 'Succeeded' } })] }, false],
  ['its attachment is going', { attachment: gone, pods: [pod(claimed('data'))] }, false],
  ['it has no attachment', { attachment: null, pods: [pod(claimed('data'))] }, false],
];

for (const [name, seen, wanted] of CASES)
  test(`a volume is ${wanted ? '' : 'not '}wanted when ${name}`, async () => {
    assert.equal(await isWanted(cluster(seen), VOLUME, 'node-2'), wanted);
  });
