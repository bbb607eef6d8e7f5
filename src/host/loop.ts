// Loop devices: a file as a block device, with 4096-byte sectors and direct IO, because a file that was ever reflinked silently loses
// direct IO with smaller ones. A detach is proven by absence: `losetup -d` of an open device answers 0 and detaches later.
import { stat } from 'node:fs/promises';
import { FlockError } from '../model/errors.ts';
import { ifThere } from './files.ts';
import { beUnheld } from './holders.ts';
import { deviceNumber } from './mountinfo.ts';
import { run } from './run.ts';

const SECTOR_SIZE = 4096;

export interface LoopDevice {
  device: string;
  /** Path as the kernel tells it; " (deleted)" when it has no name any more. */
  file: string;
  inode: number;
  /** `major:minor` of the filesystem the file lies on. */
  filesystem: string;
  direct: boolean;
  sectorSize: number;
  /** It goes away by itself when the last user closes it. */
  leaving: boolean;
}

interface LosetupRow {
  name: string;
  'back-ino': number;
  /** null: the device went away while it was listed. */
  'back-maj:min': string | null;
  'back-file': string | null;
  dio: boolean;
  'log-sec': number;
  autoclear: boolean;
}

/** All loop devices of this machine that have a file. */
export async function loopDevices(): Promise<LoopDevice[]> {
  const columns = 'NAME,BACK-INO,BACK-MAJ:MIN,BACK-FILE,DIO,LOG-SEC,AUTOCLEAR';
  const { stdout } = await run('losetup', ['--json', '--list', '--output', columns]);
  if (stdout.trim() === '') return [];
  const { loopdevices } = JSON.parse(stdout) as { loopdevices: LosetupRow[] };
  const there = loopdevices.flatMap((row) => (row['back-maj:min'] === null ? [] : [{ ...row, filesystem: row['back-maj:min'] }]));
  return there.map((row) => ({
    device: row.name,
    file: row['back-file'] ?? '',
    inode: row['back-ino'],
    filesystem: row.filesystem.replaceAll(/\s/gu, ''),
    direct: row.dio,
    sectorSize: row['log-sec'],
    leaving: row.autoclear,
  }));
}

/** The loop devices over this very file, whatever it was called when they were made, or over one of its name that was deleted since. */
export async function loopsOf(file: string): Promise<LoopDevice[]> {
  return loopsAmong(await loopDevices(), file);
}

export async function loopsAmong(loops: readonly LoopDevice[], file: string): Promise<LoopDevice[]> {
  const found = await ifThere(stat(file));
  const isOver = ({ inode, filesystem }: LoopDevice): boolean => found?.ino === inode && filesystem === deviceNumber(found.dev);
  return loops.filter((loop) => isOver(loop) || loop.file === `${file} (deleted)`);
}

/** The file is a block device with 4096-byte sectors, by direct IO where its filesystem can; the one there already if there is one. */
export async function beAttached(file: string): Promise<LoopDevice> {
  const there = await loopsOf(file);
  if (there.length > 0) return judged(file, there);
  const sector = String(SECTOR_SIZE);
  await run('losetup', ['--find', '--show', '--nooverlap', '--direct-io=on', '--sector-size', sector, '--', file]);
  const made = await loopsOf(file);
  if (made.length === 0) throw new FlockError('Internal', `losetup reported success, but no loop device has ${file}`);
  return judged(file, made);
}

function judged(file: string, [loop, ...more]: LoopDevice[]): LoopDevice {
  if (!loop || more.length > 0)
    throw new FlockError(
      'InUse',
      `${file} is attached more than once (${[loop, ...more].map((each) => each?.device).join(', ')}): detach all but one`,
    );
  if (loop.leaving) throw new FlockError('InUse', `${loop.device} of ${file} goes away when its last user closes it: end that user first`);
  if (loop.sectorSize !== SECTOR_SIZE)
    throw new FlockError(
      'InUse',
      `${loop.device} of ${file} was made by hand with ${loop.sectorSize}-byte sectors: detach it (losetup -d)`,
    );
  return loop;
}

/** No loop device has the file. Throws InUse, naming who uses it. */
export async function beDetached(file: string): Promise<void> {
  for (const loop of await loopsOf(file)) {
    await beUnheld(loop.device);
    await run('losetup', ['--detach', loop.device]);
  }
  // Something that looks at every new device may have it open for a moment.
  for (let left = 40; left > 0; left -= 1) {
    if ((await loopsOf(file)).length === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  for (const loop of await loopsOf(file)) {
    await beUnheld(loop.device);
    throw new FlockError('InUse', `${loop.device} of ${file} is still there after losetup -d; its user could not be found`);
  }
}

/** The device is as large as its file has become. */
export async function beAsLargeAsItsFile(device: string): Promise<void> {
  await run('losetup', ['--set-capacity', device]);
}
