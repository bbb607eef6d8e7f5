// What the doctor finds in the records and in a kubeconfig; a machine and processes are in up.test.ts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from '../api/client.ts';
import { openAuthority } from '../api/certificates.ts';
import { SYSTEM_NAMESPACE } from '../model/meta.ts';
import { Leases } from '../model/system.ts';
import { pool, putNode, putVolume, records } from '../testing/cli.ts';
import { fakeClock } from '../testing/fake-clock.ts';
import { memorySettings } from '../testing/memory-settings.ts';
import { certificateFinding, machineFindings, recordFindings } from './doctor.ts';

const NOW = Date.UTC(2026, 5, 1);
const HEALTHY = { kernel: '6.1', root: true, loopDevices: true, canMount: true, filesystems: ['ext4' as const], missing: [] };

const putLease = (client: Client, name: string, secondsAgo: number): Promise<unknown> =>
  client.create(Leases, {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name, namespace: SYSTEM_NAMESPACE },
    spec: { holderIdentity: 'one', leaseDurationSeconds: 15, renewTime: new Date(NOW - secondsAgo * 1000).toISOString() },
  });

const NOT_READY = {
  type: 'Ready',
  status: 'False',
  reason: 'AgentSilent',
  message: 'silent for 60 s',
  lastTransitionTime: '2026-01-01T00:00:00Z',
} as const;
const BLOCKED = { phase: 'Blocked', obstacle: { reason: 'RecordBehind', message: 'records were rolled back' } } as const;

const CASES: { what: string; make: (client: Client) => Promise<unknown>; wrong: RegExp | null }[] = [
  { what: 'all is well', make: (client) => putNode(client, 'node-1'), wrong: null },
  { what: 'no node', make: async () => {}, wrong: /no node has enrolled; flockctl server invite/u },
  {
    what: 'a silent agent',
    make: (client) => putNode(client, 'node-1', { conditions: [NOT_READY] }),
    wrong: /node node-1 is not ready: AgentSilent: silent for 60 s; start its agent/u,
  },
  {
    what: 'an agent that never came',
    make: (client) => putNode(client, 'node-1', { conditions: [] }),
    wrong: /its agent has not reported yet/u,
  },
  { what: 'no pool', make: (client) => putNode(client, 'node-1', { pools: {} }), wrong: /node node-1 has no pool/u },
  {
    what: 'a sick pool',
    make: (client) =>
      putNode(client, 'node-1', { pools: { local: pool({ healthy: false, obstacle: { reason: 'NotMounted', message: 'mount it' } }) } }),
    wrong: /pool local of node node-1: mount it/u,
  },
  {
    what: 'a blocked volume',
    make: async (client) => void (await putNode(client, 'node-1'), await putVolume(client, 'db', { status: BLOCKED })),
    wrong: /volume db is blocked: RecordBehind: records were rolled back/u,
  },
];

for (const { what, make, wrong } of CASES)
  test(`records: ${what}`, async () => {
    const client = records();
    await putLease(client, 'flock-controller', 1);
    await make(client);
    const found = (await recordFindings(client, NOW)).filter(({ state }) => state === 'wrong').map(({ text }) => text);
    if (wrong === null) return assert.deepEqual(found, []);
    assert.equal(found.length, 1, found.join('\n'));
    assert.match(found[0] ?? '', wrong);
  });

const LEASES: { what: string; lease: [string, number] | null; wrong: RegExp }[] = [
  { what: 'no controller', lease: null, wrong: /no controller works: start one/u },
  { what: 'a controller that fell silent', lease: ['flock-controller', 90], wrong: /the controller one has been silent for 1m30s/u },
  {
    what: 'a clock that is behind',
    lease: ['flock-controller', -60],
    wrong: /clock is 1m behind another's of the cluster: keep all of them in time/u,
  },
];

for (const { what, lease, wrong } of LEASES)
  test(`leases: ${what}`, async () => {
    const client = records();
    await putNode(client, 'node-1');
    if (lease !== null) await putLease(client, ...lease);
    const found = (await recordFindings(client, NOW)).filter(({ state }) => state === 'wrong').map(({ text }) => text);
    assert.equal(found.length, 1, found.join('\n'));
    assert.match(found[0] ?? '', wrong);
  });

const DAY = 24 * 3_600_000;
for (const [days, state, says] of [
  [0, 'ok', /is good until/u],
  [340, 'wrong', /ends soon.*restart it/u],
  [400, 'wrong', /has expired/u],
] as const)
  test(`a certificate after ${days} days is ${state}`, async () => {
    const clock = fakeClock(NOW);
    const { certificate } = await (await openAuthority(memorySettings(), clock)).issueAdmin();
    const finding = certificateFinding(certificate, NOW + days * DAY);
    assert.equal(finding.state, state);
    assert.match(finding.text, says);
  });

const MACHINES: { what: string; abilities: Parameters<typeof machineFindings>[0]; states: string[] }[] = [
  { what: 'root that can mount', abilities: HEALTHY, states: ['ok'] },
  { what: 'another user', abilities: { ...HEALTHY, root: false, canMount: false, missing: ['not root'] }, states: ['ok', 'note'] },
  { what: 'root without loop devices', abilities: { ...HEALTHY, canMount: false, missing: ['no loop'] }, states: ['wrong', 'note'] },
  { what: 'a filesystem less', abilities: { ...HEALTHY, missing: ['no btrfs volumes'] }, states: ['ok', 'note'] },
];

for (const { what, abilities, states } of MACHINES)
  test(`machine: ${what}`, () => {
    assert.deepEqual(
      machineFindings(abilities).map(({ state }) => state),
      states,
    );
  });
