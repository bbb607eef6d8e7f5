// `npm run e2e`: one real cluster, and on it one scenario after the other, each a test file beside this one. Last it prints the counts of all.
// Must not know what the scenarios do.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { endCluster, startCluster, surroundings, type Cluster } from './rig/cluster.ts';
import { NotBuilt } from './rig/built.ts';

interface Scenario {
  /** Of its file, NAME.test.ts, too. */
  name: string;
  about: string;
  /** Runs without --all. */
  core: boolean;
}

const SCENARIOS: readonly Scenario[] = [
  { name: 'rig', about: 'the cluster itself: nodes, pods, DNS, LVM, power cuts, partitions', core: true },
  { name: 'lvm', about: 'volumes on real LVM, thick and thin: made, grown, moved between nodes, deleted', core: false },
  { name: 'lvm-pools', about: 'every promise of a pool on real LVM; agents killed while they make points', core: false },
  { name: 'directory-pools', about: 'every promise of a pool of directories with project quotas', core: false },
  { name: 'csi-lvm', about: 'csi-sanity, the conformance suite, with pools on real LVM', core: false },
  { name: 'chart', about: 'the chart: linted, rendered, judged by the API server', core: true },
  {
    name: 'volume-groups',
    about: "Flock by the README's lines from a volume group to a default class; claims on thick and thin LVM",
    core: true,
  },
  { name: 'csi', about: 'Flock by its chart: claims in pods that write, growing, deleting', core: false },
  { name: 'snapshots', about: 'snapshots of claims, and claims that begin with one or with another claim', core: true },
  { name: 'rights', about: 'what an agent may write: its own node and nothing else', core: false },
  { name: 'moving', about: 'volumes that follow their pods to other nodes', core: false },
  { name: 'failures', about: 'controllers, kubelets and nodes that die; more claims than room', core: false },
  { name: 'upgrade', about: 'the driver replaced while pods write, taken away and installed again', core: false },
  { name: 'agents', about: 'agents that are killed in each call of a kubelet', core: false },
  { name: 'many', about: '200 volumes made and deleted, 500 at once: memory, and what is left', core: false },
];

/** Longest a single test may take, ms. */
const LONGEST_TEST = 1_200_000;
const NODES = 3;

interface Counts {
  passed: number;
  failed: number;
}

const name = process.env['FLOCK_RIG'] ?? 'e2e';
const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** Throws when a name is not known. */
function chosen(only: readonly string[], all: boolean): Scenario[] {
  const unknown = only.find((each) => !SCENARIOS.some((scenario) => scenario.name === each));
  if (unknown !== undefined) throw new Error(`there is no scenario ${unknown}; --list tells which there are`);
  return SCENARIOS.filter((scenario) => (only.length > 0 ? only.includes(scenario.name) : all || scenario.core));
}

function list(): void {
  for (const { name: scenario, about, core } of SCENARIOS) say(`${scenario.padEnd(14)} ${core ? '     ' : '--all'} ${about}`);
}

/** The scenario's test file, inside the cluster's network: it reaches the API server, pods and Services by their addresses. */
async function play(cluster: Cluster, scenario: Scenario): Promise<Counts> {
  const { argv, env } = surroundings(cluster);
  const [program, ...before] = argv;
  const file = join(import.meta.dirname, `${scenario.name}.test.ts`);
  const reporter = join(import.meta.dirname, '../scripts/test-reporter.ts');
  const words = [process.execPath, '--test', `--test-timeout=${LONGEST_TEST}`, `--test-reporter=${reporter}`, file];
  const child = spawn(program, [...before, ...words], { stdio: ['ignore', 'pipe', 'inherit'], env });
  const closed = once(child, 'close') as Promise<[number | null]>;
  let output = '';
  for await (const part of child.stdout) {
    output += String(part);
    process.stdout.write(part as Buffer);
  }
  const [code] = await closed;
  return countsIn(output, code === 0);
}

/** Of the reporter's last line. One that fails without counting a failure counts as one. */
function countsIn(output: string, succeeded: boolean): Counts {
  const [, passed = 0, failed = 0] = [...output.matchAll(/^(\d+) passed, (\d+) failed/gmu)].at(-1) ?? [];
  return { passed: Number(passed), failed: Math.max(Number(failed), succeeded ? 0 : 1) };
}

async function playAll(scenarios: readonly Scenario[]): Promise<Counts> {
  const began = Date.now();
  await endCluster(name);
  const cluster = await startCluster(name, NODES);
  say(`== a cluster of ${NODES} nodes is Ready after ${seconds(began)} s`);
  const all: Counts = { passed: 0, failed: 0 };
  for (const scenario of scenarios) {
    const at = Date.now();
    say(`== ${scenario.name}: ${scenario.about}`);
    const counts = await play(cluster, scenario);
    say(`== ${scenario.name} took ${seconds(at)} s`);
    all.passed += counts.passed;
    all.failed += counts.failed;
  }
  return all;
}

const seconds = (since: number): number => Math.round((Date.now() - since) / 1000);

/** What is started is ended, however this ends; but for SIGKILL, after which the next run or `rig down` does it. */
async function main(): Promise<Counts> {
  const options = {
    all: { type: 'boolean' },
    only: { type: 'string', multiple: true },
    keep: { type: 'boolean' },
    list: { type: 'boolean' },
  } as const;
  const { values } = parseArgs({ options });
  if (values.list) {
    list();
    process.exit(0);
  }
  const scenarios = chosen(values.only ?? [], values.all ?? false);
  // The signal may come twice, to this process and through npm: the second one must not break off what the first one began.
  let ending: Promise<void> | null = null;
  const end = (): void => void (ending ??= endCluster(name).finally(() => process.exit(1)));
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, end);
  try {
    return await playAll(scenarios);
  } finally {
    if (values.keep)
      say(`== the cluster is kept: FLOCK_RIG=${name} e2e/rig/rig kubectl get nodes; end it with FLOCK_RIG=${name} e2e/rig/rig down`);
    else await endCluster(name);
  }
}

const counts = await main().catch((error: unknown): Counts => {
  if (!(error instanceof NotBuilt)) say(error instanceof Error ? error.message : String(error));
  return { passed: 0, failed: 1 };
});
say(`${counts.passed} passed, ${counts.failed} failed`);
process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;
