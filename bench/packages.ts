// The programs that references need: looked for, and installed from Debian where that can be.
import { messageOf } from '../src/model/errors.ts';
import { run } from '../src/host/run.ts';
import type { Reference } from './references.ts';
import { say } from './say.ts';

const LONG = { timeout: 600_000 };

/** Installs what is missing, and says so; the names of the programs that are missing all the same. */
export async function missingPrograms(references: readonly Pick<Reference, 'needs'>[]): Promise<Set<string>> {
  const needs = Object.assign({}, ...references.map((reference) => reference.needs)) as { [program: string]: string };
  const before = await absent(Object.keys(needs));
  if (before.length === 0) return new Set();
  const packages = [...new Set(before.map((program) => needs[program] as string))];
  say(`installing ${packages.join(', ')}`);
  try {
    await run('apt-get', ['-qq', 'update'], LONG);
    await run('apt-get', ['-qq', 'install', '-y', '--no-install-recommends', ...packages], LONG);
  } catch (error) {
    say(`could not be installed: ${messageOf(error)}`);
  }
  const left = await absent(before);
  for (const program of left) say(`${program} is missing: what needs it is not measured`);
  return new Set(left);
}

async function absent(programs: string[]): Promise<string[]> {
  const found = await Promise.all(programs.map((program) => run('which', [program], { allow: [1] })));
  return programs.filter((_, index) => found[index]?.exitCode !== 0);
}
