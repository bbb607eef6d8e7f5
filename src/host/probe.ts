// What this machine can do, in words that a person can act on. Changes nothing, and nothing here decides whether a verb is tried.
import { constants } from 'node:fs';
import { access, readFile } from 'node:fs/promises';
import { release } from 'node:os';
import { delimiter, join } from 'node:path';
import { FILESYSTEMS, type Filesystem } from '../model/volume.ts';
import { PROGRAMS_OF } from './programs.ts';

export interface HostAbilities {
  kernel: string;
  root: boolean;
  loopDevices: boolean;
  /** Root, loop devices and the programs for them. */
  canMount: boolean;
  /** Kernel and tools are there: volumes with these can be made and mounted. */
  filesystems: Filesystem[];
  /** What is missing, each with the way to get it. */
  missing: string[];
}

const BASICS = ['losetup', 'mount', 'umount', 'blkid'];

export async function hostAbilities(): Promise<HostAbilities> {
  const root = process.getuid?.() === 0;
  const loopDevices = root && (await isThere('/dev/loop-control'));
  const basics = await lacking(BASICS);
  const missing: string[] = [];
  if (process.platform !== 'linux') missing.push(`pools need Linux, and this is ${process.platform}`);
  if (!root)
    missing.push(
      'not root: nothing is mounted here, but raw volumes (--block) and directories (--pool directory) are handed out as links; run it as root for the others',
    );
  else if (!loopDevices) missing.push('no /dev/loop-control: load the kernel module `loop` (modprobe loop)');
  if (basics.length > 0) missing.push(`no ${basics.join(', ')} on the PATH: install util-linux and mount`);
  const known = await kernelFilesystems();
  const able = await Promise.all(FILESYSTEMS.map((each) => whatLacks(each, known)));
  missing.push(...able.filter((each) => each !== null));
  const filesystems = FILESYSTEMS.filter((_, index) => able[index] === null);
  return { kernel: release(), root, loopDevices, canMount: loopDevices && basics.length === 0, filesystems, missing };
}

/** What a filesystem lacks here, in words; null: nothing. */
async function whatLacks(filesystem: Filesystem, known: readonly string[]): Promise<string | null> {
  const { programs, debian } = PROGRAMS_OF[filesystem];
  const lacks = await lacking(programs);
  if (lacks.length > 0) return `no ${filesystem} volumes: ${lacks.join(', ')} not on the PATH; on Debian: apt-get install ${debian}`;
  if (known.includes(filesystem)) return null;
  return `no ${filesystem} volumes: this kernel (${release()}) does not know it; load the module (modprobe ${filesystem})`;
}

/** Those that the kernel has now or could load as a module. */
async function kernelFilesystems(): Promise<string[]> {
  const now = await readFile('/proc/filesystems', 'utf8').catch(() => '');
  const modules = await readFile(`/lib/modules/${release()}/modules.dep`, 'utf8').catch(() => '');
  const loadable = FILESYSTEMS.filter((each) => new RegExp(`/${each}\\.ko`, 'u').test(modules));
  return [...now.split('\n').map((line) => line.split('\t').at(-1) ?? ''), ...loadable];
}

async function lacking(programs: readonly string[]): Promise<string[]> {
  const found = await Promise.all(programs.map(isOnPath));
  return programs.filter((_, index) => !found[index]);
}

async function isOnPath(program: string): Promise<boolean> {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  const found = await Promise.all(folders.map((folder) => isThere(join(folder, program), constants.X_OK)));
  return found.includes(true);
}

const isThere = (path: string, how: number = constants.F_OK): Promise<boolean> =>
  access(path, how).then(
    () => true,
    () => false,
  );
