// What the doctor finds in the records and in a kubeconfig; a machine and processes are in up.test.ts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from '../api/client.ts';
import { openAuthority } from '../api/certificates.ts';
import { SYSTEM_NAMESPACE } from '../model/meta.ts';
import { Leases } from '../model/system.ts';
import { pool, putMove, putNode, putVolume, records } from '../testing/cli.ts';
import { fakeClock } from '../testing/fake-clock.ts';
import { memorySettings } from '../testing/memory-settings.ts';
import { authorityFinding, certificateFinding, machineFindings, recordFindings } from './doctor.ts';

const NOW = Date.UTC(2026, 5, 1);
const HEALTHY = { kernel: '6.1', root: true, loopDevices: true, canMount: true, filesystems: ['ext4' as const], missing: [] };

const renewTime = (secondsAgo: number): string => new Date(NOW - secondsAgo * 1000).toISOString();

const putLease = (client: Client, name: string, secondsAgo: number): Promise<unknown> =>
  client.create(Leases, {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name, namespace: SYSTEM_NAMESPACE },
    spec: { holderIdentity: 'one', leaseDurationSeconds: 15, renewTime: renewTime(secondsAgo) },
  });

/** What is wrong; with `meanwhile` the doctor watches the Leases, and that happens then. */
async function wrongIn(client: Client, meanwhile?: () => Promise<unknown>): Promise<string[]> {
  const clock = fakeClock(NOW);
  const found = recordFindings(client, clock);
  await clock.settle();
  await meanwhile?.();
  await clock.advance(11_000);
  return (await found).filter(({ state }) => state === 'wrong').map(({ text }) => text);
}

const obstacle = (reason: string, secondsAgo: number): { reason: string; message: string; since: string } => ({
  reason,
  message: 'that is why',
  since: renewTime(secondsAgo),
});
const moving = (client: Client, reason: string, secondsAgo: number): Promise<unknown> =>
  putMove(client, 'm', { volume: 'db', target: 'node-2' }, { phase: 'Syncing', obstacle: obstacle(reason, secondsAgo) });

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
  {
    what: 'an agent that no other reaches',
    make: (client) =>
      putNode(client, 'node-1', {
        conditions: [
          { type: 'Ready', status: 'True', reason: 'AgentRuns', message: 'runs', lastTransitionTime: '2026-01-01T00:00:00Z' },
          {
            type: 'Unreachable',
            status: 'True',
            reason: 'LoopbackAddress',
            message: 'it listens on 127.0.0.1',
            lastTransitionTime: '2026-01-01T00:00:00Z',
          },
        ],
      }),
    wrong: /it listens on 127\.0\.0\.1/u,
  },
  {
    what: 'an address that is none',
    make: (client) => putNode(client, 'node-1', { transfer: { address: '0.0.0.0', port: 9807 } }),
    wrong: /node node-1 says that it serves volume data at 0\.0\.0\.0, which is no address to reach it at/u,
  },
  {
    what: 'an address that only its machine reaches, beside another machine',
    make: async (client) => {
      await putNode(client, 'node-1', { transfer: { address: '127.0.0.1', port: 9807 } });
      await putNode(client, 'node-2', { transfer: { address: '10.1.0.6', port: 9807 } });
    },
    wrong: /node node-1 serves volume data at 127\.0\.0\.1, which only its own machine reaches, and not from 10\.1\.0\.6/u,
  },
  {
    what: 'one pool of two nodes',
    make: async (client) => {
      const pools = { local: pool({ uuid: '00000000-0000-4000-8000-000000000001' }) };
      for (const name of ['node-1', 'node-2']) await putNode(client, name, { pools });
    },
    wrong: /pools local of node node-1 and local of node node-2 are one/u,
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
  {
    what: 'a volume that waits since long',
    make: async (client) => {
      await putNode(client, 'node-1');
      await putVolume(client, 'db', { status: { phase: 'Pending', obstacle: obstacle('NoRoom', 300) } });
    },
    wrong: /volume db waits for 5m: NoRoom: that is why/u,
  },
  {
    what: 'a copy that is blocked while its volume is served',
    make: async (client) => {
      await putNode(client, 'node-1');
      await putVolume(client, 'db', {
        status: { copies: { c9: { node: 'node-2', pool: 'local', role: 'stale', obstacle: obstacle('CopyDamaged', 60) } } },
      });
    },
    wrong: /copy c9 of volume db on node node-2 is blocked for 1m: CopyDamaged: that is why/u,
  },
  {
    what: 'a move that stands still',
    make: async (client) => void (await putNode(client, 'node-1'), await moving(client, 'SourceUnreachable', 600)),
    wrong: /move m of volume db to node node-2 stands still for 10m: SourceUnreachable: that is why; flockctl move cancel m ends it/u,
  },
  {
    what: 'a move that has just met an obstacle',
    make: async (client) => void (await putNode(client, 'node-1'), await moving(client, 'SourceUnreachable', 5)),
    wrong: null,
  },
];

for (const { what, make, wrong } of CASES)
  test(`records: ${what}`, async () => {
    const client = records();
    await putLease(client, 'flock-controller', 1);
    await make(client);
    const found = await wrongIn(client);
    if (wrong === null) return assert.deepEqual(found, []);
    assert.equal(found.length, 1, found.join('\n'));
    assert.match(found[0] ?? '', wrong);
  });

type LeaseTimes = [name: string, secondsAgo: number][];

/** `renewed`: while they are watched; a time that is to come is told as a negative one. */
const LEASES: { what: string; leases: LeaseTimes; renewed?: LeaseTimes; wrong: RegExp | null }[] = [
  { what: 'no controller', leases: [], wrong: /no controller works: start one/u },
  { what: 'a controller that fell silent', leases: [['flock-controller', 90]], wrong: /the controller one has been silent for 1m33s/u },
  { what: 'a controller that is about to renew', leases: [['flock-controller', 2]], wrong: null },
  { what: 'a controller that came just now', leases: [['flock-controller', 90]], renewed: [['flock-controller', 1]], wrong: null },
  {
    what: 'a clock that is behind',
    leases: [['flock-controller', -60]],
    renewed: [['flock-controller', -61]],
    wrong: /this machine's clock is 58s behind another's of the cluster: keep all/u,
  },
  {
    what: 'a clock that is ahead: the controller works, whatever the times say',
    leases: [['flock-controller', 90]],
    renewed: [['flock-controller', 88]],
    wrong: /this machine's clock is 1m29s ahead of the controller's/u,
  },
  {
    what: "a node's clock that is behind",
    leases: [
      ['flock-controller', 1],
      ['node-node-1', 50],
    ],
    renewed: [
      ['flock-controller', -10],
      ['node-node-1', 40],
    ],
    wrong: /the clock of node node-1 is 39s behind the controller's/u,
  },
  {
    what: 'the overdue Lease of a node whose agent was killed: it says nothing about a clock',
    leases: [
      ['flock-controller', 1],
      ['node-node-1', 16],
    ],
    renewed: [['flock-controller', -10]],
    wrong: null,
  },
  {
    what: 'an overdue Lease that is renewed in time after all',
    leases: [
      ['flock-controller', 1],
      ['node-node-1', 16],
    ],
    renewed: [
      ['flock-controller', -10],
      ['node-node-1', -3],
    ],
    wrong: null,
  },
  {
    what: "a node's clock within its beat",
    leases: [
      ['flock-controller', 1],
      ['node-node-1', 12],
    ],
    wrong: null,
  },
];

for (const { what, leases, renewed = [], wrong } of LEASES)
  test(`leases: ${what}`, async () => {
    const client = records();
    await putNode(client, 'node-1');
    for (const lease of leases) await putLease(client, ...lease);
    const renew = async (): Promise<void> => {
      for (const [name, secondsAgo] of renewed)
        await client.patch(Leases, name, { spec: { renewTime: renewTime(secondsAgo) } }, { namespace: SYSTEM_NAMESPACE });
    };
    const found = await wrongIn(client, renew);
    if (wrong === null) return assert.deepEqual(found, []);
    assert.equal(found.length, 1, found.join('\n'));
    assert.match(found[0] ?? '', wrong);
  });

test('what a person knows of, or may leave as it is, is noted and not wrong', async () => {
  const client = records();
  await putLease(client, 'flock-controller', 1);
  await putNode(client, 'node-1', { pools: { local: pool({ foreign: ['old.img'] }) } });
  await putVolume(client, 'db');
  await moving(client, 'WaitingForUnpublish', 600);
  const noted = (await recordFindings(client, fakeClock(NOW))).filter(({ state }) => state === 'note').map(({ text }) => text);
  assert.equal(noted.length, 2);
  assert.match(noted[0] ?? '', /pool local of node node-1 holds 1 thing that is no copy .*flockctl node show node-1/u);
  assert.match(
    noted[1] ?? '',
    /move m of volume db to node node-2 stands still for 10m: WaitingForUnpublish: that is why; flockctl move cancel m ends it/u,
  );
});

test('a node outside the network that it was to prefer is noted', async () => {
  const client = records();
  await putLease(client, 'flock-controller', 1);
  const at = { status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' } as const;
  const conditions = [
    { ...at, type: 'Ready', reason: 'AgentRuns', message: 'runs' },
    { ...at, type: 'OutsideNetwork', reason: 'NoAddress', message: 'no address is in 10.99.0.0/16' },
  ];
  await putNode(client, 'node-1', { conditions });
  const noted = (await recordFindings(client, fakeClock(NOW))).filter(({ state }) => state === 'note').map(({ text }) => text);
  assert.deepEqual(noted, ['node node-1: no address is in 10.99.0.0/16']);
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

test('of several generations of the authority the last one counts', async () => {
  const [old, next] = await Promise.all(
    [0, 300].map(async (days) => (await openAuthority(memorySettings(), fakeClock(NOW + days * DAY))).issueAdmin()),
  );
  const both = `${next?.certificate}\n${old?.certificate}`;
  assert.equal(authorityFinding(both, NOW + 400 * DAY).state, 'ok');
  assert.match(authorityFinding(old?.certificate ?? '', NOW + 400 * DAY).text, /authority in the kubeconfig has expired/u);
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
