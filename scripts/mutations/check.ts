// Breaks the shipped code on purpose, one small patch at a time on a copy of the sources, and demands that the simulation sees it within its
// 90 seconds. A patch that does not apply any more is a fault: then the code it is about has changed, and the patch has to follow.
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { MUTATIONS, type Mutation } from './mutations.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const SECONDS = 90;

interface Caught {
  caught: boolean;
  how: string;
}

/** Mutates, plays and judges those whose name contains one of the words; all without words. True when every one was caught. */
export async function checkMutations(words: readonly string[], say: (line: string) => void): Promise<boolean> {
  const wanted = MUTATIONS.filter(({ name }) => words.length === 0 || words.some((word) => name.includes(word)));
  const waiting = [...wanted];
  let missed = 0;
  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const { caught, how } = await check(next);
      if (!caught) missed += 1;
      say(`${caught ? 'caught' : 'MISSED'} ${next.name} (${next.rule})\n       ${how}`);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  say(`${wanted.length - missed} passed, ${missed} failed`);
  return missed === 0 && wanted.length > 0;
}

async function check(mutation: Mutation): Promise<Caught> {
  const folder = mkdtempSync(join(tmpdir(), 'flock-mutation-'));
  try {
    for (const part of ['src', 'scripts', 'package.json', 'tsconfig.json'])
      cpSync(join(ROOT, part), join(folder, part), { recursive: true });
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    const fault = apply(mutation, folder);
    return fault === null ? await play(folder) : { caught: false, how: fault };
  } finally {
    rmSync(folder, { recursive: true, force: true });
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

async function play(folder: string): Promise<Caught> {
  const options = ['--seconds', String(SECONDS), '--from', '1', '--until-failure', '--workers', '1'];
  const output = await outputOf(process.execPath, ['scripts/simulate.ts', ...options], folder);
  const failure = /^FAILED (seed \d+: .*)$/mu.exec(output)?.[1];
  const played = /^(\d+ histories) .* in ([\d.]+ s)/mu.exec(output);
  if (!played) return { caught: false, how: `the simulation did not run: ${output.slice(-500)}` };
  if (failure === undefined) return { caught: false, how: `${played[1]} in ${played[2]}, and every rule held` };
  // A patch that does not even run proves nothing.
  const broken = /the simulation itself failed|the history does not end|no error is lost|crash points/u.test(failure);
  return { caught: !broken, how: `${failure.slice(0, 300)}; ${played[1]} in ${played[2]}` };
}

function outputOf(command: string, argv: string[], cwd: string): Promise<string> {
  return new Promise((resolveOutput, reject) => {
    const child = spawn(command, argv, { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    const take = (chunk: Buffer): void => void (output += chunk.toString());
    child.stdout.on('data', take);
    child.stderr.on('data', take);
    child.once('error', reject);
    child.once('close', () => resolveOutput(output));
  });
}
