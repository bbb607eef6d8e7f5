// Many volumes, one after the other and all at once: what agents and controllers hold in memory for them, and that nothing is left behind. Takes
// long. Needs a cluster as csi.test.ts.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { POOL } from './flock/chart.ts';
import { claim, items, until } from './flock/objects.ts';
import { nothingLeft, scenario } from './flock/scenario.ts';

const flock = scenario();
const MEBI = 2 ** 20;
const AT_ONCE = 20;
const CYCLES = 200;
const VOLUMES = 500;

/** Of every process of that part, on all nodes: resident bytes, sorted. */
async function resident(part: 'agent' | 'controller'): Promise<number[]> {
  const script = `for pid in /proc/[0-9]*; do
      tr '\\0' ' ' <$pid/cmdline 2>/dev/null | grep -q '/opt/flock/.*node .* ${part} ' && awk '/VmRSS/ { print $2 }' $pid/status
    done; true`;
  const answers = await Promise.all(flock.cluster.nodes.map((node) => node.ok(script)));
  return answers
    .flatMap((text) =>
      text
        .split('\n')
        .filter(Boolean)
        .map((kibibytes) => Number(kibibytes) * 1024),
    )
    .toSorted((a, b) => a - b);
}

const inMebi = (all: readonly number[]): string => all.map((bytes) => Math.round(bytes / MEBI)).join(', ');

/** Makes claims and takes them away again. */
async function cycle(name: string): Promise<void> {
  const own = await flock.space(name);
  await own.apply(...Array.from({ length: AT_ONCE }, (_, index) => claim(`claim-${index}`, { size: '16Mi', storageClass: 'flock-now' })));
  await until(AT_ONCE, async () => {
    const claims = await items<{ status?: { phase?: string } }>(flock.cluster.kubectl, 'pvc', '-n', own.name);
    return claims.filter(({ status }) => status?.phase === 'Bound').length;
  });
  await own.end();
}

describe(`${CYCLES} volumes that are made and deleted`, () => {
  it('leave nothing, and processes that are no larger', async (t) => {
    const booked = await flock.booked();
    const files = (): Promise<string[]> => Promise.all(flock.cluster.nodes.map((node) => node.ok(`ls /srv/flock/${POOL} | sort`)));
    await cycle('warm');
    const before = { agent: await resident('agent'), controller: await resident('controller') };
    const onDisk = await files();
    for (let each = 0; each < CYCLES / AT_ONCE; each += 1) await cycle(`cycle-${each}`);
    await nothingLeft(flock);
    await until(booked, flock.booked);
    assert.deepEqual(await files(), onDisk);
    for (const part of ['agent', 'controller'] as const) {
      const after = await resident(part);
      t.diagnostic(`${part}: ${inMebi(before[part])} MiB before, ${inMebi(after)} MiB after`);
      assert.ok(
        (after.at(-1) ?? 0) < (before[part].at(-1) ?? 0) + 40 * MEBI,
        `${part}: ${inMebi(before[part])}, then ${inMebi(after)} MiB`,
      );
    }
  });
});

describe(`${VOLUMES} volumes at once`, () => {
  it('are held by agents of 150 MB and controllers of 250 MB', async (t) => {
    const booked = await flock.booked();
    const volume = (index: number): object => ({
      apiVersion: 'flock.dev/v1alpha1',
      kind: 'Volume',
      metadata: { name: `many-${index}`, labels: { many: 'yes' } },
      spec: { size: '16Mi', pool: POOL },
    });
    const list = { apiVersion: 'v1', kind: 'List', items: Array.from({ length: VOLUMES }, (_, index) => volume(index)) };
    await flock.cluster.kubectl.ok(['create', '-f', '-'], JSON.stringify(list));
    const phases = async (): Promise<number> => {
      const volumes = await items<{ status?: { phase?: string } }>(flock.cluster.kubectl, 'volumes.flock.dev');
      return volumes.filter(({ status }) => status?.phase === 'Available').length;
    };
    await until(VOLUMES, phases, 900_000);
    const sizes = { agent: await resident('agent'), controller: await resident('controller') };
    t.diagnostic(`agents ${inMebi(sizes.agent)} MiB, controllers ${inMebi(sizes.controller)} MiB`);
    assert.ok((sizes.agent.at(-1) ?? 0) <= 150e6, `agents ${inMebi(sizes.agent)} MiB`);
    assert.ok((sizes.controller.at(-1) ?? 0) <= 250e6, `controllers ${inMebi(sizes.controller)} MiB`);
    await flock.cluster.kubectl.ok(['delete', 'volumes.flock.dev', '-l', 'many=yes', '--wait=false']);
    await nothingLeft(flock);
    await until(booked, flock.booked);
  });
});
