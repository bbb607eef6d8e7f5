// `npm run image`: the image of Flock from this checkout, as an OCI archive, without a container daemon. Three layers, so that a change of the
// sources changes only the last: what volumes are made with, Node.js and the packages, Flock. The Containerfile says the same for people.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { tarOf, writeArchive, type ImageArchive } from './archive.ts';

const ROOT = resolve(import.meta.dirname, '..');
const HOME = 'opt/flock';
/** npm's name for it. */
const CPUS = { amd64: 'x64', arm64: 'arm64' } as const;
export type Architecture = keyof typeof CPUS;
export const ARCHITECTURES = Object.keys(CPUS) as Architecture[];

const text = async (program: string, words: readonly string[], cwd = ROOT): Promise<string> =>
  (await promisify(execFile)(program, words, { cwd, maxBuffer: 2 ** 26, timeout: 900_000 })).stdout.trim();

/** Writes the archive of an image that is called `reference`. Layers that did not change are taken from the cache. */
export async function writeFlockImage(archive: string, reference: string, architecture: Architecture): Promise<void> {
  await mkdir(dirname(archive), { recursive: true });
  const base = await text('nice', ['sh', join(import.meta.dirname, 'base'), architecture]);
  const cache = dirname(base);
  const packages = await packagesLayer(cache, architecture);
  const work = await mkdtemp(join(cache, 'making-flock-'));
  try {
    const flock = await flockLayer(work);
    await writeArchive({ reference, architecture, layers: [base, packages, flock], config: await configuration() }, join(work, 'archive'));
    await cp(join(work, 'archive'), `${archive}.new`);
    await rename(`${archive}.new`, archive);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function configuration(): Promise<ImageArchive['config']> {
  const { version, license } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { version: string; license: string };
  return {
    // There is no udev in a container, and its device files are the host's.
    Env: [
      `PATH=/${HOME}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
      'DM_DISABLE_UDEV=1',
      'LVM_SUPPRESS_FD_WARNINGS=1',
    ],
    Entrypoint: [`/${HOME}/bin/flockctl`],
    Labels: { 'org.opencontainers.image.version': version, 'org.opencontainers.image.licenses': license },
  };
}

/** Node.js and the packages of package-lock.json, made again when that changes. */
async function packagesLayer(cache: string, architecture: Architecture): Promise<string> {
  const lock = await readFile(join(ROOT, 'package-lock.json'));
  const made = join(cache, `image-packages-${architecture}-${createHash('sha256').update(lock).digest('hex').slice(0, 16)}.tar`);
  if (existsSync(made)) return made;
  const work = await mkdtemp(join(cache, 'making-packages-'));
  try {
    const home = join(work, HOME);
    await mkdir(home, { recursive: true });
    for (const file of ['package.json', 'package-lock.json']) await cp(join(ROOT, file), join(home, file));
    const platform = ['--os=linux', `--cpu=${CPUS[architecture]}`, '--libc=glibc'];
    await text('npm', ['ci', '--omit=dev', ...platform, '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], home);
    const node = join(home, 'node_modules', `node-linux-${CPUS[architecture]}`);
    for (const unused of ['include', 'share']) await rm(join(node, unused), { recursive: true, force: true });
    await rm(join(home, 'package.json'));
    await rm(join(home, 'package-lock.json'));
    await tarOf(work, join(cache, 'making-packages.tar'));
    await rename(join(cache, 'making-packages.tar'), made);
    return made;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function flockLayer(work: string): Promise<string> {
  const home = join(work, 'flock', HOME);
  await mkdir(home, { recursive: true });
  // Types are judged by `npm run check`.
  await text(join(ROOT, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json', '--noCheck', '--outDir', join(home, 'dist')]);
  for (const part of ['bin', 'package.json', 'LICENSE']) await cp(join(ROOT, part), join(home, part), { recursive: true });
  await tarOf(join(work, 'flock'), join(work, 'flock.tar'));
  return join(work, 'flock.tar');
}
