// Every gate of `npm run check` fails on a planted fault and passes without it: a gate that is silent for another reason would be
// noticed here. The faults are planted in a small project of their own under the real configuration.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { test, type TestContext } from 'node:test';

const ROOT = resolve(import.meta.dirname, '..');
const CONFIGURATION = [
  'package.json',
  'tsconfig.json',
  '.oxlintrc.json',
  'knip.json',
  '.prettierrc.json',
  '.prettierignore',
  'scripts/check.ts',
  'scripts/layers.ts',
];

interface Fault {
  gate: string;
  what: string;
  files: { [path: string]: string };
  /** What the gate must name. */
  says: RegExp;
}

const SOUND = {
  'src/model/size.ts': `export const double = (size: bigint): bigint => size * 2n;\n`,
  'src/decide/plan.ts': `import { double } from '../model/size.ts';\n\nexport const plan = (): bigint => double(1n);\n`,
  'src/cli/main.ts': `import { plan } from '../decide/plan.ts';\n\nprocess.stdout.write(String(plan()));\n`,
};

const inFunction = (lines: string): string => `export function f(a: number): number {\n${lines}\n  return a;\n}\n`;

const FAULTS: Fault[] = [
  {
    gate: 'types',
    what: 'a wrong type',
    files: { 'src/model/wrong.ts': `export const size: bigint = 'text';\n` },
    says: /TS2322/u,
  },
  {
    gate: 'types',
    what: 'syntax that cannot be erased',
    files: { 'src/model/wrong.ts': `export enum Role {\n  Active,\n}\n` },
    says: /TS1294/u,
  },
  {
    gate: 'lint',
    what: 'a function with too many ways through it',
    files: { 'src/model/wrong.ts': inFunction('  if (a === 1) return 2;\n'.repeat(11)) },
    says: /eslint\(complexity\)/u,
  },
  {
    gate: 'lint',
    what: 'blocks nested too deep',
    files: { 'src/model/wrong.ts': inFunction('  if (a) { if (a) { if (a) { if (a) { return 1; } } } }') },
    says: /eslint\(max-depth\)/u,
  },
  {
    gate: 'lint',
    what: 'too many parameters',
    files: {
      'src/model/wrong.ts': `export const f = (a: number, b: number, c: number, d: number, e: number): number => a + b + c + d + e;\n`,
    },
    says: /eslint\(max-params\)/u,
  },
  {
    gate: 'lint',
    what: 'too many statements',
    files: { 'src/model/wrong.ts': inFunction('  a += 1;\n'.repeat(21)) },
    says: /eslint\(max-statements\)/u,
  },
  {
    gate: 'lint',
    what: 'an exported function without a return type',
    files: { 'src/model/wrong.ts': `export function f(a: number) {\n  return a;\n}\n` },
    says: /explicit-module-boundary-types/u,
  },
  {
    gate: 'lint',
    what: 'a promise that nobody awaits',
    files: { 'src/model/wrong.ts': `const g = async (): Promise<void> => {};\nexport function f(): void {\n  g();\n}\n` },
    says: /no-floating-promises/u,
  },
  {
    gate: 'lint',
    what: 'a switch that forgets a member',
    files: {
      'src/model/wrong.ts': `export function f(a: 'x' | 'y'): number {\n  switch (a) {\n    case 'x':\n      return 1;\n  }\n  return 2;\n}\n`,
    },
    says: /switch-exhaustiveness-check/u,
  },
  {
    gate: 'lint',
    what: 'any',
    files: { 'src/model/wrong.ts': `export const f = (a: any): string => String(a);\n` },
    says: /no-explicit-any/u,
  },
  {
    gate: 'lint',
    what: 'an unused variable',
    files: { 'src/model/wrong.ts': inFunction('  const b = 1;') },
    says: /no-unused-vars/u,
  },
  {
    gate: 'layers',
    what: 'an import upwards',
    files: { 'src/model/wrong.ts': `import { plan } from '../decide/plan.ts';\n\nexport const wrong = plan;\n` },
    says: /src\/model\/wrong\.ts imports src\/decide\/\w+\.ts: src\/model is below src\/decide/u,
  },
  {
    gate: 'layers',
    what: 'an import of a type upwards',
    files: {
      'src/decide/seen.ts': `export interface Seen {\n  a: number;\n}\n`,
      'src/model/wrong.ts': `import type { Seen } from '../decide/seen.ts';\n\nexport const wrong = (seen: Seen): number => seen.a;\n`,
    },
    says: /src\/model\/wrong\.ts imports src\/decide\/\w+\.ts: src\/model is below src\/decide/u,
  },
  {
    gate: 'layers',
    what: 'an import upwards when it is needed',
    files: { 'src/model/wrong.ts': `export const wrong = (): Promise<unknown> => import('../decide/plan.ts');\n` },
    says: /src\/model is below src\/decide/u,
  },
  {
    gate: 'layers',
    what: 'an export from above',
    files: { 'src/model/wrong.ts': `export { plan } from '../decide/plan.ts';\n` },
    says: /src\/model is below src\/decide/u,
  },
  {
    gate: 'layers',
    what: 'a folder that nobody gave a place',
    files: { 'src/misc/a.ts': `import { double } from '../model/size.ts';\n\nexport const a = double;\n` },
    says: /src\/misc is in no layer/u,
  },
  {
    gate: 'layers',
    what: 'an agent that knows the controller',
    files: {
      'src/controller/c.ts': `export const c = 1;\n`,
      'src/agent/a.ts': `import { c } from '../controller/c.ts';\n\nexport const a = c;\n`,
    },
    says: /src\/agent and src\/controller do not know each other/u,
  },
  {
    gate: 'layers',
    what: 'files that need each other',
    files: {
      'src/api/a.ts': `import { b } from './b.ts';\n\nexport const a = (): number => b();\n`,
      'src/api/b.ts': `import { a } from './a.ts';\n\nexport const b = (): number => a();\n`,
    },
    says: /a circle: src\/api\/a\.ts → src\/api\/b\.ts → src\/api\/a\.ts/u,
  },
  {
    gate: 'layers',
    what: 'a fixture in the program',
    files: { 'src/testing/f.ts': `export const f = 1;\n`, 'src/api/a.ts': `import { f } from '../testing/f.ts';\n\nexport const a = f;\n` },
    says: /fixtures are for tests only/u,
  },
  {
    gate: 'layers',
    what: 'a decision that reads a file',
    files: {
      'src/decide/io.ts': `import { readFileSync } from 'node:fs';\n\nexport const io = (): string => readFileSync('x', 'utf8');\n`,
    },
    says: /src\/decide is pure/u,
  },
  {
    gate: 'unused',
    what: 'an export that nobody imports',
    files: { 'src/model/wrong.ts': `export const nobody = 1;\n` },
    says: /wrong\.ts/u,
  },
  {
    gate: 'format',
    what: 'another format',
    files: { 'src/model/wrong.ts': `export const a = "x"\n` },
    says: /wrong\.ts/u,
  },
];

function project(t: TestContext, files: { [path: string]: string }): string {
  const directory = mkdtempSync(join(tmpdir(), 'flock-check-'));
  t.after(() => rmSync(directory, { recursive: true }));
  for (const name of CONFIGURATION) cpSync(join(ROOT, name), join(directory, name));
  symlinkSync(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), text);
  }
  return directory;
}

function check(directory: string, gate: string): { status: number | null; output: string } {
  const ran = spawnSync(process.execPath, ['scripts/check.ts', gate], { cwd: directory, encoding: 'utf8' });
  return { status: ran.status, output: ran.stdout + ran.stderr };
}

for (const gate of ['types', 'lint', 'layers', 'format'])
  test(`${gate} passes a sound project`, (t) => {
    const { status, output } = check(project(t, SOUND), gate);
    assert.equal(status, 0, output);
  });

for (const { gate, what, files, says } of FAULTS)
  test(`${gate} fails on ${what}`, (t) => {
    const { status, output } = check(project(t, { ...SOUND, ...files }), gate);
    assert.notEqual(status, 0, output);
    assert.match(output, says);
  });

test('layers fails when it saw no module', (t) => {
  const { status, output } = check(project(t, {}), 'layers');
  assert.notEqual(status, 0, output);
});

test('a gate that does not exist fails', (t) => {
  assert.notEqual(check(project(t, SOUND), 'typos').status, 0);
});
