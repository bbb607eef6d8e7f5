// Trees for tests: two pools of directories on one machine joined by a real TLS connection, and a walker of their own that tells what a tree
// is, without a line of what is tested. Only *.test.ts import it.
import { createHash } from 'node:crypto';
import { closeSync, constants, lstatSync, openSync, readdirSync, readFileSync, readlinkSync, type BigIntStats } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { attributeOf, attributesOf, O_PATH, openAt, withOpen } from '../host/tree-calls.ts';
import type { Pool, TreeHandle } from '../pools/pool.ts';
import type { Test } from './folders.ts';
import { temporaryFolder } from './folders.ts';
import { aRig, SOURCE, TARGET, type Rig } from './transfer-rig.ts';

export interface TreeRig extends Rig {
  /** The volume's root at each side. */
  from: string;
  to: string;
}

/** As much of a pool of directories as a transfer needs: the pool's own promises are tested with the pool. */
async function aPool(path: string, name: string): Promise<Pool> {
  const journals = join(path, 'journals');
  await mkdir(journals, { recursive: true });
  const nothing = async (): Promise<void> => {};
  const openTree = async (copy: string): Promise<TreeHandle> => {
    const fd = openSync(join(path, copy), constants.O_RDONLY | constants.O_DIRECTORY);
    return { fd, close: async () => closeSync(fd) };
  };
  const create = async (copy: string): Promise<bigint> => {
    await mkdir(join(path, copy));
    return 0n;
  };
  const pool: Partial<Pool> = { name, type: 'directory', points: false, journals, verify: nothing, openTree, create };
  return pool as Pool;
}

/** `folders`: where the pools lie, temporary ones by default. */
export async function aTreeRig(t: Test, folders?: { source: string; target: string }): Promise<TreeRig> {
  const folder = folders ? '' : await temporaryFolder(t);
  const { source, target } = folders ?? { source: join(folder, 'source'), target: join(folder, 'target') };
  const rig = await aRig(t, { size: 1 << 30, source: await aPool(source, 'source'), target: await aPool(target, 'target') });
  return Object.assign(rig, { from: join(source, SOURCE.name), to: join(target, TARGET.name) });
}

/** Nobody writes at the source any more: it is served as final. */
export function fence(rig: TreeRig): void {
  rig.offer = { ...rig.offer, fenced: true };
}

type Told = { [path: string]: unknown };

/** Everything that a move is to keep, by path (bytes as latin1). Names of one file are told by the first of them. */
export function toldTree(root: string): Told {
  const told: Told = {};
  const inodes = new Map<string, string>();
  const visit = (path: string, shown: string): void => {
    const raw = Buffer.from(path, 'latin1');
    const stat = lstatSync(raw, { bigint: true });
    const first = inodes.get(String(stat.ino)) ?? shown;
    inodes.set(String(stat.ino), first);
    told[shown] = { ...shape(raw, stat), attributes: attributesAt(path), same: first };
    if (stat.isDirectory()) for (const name of readdirSync(raw, 'latin1').toSorted()) visit(`${path}/${name}`, `${shown}/${name}`);
  };
  visit(root, '');
  return told;
}

function shape(raw: Buffer, stat: BigIntStats): object {
  return {
    mode: stat.mode.toString(8),
    owner: `${stat.uid}:${stat.gid}`,
    mtime: String(stat.mtimeNs),
    device: stat.isBlockDevice() || stat.isCharacterDevice() ? String(stat.rdev) : '',
    link: stat.isSymbolicLink() ? readlinkSync(raw, 'latin1') : '',
    content: stat.isFile() ? `${stat.size} ${createHash('sha256').update(readFileSync(raw)).digest('hex')}` : '',
  };
}

function attributesAt(path: string): string {
  const cut = path.lastIndexOf('/');
  return withOpen(openAt(-1, path.slice(0, cut), O_PATH), (dir) =>
    withOpen(openAt(dir, path.slice(cut + 1), O_PATH), (fd) =>
      attributesOf(fd)
        .filter((name) => name !== 'security.selinux')
        .map((name) => `${name}=${attributeOf(fd, name)?.toString('hex')}`)
        .join(' '),
    ),
  );
}
