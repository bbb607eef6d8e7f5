// `npm run check`: every gate once, all of them even when one fails, and last the counts. Knows the gates' commands
// only; what they hold is in their own files.
import { spawnSync } from 'node:child_process';
import { delimiter, resolve } from 'node:path';

interface Gate {
  name: string;
  /** A command of node_modules/.bin, and its arguments. */
  command: [string, ...string[]];
}

const GATES: Gate[] = [
  { name: 'types', command: ['tsc', '--noEmit', '-p', '.'] },
  { name: 'lint', command: ['oxlint', '--type-aware', '--deny-warnings'] },
  { name: 'layers', command: ['node', 'scripts/layers.ts'] },
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
  return ran.status === 0 ? null : output;
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
