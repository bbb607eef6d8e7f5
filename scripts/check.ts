// `npm run check`: every gate once, all of them even when one fails, and last the counts. A gate names what it looked at; one that saw
// nothing fails. Knows the gates' commands only; what they hold is in their own files.
import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { delimiter, resolve } from 'node:path';

interface Gate {
  name: string;
  /** A command of node_modules/.bin, and its arguments. */
  command: [string, ...string[]];
  /** What is wrong with an output that came with status 0. */
  judge?: (output: string) => string | null;
}

/** dependency-cruiser answers 0 also when it found no module that it can read. */
function sawEveryModule(output: string): string | null {
  const seen = Number(/\((\d+) modules/u.exec(output)?.[1] ?? 0);
  const there = globSync('src/**/*.ts').length;
  return there > 0 && seen >= there ? null : `the layer rule saw ${seen} of ${there} modules`;
}

const GATES: Gate[] = [
  { name: 'types', command: ['tsc', '--noEmit', '-p', '.'] },
  { name: 'lint', command: ['oxlint', '--type-aware', '--deny-warnings'] },
  { name: 'layers', command: ['depcruise', 'src', '--config', '.dependency-cruiser.json'], judge: sawEveryModule },
  { name: 'unused', command: ['knip', '--no-config-hints', '--no-progress'] },
  { name: 'format', command: ['prettier', '--check', '--log-level', 'warn', '.'] },
];

/** null when the gate holds, else what it said. */
function complaint(gate: Gate): string | null {
  const [name, ...rest] = gate.command;
  // The gates' own first lines say `env node`: that must be the pinned one, however this script was started.
  const PATH = `${resolve('node_modules/.bin')}${delimiter}${process.env['PATH'] ?? ''}`;
  const ran = spawnSync(`node_modules/.bin/${name}`, rest, { encoding: 'utf8', maxBuffer: 2 ** 26, env: { ...process.env, PATH } });
  const output = `${ran.stdout}${ran.stderr}`;
  if (ran.error) return ran.error.message;
  if (ran.status !== 0) return output;
  return gate.judge?.(output) ?? null;
}

const wanted = process.argv.slice(2);
const gates = GATES.filter((gate) => wanted.length === 0 || wanted.includes(gate.name));
let failed = 0;
for (const gate of gates) {
  const said = complaint(gate);
  if (said !== null) failed += 1;
  process.stdout.write(said === null ? `ok     ${gate.name}\n` : `FAILED ${gate.name}\n${said}\n`);
}
process.stdout.write(`${gates.length - failed} passed, ${failed} failed\n`);
process.exitCode = failed > 0 || gates.length === 0 ? 1 : 0;
