// Making filesystems, and above all not making them: what record and label say decides, never what a probe failed to find. A filesystem
// made here carries the label `flock`, so that one made just before a crash is told from somebody else's.
import { open, stat } from 'node:fs/promises';
import { FlockError } from '../model/errors.ts';
import { formatWords } from '../model/format-options.ts';
import type { Filesystem } from '../model/volume.ts';
import { ifThere } from './files.ts';
import { run } from './run.ts';

const OUR_LABEL = 'flock';
const MKFS_TIMEOUT = 600_000;

interface Signature {
  type: string;
  label: string;
}

/** What blkid finds on the device; null: nothing. A probe that failed or could not decide is an error, not an answer. */
async function signatureOf(device: string): Promise<Signature | null> {
  // blkid says 2 for a missing path too.
  await beBlockDevice(device);
  const { stdout, exitCode } = await run('blkid', ['-p', '-o', 'export', '--', device], { allow: [2] });
  if (exitCode === 2) return null;
  const values = new Map(stdout.split('\n').map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
  const type = values.get('TYPE') ?? values.get('PTTYPE');
  return type === undefined ? null : { type, label: values.get('LABEL') ?? '' };
}

async function beBlockDevice(device: string): Promise<void> {
  const found = await ifThere(stat(device));
  if (!found?.isBlockDevice()) throw new FlockError('NotFound', `${device} is no block device: was it detached meanwhile?`);
}

/**
 * The device holds this filesystem. `formatted` is what record and label say: true, and anything else on the device is Corrupt and left
 * as it is; false, and a filesystem that is not ours is InUse and left as it is. `options` are those of model/format-options.ts. Safe to repeat
 * after any crash.
 */
export async function beFormatted(device: string, filesystem: Filesystem, formatted: boolean, options = ''): Promise<void> {
  const found = await signatureOf(device);
  if (formatted) return checkFormatted(device, filesystem, found);
  if (found && !isOurs(found, filesystem))
    throw new FlockError(
      'InUse',
      `${device} was never formatted by record, but holds ${found.type}: it is left as it is. Find out whose it is; to use it, wipe it by hand (wipefs)`,
    );
  if (found && !(await isUnfinished(device, filesystem))) return;
  await made(device, filesystem, formatWords(filesystem, options));
}

function checkFormatted(device: string, filesystem: Filesystem, found: Signature | null): void {
  if (found?.type === filesystem) return;
  throw new FlockError(
    'Corrupt',
    `${device} was formatted as ${filesystem} by record, but ${found ? `holds ${found.type}` : 'nothing is found on it'}: it is not formatted again. ` +
      'Check the disk and repair the filesystem, or bring back another copy',
  );
}

const isOurs = (found: Signature, filesystem: Filesystem): boolean => found.type === filesystem && found.label === OUR_LABEL;

const XFS_IN_PROGRESS = 126;

/** ext4 and btrfs get their signature last; xfs has it from the start, with a flag until it is whole. */
async function isUnfinished(device: string, filesystem: Filesystem): Promise<boolean> {
  if (filesystem !== 'xfs') return false;
  await using opened = await open(device, 'r');
  const { buffer } = await opened.read(Buffer.alloc(4096), 0, 4096, 0);
  return buffer.readUInt8(XFS_IN_PROGRESS) !== 0;
}

async function made(device: string, filesystem: Filesystem, wanted: readonly string[]): Promise<void> {
  await run(`mkfs.${filesystem}`, [...(await optionsFor(filesystem, device)), ...wanted, device], { timeout: MKFS_TIMEOUT });
  const after = await signatureOf(device);
  if (!after || !isOurs(after, filesystem))
    throw new FlockError('Internal', `mkfs.${filesystem} reported success, but ${device} holds ${after?.type ?? 'nothing'}`);
}

/** No discard, for it would make thick files thin; and no feature that an older kernel could not mount, for a volume moves. */
function optionsFor(filesystem: Filesystem, device: string): Promise<string[]> {
  switch (filesystem) {
    case 'ext4':
      return ext4Options();
    case 'xfs':
      return xfsOptions(device);
    case 'btrfs':
      return Promise.resolve(['-q', '-f', '-K', '-L', OUR_LABEL]);
  }
}

/** orphan_file and metadata_csum_seed are defaults since e2fsprogs 1.47; before, their names are not known. */
async function ext4Options(): Promise<string[]> {
  const { stderr } = await run('mkfs.ext4', ['-V']);
  const [, major, minor] = /mke2fs ([0-9]+)\.([0-9]+)/u.exec(stderr) ?? [];
  const isNew = Number(major) > 1 || Number(minor) >= 47;
  const features = isNew ? ['-O', '^orphan_file,^metadata_csum_seed'] : [];
  return ['-q', '-F', '-b', '4096', '-E', 'nodiscard', '-L', OUR_LABEL, ...features];
}

/** Without features that a kernel of 5.10 could not mount: the profile that xfsprogs brings, or the one feature in question by name. */
const XFS_FEATURES: readonly (readonly string[])[] = [['-c', 'options=/usr/share/xfsprogs/mkfs/lts_5.10.conf'], ['-i', 'nrext64=0'], []];

/** The first that this mkfs understands: Debian 12 ships a profile that its own mkfs refuses. */
async function xfsOptions(device: string): Promise<string[]> {
  const usual = ['-q', '-f', '-K', '-L', OUR_LABEL];
  for (const features of XFS_FEATURES) if (await isUnderstood([...usual, ...features, device])) return [...usual, ...features];
  return usual;
}

async function isUnderstood(words: readonly string[]): Promise<boolean> {
  const { exitCode } = await run('mkfs.xfs', ['-N', ...words], { allow: [1] });
  return exitCode === 0;
}
