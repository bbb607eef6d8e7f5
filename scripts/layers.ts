// The layer rule: dependencies point downwards only, agent and controller do not know each other, what is pure does no I/O, fixtures stay
// in tests, and no files need each other in a circle. Reads the imports of every file below src/, those of types too. The last line says
// how many files it saw; none is a fault.
import { globSync, readFileSync } from 'node:fs';
import { join, normalize } from 'node:path';
import { parseSync } from 'oxc-parser';

/** From the bottom up. A folder knows itself and all that stand in lines below; those in one line know each other only where said. */
const LAYERS: { folders: string[]; together?: true; pure?: true }[] = [
  { folders: ['model'], pure: true },
  { folders: ['decide'], pure: true },
  { folders: ['api'] },
  { folders: ['host'] },
  { folders: ['pools'] },
  { folders: ['transfer'] },
  { folders: ['agent', 'controller'] },
  { folders: ['csi', 'kubernetes'], together: true },
  { folders: ['cli'] },
  // Plays the shipped code; only scripts and tests use it.
  { folders: ['simulation'] },
];

/** Tests, the fixtures that they share, and suites that several of them run. */
const FOR_TESTS = /\.test\.ts$|^src\/testing\/|\/contract[^/]*\.ts$/u;

interface Import {
  from: string;
  /** A file of ours, or a module's name as it is written. */
  to: string;
}

const folderOf = (file: string): string => file.split('/')[1] ?? '';
const heightOf = (file: string): number => LAYERS.findIndex(({ folders }) => folders.includes(folderOf(file)));

/** Everything that a file imports or exports from elsewhere, also by `import()`. */
function importsOf(file: string): Import[] {
  const source = readFileSync(file, 'utf8');
  const { module, errors } = parseSync(file, source);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0]?.message}`);
  const named = module.staticImports.map(({ moduleRequest }) => moduleRequest.value);
  const passedOn = module.staticExports.flatMap(({ entries }) => entries.flatMap(({ moduleRequest }) => moduleRequest?.value ?? []));
  const dynamic = module.dynamicImports.flatMap(
    ({ moduleRequest }) => /^['"](.*)['"]$/u.exec(source.slice(moduleRequest.start, moduleRequest.end))?.[1] ?? [],
  );
  const resolved = (name: string): string => (name.startsWith('.') ? normalize(join(file, '..', name)) : name);
  return [...named, ...passedOn, ...dynamic].map((name) => ({ from: file, to: resolved(name) }));
}

/** What is wrong with one import, or null. */
function faultOf({ from, to }: Import): string | null {
  if (FOR_TESTS.test(from)) return null;
  if (FOR_TESTS.test(to)) return 'fixtures are for tests only';
  const own = LAYERS[heightOf(from)];
  if (own === undefined) return `src/${folderOf(from)} is in no layer`;
  if (own.pure && to.startsWith('node:')) return `src/${folderOf(from)} is pure: it does no I/O`;
  return to.startsWith('src/') && folderOf(from) !== folderOf(to) ? faultBetween(from, to, own.together === true) : null;
}

function faultBetween(from: string, to: string, together: boolean): string | null {
  if (heightOf(to) > heightOf(from)) return `src/${folderOf(from)} is below src/${folderOf(to)}`;
  if (heightOf(to) < heightOf(from) || together) return null;
  return `src/${folderOf(from)} and src/${folderOf(to)} do not know each other`;
}

/** The circles, each once, as the files on it. */
function circlesIn(imports: readonly Import[]): string[][] {
  const next = Map.groupBy(imports, ({ from }) => from);
  const done = new Set<string>();
  const circles: string[][] = [];
  const visit = (file: string, path: string[]): void => {
    const at = path.indexOf(file);
    if (at >= 0) return void circles.push([...path.slice(at), file]);
    if (done.has(file)) return;
    for (const { to } of next.get(file) ?? []) visit(to, [...path, file]);
    done.add(file);
  };
  for (const file of next.keys()) visit(file, []);
  return circles;
}

const files = globSync('src/**/*.ts');
const imports = files.flatMap(importsOf);
const faults = [
  ...imports.flatMap((one) => {
    const fault = faultOf(one);
    return fault === null ? [] : [`${one.from} imports ${one.to}: ${fault}`];
  }),
  ...circlesIn(imports).map((circle) => `a circle: ${circle.join(' → ')}`),
  ...(files.length === 0 ? ['no file was found'] : []),
];
for (const fault of faults) process.stdout.write(`${fault}\n`);
process.stdout.write(`${files.length} files, ${imports.length} imports\n`);
process.exitCode = faults.length === 0 ? 0 : 1;
