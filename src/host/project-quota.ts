// Project quotas: all that is made below a directory counts for its number, and the filesystem (xfs or ext4, mounted with prjquota) lets it
// grow to a limit. What was set is read back: a limit that is not in force is no limit. Knows no pools.
import koffi, { type KoffiFunc } from 'koffi';
import { FlockError } from '../model/errors.ts';
import type { Mount } from './mountinfo.ts';
import { failure, ioctlBuffer } from './syscalls.ts';

const FS_IOC_FSGETXATTR = 0x801c581f;
const FS_IOC_FSSETXATTR = 0x401c5820;
const XATTR_LENGTH = 28;
const PROJINHERIT = 0x200;
const QUOTACTL_FD = 443;
const PRJQUOTA = 2;
const Q_GETQUOTA = (0x800007 << 8) | PRJQUOTA;
const Q_SETQUOTA = (0x800008 << 8) | PRJQUOTA;
const DQBLK_LENGTH = 72;
const BLOCK_LIMITS = 1;
/** Unit of limits, bytes. */
const LIMIT_UNIT = 1024n;

/** The kernel keeps projects within their limits on this mount. */
export const hasProjectQuota = ({ filesystem, superOptions }: Mount): boolean =>
  (filesystem === 'xfs' || filesystem === 'ext4') && superOptions.some((option) => option === 'prjquota' || option === 'pquota');

export interface ProjectQuota {
  /** Bytes; 0n: none. */
  limit: bigint;
  used: bigint;
}

type Quotactl = KoffiFunc<(...args: [call: number, fd: number, command: number, id: number, into: Buffer]) => number>;
let quotactl: Quotactl | undefined;

function quota(fd: number, command: number, project: number, into: Buffer): void {
  quotactl ??= koffi
    .load('libc.so.6')
    .func('syscall', 'intptr_t', ['intptr_t', 'uint32_t', 'uint32_t', 'uint32_t', 'void *']) as unknown as Quotactl;
  if (quotactl(QUOTACTL_FD, fd, command >>> 0, project, into) < 0) throw failure(`the quota of project ${project}`, koffi.errno());
}

export function projectQuota(fd: number, project: number): ProjectQuota {
  const dqblk = Buffer.alloc(DQBLK_LENGTH);
  quota(fd, Q_GETQUOTA, project, dqblk);
  return { limit: dqblk.readBigUInt64LE(0) * LIMIT_UNIT, used: dqblk.readBigUInt64LE(16) };
}

/** All that is made below the directory counts for the project, which may have so many bytes. Throws Internal when it is not in force. */
export async function beLimited(directory: number, project: number, limit: bigint): Promise<void> {
  const attributes = Buffer.alloc(XATTR_LENGTH);
  await ioctlBuffer('asking for the project of a directory', directory, FS_IOC_FSGETXATTR, attributes);
  if (attributes.readUInt32LE(12) !== project || (attributes.readUInt32LE(0) & PROJINHERIT) === 0) {
    attributes.writeUInt32LE((attributes.readUInt32LE(0) | PROJINHERIT) >>> 0, 0);
    attributes.writeUInt32LE(project, 12);
    await ioctlBuffer('setting the project of a directory', directory, FS_IOC_FSSETXATTR, attributes);
  }
  const dqblk = Buffer.alloc(DQBLK_LENGTH);
  const units = (limit + LIMIT_UNIT - 1n) / LIMIT_UNIT;
  dqblk.writeBigUInt64LE(units, 0);
  dqblk.writeUInt32LE(BLOCK_LIMITS, 64);
  quota(directory, Q_SETQUOTA, project, dqblk);
  const set = projectQuota(directory, project);
  if (set.limit !== units * LIMIT_UNIT)
    throw new FlockError(
      'Internal',
      `the limit of project ${project} was set to ${limit} bytes and reads ${set.limit}: the volume would not be kept within its size`,
    );
}

/** Nothing is limited any more: the number may be given to another. */
export function beUnlimited(directory: number, project: number): void {
  const dqblk = Buffer.alloc(DQBLK_LENGTH);
  dqblk.writeUInt32LE(BLOCK_LIMITS, 64);
  quota(directory, Q_SETQUOTA, project, dqblk);
}
