// When a node's agent counts as silent: by this process's own clock, from when it saw the Lease change.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LocalClient } from '../api/local-client.ts';
import { Registry } from '../api/registry.ts';
import { MemoryTable } from '../api/table.ts';
import { DEFAULT_CAPS } from '../decide/moves.ts';
import { noCrash } from '../model/crash.ts';
import type { Stored } from '../model/meta.ts';
import { StorageNodes, type StorageNode } from '../model/storage-node.ts';
import type { Lease } from '../model/system.ts';
import { fakeClock } from '../testing/fake-clock.ts';
import { keptLog } from '../testing/kept-log.ts';
import { aNode } from '../testing/records.ts';
import { NodeController } from './nodes.ts';

const lease = (renewTime: string): Stored<Lease> => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { name: 'node-node-1', uid: '1', resourceVersion: '1', creationTimestamp: '' },
  spec: { renewTime, leaseDurationSeconds: 40 },
});

async function watched(): Promise<{
  look: () => Promise<{ again: number } | undefined>;
  advance: (ms: number) => Promise<void>;
  renew: (at: string) => void;
  ready: () => string | undefined;
  told: string[];
  version: () => string;
}> {
  const clock = fakeClock();
  const registry = new Registry({ table: new MemoryTable(), clock, uid: () => crypto.randomUUID() });
  const client = new LocalClient({ registry, clock });
  const { status = {}, metadata, ...node } = aNode('node-1');
  await client.create(StorageNodes, { ...node, metadata: { name: metadata.name } } as StorageNode);
  await client.patch(StorageNodes, 'node-1', { status }, { subresource: 'status' });
  const told: string[] = [];
  let current = lease('1');
  const nodes = (): Stored<StorageNode>[] => registry.list(StorageNodes).items;
  const ports = {
    client,
    known: { nodes, moves: () => [], volumes: () => [] },
    caps: DEFAULT_CAPS,
    clock,
    crash: noCrash,
    log: keptLog(),
    tell: (_about: object, type: string, reason: string) => void told.push(`${type} ${reason}`),
  };
  const controller = new NodeController(ports, { lease: () => current });
  return {
    look: () => controller.reconcile('node-1'),
    advance: (ms) => clock.advance(ms),
    renew: (at) => void (current = lease(at)),
    ready: () => nodes()[0]?.status?.conditions?.find(({ type }) => type === 'Ready')?.status,
    told,
    version: () => registry.version,
  };
}

test('an agent that renews its Lease stays ready, and is looked at when the Lease would end', async () => {
  const node = await watched();
  for (let beat = 1; beat <= 5; beat += 1) {
    node.renew(String(beat));
    assert.deepEqual(await node.look(), { again: 40_000 });
    await node.advance(10_000);
  }
  assert.equal(node.ready(), 'True');
});

test('an agent that renews nothing for the duration of its Lease is silent, told once and written once', async () => {
  const node = await watched();
  await node.look();
  await node.advance(39_999);
  assert.deepEqual(await node.look(), { again: 1 });
  await node.advance(1);
  await node.look();
  assert.equal(node.ready(), 'Unknown');
  assert.deepEqual(node.told, ['Warning AgentSilent']);
  const before = node.version();
  await node.look();
  assert.equal(node.version(), before);
});

test('a time that the agent wrote is never compared with our clock', async () => {
  const node = await watched();
  node.renew('1999-01-01T00:00:00Z');
  assert.deepEqual(await node.look(), { again: 40_000 });
  assert.equal(node.ready(), 'True');
});
