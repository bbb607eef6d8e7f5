// What a node's record says of its pools while they come, go and change, in memory.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { LocalClient } from '../api/local-client.ts';
import { Registry } from '../api/registry.ts';
import { MemoryTable } from '../api/table.ts';
import { systemClock } from '../model/clock.ts';
import { StorageNodes, type PoolStatus, type StorageNode } from '../model/storage-node.ts';
import { memoryDisk, MemoryPool, type MemoryDisk } from '../pools/memory.ts';
import type { Pool } from '../pools/pool.ts';
import { aCopy } from '../testing/labels.ts';
import { inventory } from './inventory.ts';
import { NodeReport, type BrokenPool, type Orphans } from './node-report.ts';

interface Reported {
  disk: MemoryDisk;
  pools: Map<string, Pool>;
  broken: Map<string, BrokenPool>;
  /** What this node knows of its address. */
  reach: { why: string | null };
  outside: { why: string | null };
  /** What others wait for on it. */
  waited: { by: 'io' | 'cpu' | null };
  /** What it knows of copies without records. */
  orphans: { known: Map<string, Orphans> | null };
  record: () => Promise<StorageNode>;
  /** Looks, reports, and reads the record. */
  report: () => Promise<{ [name: string]: PoolStatus }>;
}

function reported(): Reported {
  const client = new LocalClient({
    registry: new Registry({ table: new MemoryTable(), clock: systemClock, uid: randomUUID }),
    clock: systemClock,
  });
  const disk = memoryDisk('disk-1', 1n << 30n);
  const pools = new Map<string, Pool>([['local', new MemoryPool({ name: 'local', disk })]]);
  const broken = new Map<string, BrokenPool>();
  const reach: { why: string | null } = { why: null };
  const outside: { why: string | null } = { why: null };
  const waited: Reported['waited'] = { by: null };
  const orphans: { known: Map<string, Orphans> | null } = { known: new Map() };
  const looked = inventory(pools, broken);
  const report = new NodeReport({
    node: 'node-1',
    client,
    clock: systemClock,
    facts: {
      agentVersion: 'test',
      socket: '/agent.sock',
      filesystems: ['ext4'],
      canMount: true,
      whyNotReached: () => reach.why,
      whyOutside: () => outside.why,
      heldBack: () => waited.by,
    },
    pools,
    broken,
    inventory: looked,
    useMs: 0,
    transfer: () => null,
    orphans: async () => orphans.known,
  });
  return {
    disk,
    pools,
    broken,
    reach,
    outside,
    waited,
    orphans,
    record: () => client.get(StorageNodes, 'node-1'),
    report: async () => {
      looked.touched('local');
      await report.write(true);
      return (await client.get(StorageNodes, 'node-1')).status?.pools ?? {};
    },
  };
}

test('of a pool that is whole again, nothing is left of what was wrong', async () => {
  const { disk, report } = reported();
  const whole = await report();
  assert.deepEqual([whole['local']?.healthy, whole['local']?.obstacle], [true, undefined]);
  disk.gone = 'another mount';
  assert.match((await report())['local']?.obstacle?.message ?? '', /another mount/u);
  disk.gone = null;
  assert.deepEqual(await report(), whole);
});

test('a damaged copy is told of by its name, and the pool stays healthy', async () => {
  const { disk, pools, report } = reported();
  const [one, other] = [aCopy('a1'), aCopy('b2')];
  for (const { name, label } of [one, other]) await pools.get('local')?.create(name, 4096n, label);
  const whole = await report();
  disk.damaged.set(one.name, { damage: 'gone', labelled: true });
  disk.damaged.set(other.name, { damage: 'garbled', labelled: false });
  const { healthy, damaged } = (await report())['local'] ?? assert.fail();
  assert.deepEqual([healthy, damaged?.toSorted()], [true, [one.name, other.name]]);
  disk.damaged.clear();
  assert.deepEqual(await report(), whole);
});

test('what is foreign is told as long as it lies there', async () => {
  const { disk, report } = reported();
  disk.foreign.push('holiday.jpg');
  assert.deepEqual((await report())['local']?.foreign, ['holiday.jpg']);
  disk.foreign.pop();
  assert.equal((await report())['local']?.foreign, undefined);
});

test('which disk a pool was on stays recorded while it cannot be opened; one that is not configured any more goes', async () => {
  const { pools, broken, report } = reported();
  await report();
  pools.delete('local');
  broken.set('local', { type: 'image', message: 'not mounted' });
  assert.deepEqual(await report(), {
    local: { type: 'image', uuid: 'disk-1', healthy: false, obstacle: { reason: 'PoolNotUsable', message: 'not mounted' } },
  });
  broken.delete('local');
  assert.deepEqual(await report(), {});
});

test('a node that no other can reach says so as long as that is so, and is ready all the same', async () => {
  const { reach, outside, record, report } = reported();
  const conditions = async (): Promise<string[]> => {
    await report();
    return ((await record()).status?.conditions ?? []).map(({ type, status, message }) => `${type} ${status} ${message}`);
  };
  const ready = 'Ready True the agent of node node-1 runs';
  assert.deepEqual(await conditions(), [ready]);
  reach.why = 'nobody can reach it';
  assert.deepEqual(await conditions(), [ready, 'Unreachable True nobody can reach it']);
  reach.why = null;
  outside.why = 'it has no address there';
  assert.deepEqual(await conditions(), [ready, 'OutsideNetwork True it has no address there']);
  outside.why = null;
  assert.deepEqual(await conditions(), [ready]);
});

for (const { by, reason } of [
  { by: 'io', reason: 'DiskPressure' },
  { by: 'cpu', reason: 'ProcessorPressure' },
] as const)
  test(`a node on which copying gives way says so as long as it does: ${reason}`, async () => {
    const { waited, record, report } = reported();
    const reasons = async (): Promise<string[]> => {
      await report();
      return ((await record()).status?.conditions ?? []).map(({ reason: said }) => said ?? '');
    };
    waited.by = by;
    assert.deepEqual(await reasons(), ['AgentRuns', reason]);
    waited.by = null;
    assert.deepEqual(await reasons(), ['AgentRuns']);
  });

test('copies without a record are told of by name and volume, stay told of while that is not known again, and are gone when they are', async () => {
  const { orphans, report } = reported();
  orphans.known = new Map([['local', { one: 'db', other: 'web' }]]);
  assert.deepEqual((await report())['local']?.orphaned, { one: 'db', other: 'web' });
  orphans.known = null;
  assert.deepEqual((await report())['local']?.orphaned, { one: 'db', other: 'web' });
  orphans.known = new Map([['local', { other: 'web' }]]);
  assert.deepEqual((await report())['local']?.orphaned, { other: 'web' });
  orphans.known = new Map();
  assert.equal((await report())['local']?.orphaned, undefined);
});
