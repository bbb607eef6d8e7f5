// Breaks the shipped code on purpose, one small patch at a time on a copy of the sources, and demands that the simulation sees it within as
// many histories as two idle processors play in 90 seconds; what the simulation cannot see by its nature, a named test has to see. What sees a
// mutation must see nothing in the code as it is: that is tried first. A patch that does not apply any more is a fault: then the code it is
// about has changed, and the patch has to follow.
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { MUTATIONS, type Mutation, type Witness } from './mutations.ts';

const ROOT = resolve(import.meta.dirname, '../..');

interface Verdict {
  passed: boolean;
  how: string;
}

interface Task {
  name: string;
  run: (folder: string) => Promise<Verdict>;
}

export interface MutationOptions {
  /** Those whose name contains one of them; all without words. */
  words: readonly string[];
  /** Histories that have to be enough. */
  enough: number;
  workers: number;
}

/** Mutates, plays and judges. True when everything held before, and every mutation was caught. */
export async function checkMutations({ words, enough, workers }: MutationOptions, say: (line: string) => void): Promise<boolean> {
  const wanted = MUTATIONS.filter(({ name }) => words.length === 0 || words.some((word) => name.includes(word)));
  const began = performance.now();
  const mutated = wanted.map((mutation) => ({
    name: `${mutation.name} (${mutation.rule})`,
    run: (folder: string) => check(mutation, folder, enough),
  }));
  const tasks = [...unbroken(wanted), ...mutated];
  const failed = await runAll(tasks, workers, ({ name }, { passed, how }, seconds) =>
    say(`${passed ? 'passed' : 'FAILED'} ${name}, ${seconds.toFixed(1)} s\n       ${how}`),
  );
  say(`${wanted.length} mutations in ${((performance.now() - began) / 1_000).toFixed(0)} s`);
  say(`${tasks.length - failed} passed, ${failed} failed`);
  return failed === 0 && wanted.length > 0;
}

/** How many failed. */
async function runAll(
  tasks: readonly Task[],
  workers: number,
  tell: (task: Task, verdict: Verdict, seconds: number) => void,
): Promise<number> {
  const waiting = [...tasks];
  let failed = 0;
  const work = async (): Promise<void> => {
    const folder = copyOfSources();
    try {
      for (let task = waiting.shift(); task; task = waiting.shift()) {
        const began = performance.now();
        const verdict = await task.run(folder);
        if (!verdict.passed) failed += 1;
        tell(task, verdict, (performance.now() - began) / 1_000);
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
  return failed;
}

function copyOfSources(): string {
  const folder = mkdtempSync(join(tmpdir(), 'flock-mutation-'));
  for (const part of ['src', 'scripts', 'package.json', 'tsconfig.json']) cpSync(join(ROOT, part), join(folder, part), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

// ---- the code as it is ---------------------------------------------------------------------------------------------------------

/** A witness who cries always has seen nothing: every named test passes, and every history that is to see something is sound. */
function unbroken(mutations: readonly Mutation[]): Task[] {
  const witnesses = mutations.flatMap(({ test }) => test ?? []);
  const tests = [...Map.groupBy(witnesses, ({ file }) => file)].map(([file, named]) => ({
    name: `as it is: ${file}`,
    run: (folder: string) => allPass(folder, file, [...new Set(named.map(({ name }) => name))]),
  }));
  const seeds = [...new Set(mutations.flatMap(({ seed }) => seed ?? []))];
  return seeds.length === 0
    ? tests
    : [...tests, { name: 'as it is: the histories by their seeds', run: (folder) => allSound(folder, seeds) }];
}

async function allPass(folder: string, file: string, names: readonly string[]): Promise<Verdict> {
  const { passes, failures, output } = await tested(folder, file, names);
  const unseen = names.filter((name) => !passes.some((line) => line.includes(name)));
  const passed = failures.length === 0 && unseen.length === 0;
  return {
    passed,
    how: passed ? `${passes.length} tests pass` : (failures[0] ?? `no test is called: ${unseen.join(', ')}\n${output.slice(-300)}`),
  };
}

async function allSound(folder: string, seeds: readonly number[]): Promise<Verdict> {
  const output = await outputOf(['scripts/simulate.ts', '--seeds', seeds.join(','), '--until-failure', '--workers', '1'], folder);
  const failure = /^FAILED .*$/mu.exec(output)?.[0];
  const played = output.includes(`${seeds.length} histories`);
  return {
    passed: played && failure === undefined,
    how: failure ?? (played ? `${seeds.length} histories, and every rule held` : output.slice(-300)),
  };
}

// ---- broken on purpose ---------------------------------------------------------------------------------------------------------

async function check(mutation: Mutation, folder: string, enough: number): Promise<Verdict> {
  const fault = apply(mutation, folder);
  try {
    if (fault !== null) return { passed: false, how: fault };
    return await (mutation.test === undefined ? played(mutation, folder, enough) : witnessed(mutation.test, folder));
  } finally {
    for (const { file } of mutation.patches) cpSync(join(ROOT, file), join(folder, file));
  }
}

/** What is wrong with the patch, or null. */
function apply({ patches }: Mutation, folder: string): string | null {
  for (const { file, search, replace } of patches) {
    const path = join(folder, file);
    const source = readFileSync(path, 'utf8');
    const times = source.split(search).length - 1;
    if (times !== 1) return `the patch does not apply: ${file} has ${JSON.stringify(search)} ${times} times`;
    writeFileSync(
      path,
      source.replace(search, () => replace),
    );
  }
  return null;
}

/** The seed that is known to see it first, and if it does not any more, one after the other. */
async function played({ seed }: Mutation, folder: string, enough: number): Promise<Verdict> {
  const known = seed === undefined ? null : await play(folder, ['--seeds', String(seed)]);
  if (known?.passed) return known;
  const found = await play(folder, ['--histories', String(enough), '--from', '1']);
  return { ...found, how: `${seed === undefined ? '' : `seed ${seed} sees it no more; `}${found.how}` };
}

async function play(folder: string, which: readonly string[]): Promise<Verdict> {
  const output = await outputOf(['scripts/simulate.ts', ...which, '--until-failure', '--workers', '1'], folder);
  const failure = /^FAILED (seed \d+: .*)$/mu.exec(output)?.[1];
  const run = /^(\d+ histories) .* in ([\d.]+ s)/mu.exec(output);
  if (!run) return { passed: false, how: `the simulation did not run: ${output.slice(-500)}` };
  if (failure === undefined) return { passed: false, how: `${run[1]} in ${run[2]}, and every rule held` };
  // A patch that does not even run proves nothing.
  const broken = /the simulation itself failed|the history does not end|no error is lost|crash points/u.test(failure);
  return { passed: !broken, how: `${failure.slice(0, 300)}; ${run[1]} in ${run[2]}` };
}

async function witnessed({ file, name }: Witness, folder: string): Promise<Verdict> {
  const { failures, output } = await tested(folder, file, [name]);
  // A machine that is too busy proves nothing, nor does a file that cannot be loaded: then it is the file that fails, not the test.
  const seen = failures.filter((line) => line.includes(name));
  return { passed: seen.length > 0 && !/test timed out/u.test(output), how: `${file}: ${seen[0]?.trim() ?? output.slice(-300)}` };
}

interface Tested {
  passes: string[];
  failures: string[];
  output: string;
}

async function tested(folder: string, file: string, names: readonly string[]): Promise<Tested> {
  const patterns = names.map((name) => `--test-name-pattern=${name.replaceAll(/[.*+?^${}()|[\]\\]/gu, String.raw`\$&`)}`);
  const options = ['--test', '--test-reporter=spec', '--test-timeout=200000', ...patterns];
  const output = await outputOf([...options, file], folder);
  const lines = (mark: string): string[] => output.split('\n').filter((line) => line.trimStart().startsWith(mark));
  return { passes: lines('✔'), failures: lines('✖').filter((line) => !line.includes('failing tests:')), output };
}

function outputOf(argv: readonly string[], cwd: string): Promise<string> {
  return new Promise((resolveOutput, reject) => {
    const env = { ...process.env, NODE_COMPILE_CACHE: join(cwd, 'compiled') };
    const child = spawn(process.execPath, argv, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    const take = (chunk: Buffer): void => void (output += chunk.toString());
    child.stdout.on('data', take);
    child.stderr.on('data', take);
    child.once('error', reject);
    child.once('close', () => resolveOutput(output));
  });
}
