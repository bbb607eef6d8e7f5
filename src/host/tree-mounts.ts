// Mounts that show a directory or lie over it, in every mount namespace that a process is in: bind mounts by what of the filesystem they show,
// overlays by where their layers are. A process sees the mounts below its own root only, so each root of a namespace is asked.
import { readFileSync, readlinkSync, statSync } from 'node:fs';
import { namedProcess } from './holders.ts';
import { parseMounts, unescaped, type Mount } from './mountinfo.ts';
import { FORMATS, openDirectoryAt, statAt, withOpen, type Stat } from './tree-calls.ts';
import type { Task } from './tree-tasks.ts';
import { isWithinAny, orNull, type Suspect, type Tree } from './tree-uses.ts';

/** Mounts whose root is the tree or within it, whoever sees them, in words. */
export async function mountsOver(under: Mount, paths: readonly string[], tasks: readonly Task[]): Promise<string[]> {
  const roots = paths.map((path) => rootOf(under, path));
  const found: string[] = [];
  for (const { task, mounts } of views(tasks))
    for (const mount of mounts)
      if (isSameDisk(mount, under) && isWithinAny(mount.root, roots))
        found.push(`mounted at ${mount.target} for ${await namedProcess(task.pid)}`);
  return found;
}

/** Every mount of a btrfs has a number of its own. */
const isSameDisk = (mount: Mount, other: Mount): boolean => mount.number === other.number || mount.source === other.source;

/** The path within its filesystem. */
function rootOf({ root, target }: Mount, path: string): string {
  const below = target === '/' ? path : path.slice(target.length);
  return root === '/' ? below : `${root}${below}`;
}

interface View {
  task: Task;
  mounts: Mount[];
}

/** What is mounted as these tasks see it, each view once. */
function* views(tasks: readonly Task[]): Generator<View> {
  const seen = new Set<string>();
  for (const task of tasks) {
    const view = viewOf(task);
    if (view === null || seen.has(view)) continue;
    seen.add(view);
    yield { task, mounts: parseMounts(orNull(() => readFileSync(`${task.path}/mountinfo`, 'utf8')) ?? '') };
  }
}

function viewOf({ path }: Task): string | null {
  const namespace = orNull(() => readlinkSync(`${path}/ns/mnt`));
  if (namespace === null) return null;
  const root = orNull(() => statSync(`${path}/root`, { bigint: true }));
  return `${namespace} ${root?.dev} ${root?.ino} ${orNull(() => readlinkSync(`${path}/root`))}`;
}

/** Layers of overlays that lie on the tree's filesystem. */
export function overlaysOf(tree: Tree, tasks: readonly Task[]): Suspect[] {
  const seen = new Set<string>();
  const found: Suspect[] = [];
  for (const { task, mounts } of views(tasks))
    for (const layer of mounts.flatMap(layersOf)) {
      // Whoever copied a namespace has the same overlays.
      if (seen.has(layer.path)) continue;
      seen.add(layer.path);
      const ino = layerInode(layer, { task, tree });
      if (ino !== null) found.push({ pid: null, how: `an overlay mounted at ${layer.target} has its ${layer.option} in it`, ino });
    }
  return found;
}

interface Layer {
  target: string;
  option: string;
  path: string;
}

function layersOf({ filesystem, target, superOptions }: Mount): Layer[] {
  if (filesystem !== 'overlay') return [];
  return superOptions.flatMap((each) => {
    const [, option = '', value = ''] = /^((?:lower|upper|work|data)dir)\+?=(.*)$/su.exec(each) ?? [];
    const paths = option === 'lowerdir' ? unescaped(value).split(/(?<!\\):/u) : [unescaped(value)];
    return paths.filter((path) => option !== '' && path !== '').map((path) => ({ target, option, path: path.replaceAll('\\:', ':') }));
  });
}

/**
 * Its path is of the namespace and the time in which it was mounted: it is looked for by whoever sees it, by the first process, and by us. When
 * nobody finds it any more, a work directory is known by what an overlay makes in it.
 */
function layerInode({ option, path }: Layer, { task, tree }: { task: Task; tree: Tree }): bigint | null {
  const found = path.startsWith('/')
    ? [`${task.path}/root`, '/proc/1/root', ''].map((root) => orNull(() => statSync(`${root}${path}`, { bigint: true })))
    : [];
  const there = found.filter((stat) => stat !== null);
  const ours = there.find(({ dev }) => dev === tree.dev);
  if (ours) return ours.ino;
  return there.length === 0 && option === 'workdir' ? workInode(tree.root, path) : null;
}

/** Of the directory of the tree that is named as the path ends, and in which an overlay has made its own. */
function workInode(root: number, path: string): bigint | null {
  const names = path.split('/').filter((name) => name !== '');
  for (let from = 0; from < names.length; from += 1) {
    const end = names.slice(from);
    const made = below(root, [...end, 'work']);
    if (made?.format === FORMATS.dir && made.mode === 0) return below(root, end)?.ino ?? null;
  }
  return null;
}

function below(dir: number, [name = '', ...rest]: readonly string[]): Stat | null {
  try {
    const bytes = Buffer.from(name).toString('latin1');
    return rest.length === 0 ? statAt(dir, bytes) : withOpen(openDirectoryAt(dir, bytes), (fd) => below(fd, rest));
  } catch {
    return null;
  }
}
