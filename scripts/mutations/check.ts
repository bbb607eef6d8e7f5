// Breaks the shipped code on purpose, one small patch at a time on a copy of the sources, and demands that the simulation sees it within as
// many histories as two idle processors play in 90 seconds; what the simulation cannot see by its nature, a test has to see. A patch that
// does not apply any more is a fault: then the code it is about has changed, and the patch has to follow.
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { MUTATIONS, type Mutation } from './mutations.ts';

const ROOT = resolve(import.meta.dirname, '../..');

interface Caught {
  caught: boolean;
  how: string;
}

/** Mutates, plays and judges those whose name contains one of the words; all without words. True when every one was caught. */
export async function checkMutations(words: readonly string[], enough: number, say: (line: string) => void): Promise<boolean> {
  const wanted = MUTATIONS.filter(({ name }) => words.length === 0 || words.some((word) => name.includes(word)));
  const waiting = [...wanted];
  let missed = 0;
  const work = async (): Promise<void> => {
    const folder = copyOfSources();
    try {
      for (let next = waiting.shift(); next; next = waiting.shift()) {
        const { caught, how } = await check(next, folder, enough);
        if (!caught) missed += 1;
        say(`${caught ? 'caught' : 'MISSED'} ${next.name} (${next.rule})\n       ${how}`);
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  say(`${wanted.length - missed} passed, ${missed} failed`);
  return missed === 0 && wanted.length > 0;
}

function copyOfSources(): string {
  const folder = mkdtempSync(join(tmpdir(), 'flock-mutation-'));
  for (const part of ['src', 'scripts', 'package.json', 'tsconfig.json']) cpSync(join(ROOT, part), join(folder, part), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

async function check(mutation: Mutation, folder: string, enough: number): Promise<Caught> {
  const fault = apply(mutation, folder);
  try {
    if (fault !== null) return { caught: false, how: fault };
    return await (mutation.test === undefined ? played(mutation, folder, enough) : tested(mutation.test, folder));
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
async function played({ seed }: Mutation, folder: string, enough: number): Promise<Caught> {
  const known = seed === undefined ? null : await play(folder, seed, 1);
  return known?.caught ? known : play(folder, 1, enough);
}

async function play(folder: string, from: number, histories: number): Promise<Caught> {
  const options = ['--histories', String(histories), '--from', String(from), '--until-failure', '--workers', '1'];
  const { output } = await outputOf(['scripts/simulate.ts', ...options], folder);
  const failure = /^FAILED (seed \d+: .*)$/mu.exec(output)?.[1];
  const run = /^(\d+ histories) .* in ([\d.]+ s)/mu.exec(output);
  if (!run) return { caught: false, how: `the simulation did not run: ${output.slice(-500)}` };
  if (failure === undefined) return { caught: false, how: `${run[1]} in ${run[2]}, and every rule held` };
  // A patch that does not even run proves nothing.
  const broken = /the simulation itself failed|the history does not end|no error is lost|crash points/u.test(failure);
  return { caught: !broken, how: `${failure.slice(0, 300)}; ${run[1]} in ${run[2]}` };
}

async function tested(test: string, folder: string): Promise<Caught> {
  const { output, code } = await outputOf(['--test', '--test-timeout=200000', test], folder);
  const failures = output.match(/^\s*✖ .*$/gmu) ?? [];
  // A file that cannot be loaded proves nothing, nor does a machine that is too busy.
  const ran = /^ℹ pass [1-9]/mu.test(output) && !/test timed out/u.test(output);
  return { caught: code !== 0 && ran && failures.length > 0, how: `${test}: ${failures[0]?.trim() ?? output.slice(-300)}` };
}

function outputOf(argv: string[], cwd: string): Promise<{ output: string; code: number | null }> {
  return new Promise((resolveOutput, reject) => {
    const env = { ...process.env, NODE_COMPILE_CACHE: join(cwd, 'compiled') };
    const child = spawn(process.execPath, argv, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    const take = (chunk: Buffer): void => void (output += chunk.toString());
    child.stdout.on('data', take);
    child.stderr.on('data', take);
    child.once('error', reject);
    child.once('close', (code) => resolveOutput({ output, code }));
  });
}
