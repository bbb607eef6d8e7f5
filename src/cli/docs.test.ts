// What the documents say is true: the README's session runs as printed, commands and options are there, and so are the files and reasons
// that are named. A claim that needs judgement is not checked here.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { closeSync, existsSync, globSync, openSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { hostAbilities } from '../host/probe.ts';
import { systemClock } from '../model/clock.ts';
import { flockctl, records } from '../testing/cli.ts';
import { needsRoot, temporaryFolder } from '../testing/folders.ts';
import { bringDown } from './local/cluster.ts';
import { PACKAGE_ROOT } from './version.ts';

const DOCUMENTS = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...globSync('docs/**/*.md', { cwd: PACKAGE_ROOT })];
const textOf = (document: string): string => readFileSync(join(PACKAGE_ROOT, document), 'utf8');

const blocksOf = (document: string, language: string): string[] =>
  [...textOf(document).matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gmsu'))].map(([, block = '']) => block);

/** What stands between backticks in the running text. */
const quotedIn = (document: string): string[] =>
  [
    ...textOf(document)
      .replaceAll(/^```.*?^```$/gmsu, '')
      .matchAll(/`([^`\n]+)`/gu),
  ].map(([, quoted = '']) => quoted);

// ---- the session -----------------------------------------------------------------------------------------------------------------

interface Said {
  command: string;
  /** Lines that come in this order; … stands for anything. */
  expected: string[];
}

function session(document: string): Said[] {
  const said: Said[] = [];
  for (const line of blocksOf(document, 'console').join('').split('\n')) {
    if (line.startsWith('$ ')) said.push({ command: line.slice(2), expected: [] });
    else if (line !== '') said.at(-1)?.expected.push(line);
  }
  return said;
}

const MARK = '\u0001';

/** In one shell, as a reader types it; the output of each command. Fails with the first that fails. */
async function play(t: TestContext, commands: readonly string[]): Promise<string[]> {
  const folder = await temporaryFolder(t);
  const file = join(folder, 'output');
  const script = commands.map((command, index) => `printf '\\n${MARK}'\n${command}\n[ $? = 0 ] || exit ${index + 1}`).join('\n');
  const output = openSync(file, 'w');
  const env = { ...process.env, TMPDIR: folder, XDG_STATE_HOME: join(folder, 'state'), FLOCK_SERVER: '', FLOCK_KUBECONFIG: '' };
  const shell = spawn('bash', ['-c', script], { cwd: PACKAGE_ROOT, env, detached: true, stdio: ['ignore', output, output] });
  try {
    const code = await new Promise((resolve) => shell.on('exit', resolve));
    const text = readFileSync(file, 'utf8');
    assert.equal(code, 0, `${commands[Number(code) - 1] ?? 'the shell'} failed:\n${text.replaceAll(MARK, '')}`);
    return text.split(`\n${MARK}`).slice(1);
  } finally {
    closeSync(output);
    // Whatever it left in the background; and before the folder goes, which knows what runs.
    if (shell.pid !== undefined && isGroup(shell.pid)) process.kill(-shell.pid, 'SIGKILL');
    for (const cluster of globSync('*/cluster', { cwd: folder })) await bringDown(join(folder, cluster), true, systemClock);
  }
}

function isGroup(pid: number): boolean {
  try {
    return process.kill(-pid, 0);
  } catch {
    return false;
  }
}

const pattern = (line: string): RegExp =>
  new RegExp(
    `^ *${line
      .trim()
      .split('…')
      .map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|]/gu, '\\$&').replaceAll(/ +/gu, ' +'))
      .join('.*')} *$`,
    'u',
  );

/** Each expected line is there, in this order. */
function agree({ command, expected }: Said, output: string): void {
  const lines = output.split('\n');
  let from = 0;
  for (const line of expected) {
    const found = lines.findIndex((candidate, index) => index >= from && pattern(line).test(candidate));
    assert.ok(found >= 0, `$ ${command}\nshould say: ${line}\nsays: ${output}`);
    from = found + 1;
  }
}

const xfs = needsRoot === false && !(await hostAbilities()).filesystems.includes('xfs') ? 'needs xfs: install xfsprogs' : false;

test("the README's session runs as printed", { skip: needsRoot || xfs }, async (t) => {
  const said = session('README.md');
  assert.ok(said.length > 15, `the README has a session of ${said.length} commands only`);
  const outputs = await play(
    t,
    said.map(({ command }) => command),
  );
  assert.equal(outputs.length, said.length);
  said.forEach((each, index) => agree(each, outputs[index] ?? ''));
});

test('only the README has a session: what nobody runs is not shown as one', () => {
  for (const document of DOCUMENTS.filter((each) => each !== 'README.md')) assert.deepEqual(blocksOf(document, 'console'), [], document);
});

// ---- commands, files, reasons ----------------------------------------------------------------------------------------------------

const UNITS = globSync('systemd/*.service', { cwd: PACKAGE_ROOT });

const commandsIn = (document: string): string[] =>
  [...blocksOf(document, 'sh').flatMap((block) => block.split('\n')), ...quotedIn(document)].filter((text) =>
    /^flockctl [a-z]/u.test(text),
  );

/** What a unit starts. */
const commandOf = (unit: string): string => /^ExecStart=\S+\/(flockctl .*)$/mu.exec(textOf(unit))?.[1] ?? '';

test('every command in the documents exists, with its options', async () => {
  assert.equal(UNITS.length, 3);
  const commands = [
    ...DOCUMENTS.flatMap((document) => commandsIn(document).map((text) => ({ document, text }))),
    ...UNITS.map((unit) => ({ document: unit, text: commandOf(unit) })),
  ];
  assert.ok(commands.length > 5);
  for (const { document, text } of commands) {
    const words = text.split(' ').slice(1);
    const path = words.slice(
      0,
      words.findIndex((word, index) => index === words.length - 1 || !/^[a-z]+$/u.test(words[index + 1] ?? '')) + 1,
    );
    const { code, out, err } = await flockctl([...path, '--help'], { client: records() });
    assert.equal(code, 0, `${document}: ${text}\n${err}`);
    for (const option of words.filter((word) => word.startsWith('--')))
      assert.ok(out.includes(option) || ['volume', 'move', 'node'].includes(path.join(' ')), `${document}: ${text} has no ${option}`);
  }
});

test('every link in the documents leads somewhere', () => {
  for (const document of DOCUMENTS) {
    const links = [...textOf(document).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/gu)].map(([, link = '']) => link);
    for (const link of links.filter((each) => !/^https?:/u.test(each)))
      assert.ok(existsSync(join(PACKAGE_ROOT, dirname(document), link)), `${document}: ${link} is not there`);
  }
});

test('every file that the documents name is there', () => {
  const roots = ['', 'src', 'docs'].map((each) => join(PACKAGE_ROOT, each));
  const named = DOCUMENTS.flatMap((document) =>
    quotedIn(document)
      .filter(
        (quoted) =>
          /^[a-z][\w-]*(\/[\w.-]+)*\/?$/u.test(quoted) && /\/$|\.(ts|md|svg|json)$/u.test(quoted) && quoted.slice(0, -1).includes('/'),
      )
      .map((file) => ({ document, file })),
  );
  assert.ok(named.length > 20);
  for (const { document, file } of named.filter((each) => !each.file.startsWith('dist')))
    assert.ok(
      roots.some((root) => existsSync(join(root, file))),
      `${document}: ${file} is not there`,
    );
});

const folders = readdirSync(join(PACKAGE_ROOT, 'src'), { withFileTypes: true }).flatMap((entry) =>
  entry.isDirectory() ? [entry.name] : [],
);

test('every folder of the source is told of in ARCHITECTURE.md, and no other', () => {
  const told = [...textOf('ARCHITECTURE.md').matchAll(/^\*\*`src\/([a-z]+)\/`\*\*/gmu)].map(([, folder = '']) => folder);
  assert.deepEqual(told.toSorted(), folders.toSorted());
});

test('the layers in CONTRIBUTING.md are the folders of the source', () => {
  const rule = /Dependencies point downwards only: ([^.]*)\./u.exec(textOf('CONTRIBUTING.md'))?.[1] ?? '';
  const layers = rule.split(/[\s←,]+/u).filter(Boolean);
  assert.deepEqual(layers.toSorted(), folders.filter((folder) => folder !== 'testing').toSorted());
});

test('every reason and phase that the documents name is in the source', () => {
  const source = globSync('src/**/*.ts', { cwd: PACKAGE_ROOT })
    .map((file) => textOf(file))
    .join('\n');
  for (const document of DOCUMENTS.filter((each) => each !== 'docs/api-facts.md'))
    for (const word of quotedIn(document).filter((quoted) => /^[A-Z][a-z]+([A-Z][a-z]+)+$/u.test(quoted)))
      assert.ok(source.includes(word), `${document}: nothing in src is called ${word}`);
});

test('every decision is in the list of decisions', () => {
  const list = textOf('docs/decisions/README.md');
  const files = readdirSync(join(PACKAGE_ROOT, 'docs/decisions')).filter((name) => /^[0-9]{4}-/u.test(name));
  assert.ok(files.length > 10);
  for (const file of files) assert.ok(list.includes(`(${file})`), `${file} is not in the list`);
  assert.deepEqual(
    files.map((file) => Number(file.slice(0, 4))),
    files.map((_, index) => index + 1),
  );
});
