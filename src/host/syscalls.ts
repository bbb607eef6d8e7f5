// The system calls that Node does not offer, by koffi. libc is loaded at the first call, so that a program that needs none of them
// runs anywhere. Every failure becomes a FlockError; the calls that may take long run on koffi's threads.
import koffi, { type KoffiFunc } from 'koffi';
import { meaningOf } from '../model/errno.ts';
import { FlockError, type Reason } from '../model/errors.ts';

export const FALLOC_KEEP_SIZE = 0x01;
export const FALLOC_PUNCH_HOLE = 0x02;
export const FALLOC_ZERO_RANGE = 0x10;

export const SEEK_DATA = 3;
export const SEEK_HOLE = 4;

const LOCK_SH = 1;
const LOCK_EX = 2;
const LOCK_NB = 4;

const FICLONE = 0x40049409;
const BLKSSZGET = 0x1268;
const BLKGETSIZE64 = 0x80081272;
const BLKDISCARD = 0x1277;
const BLKZEROOUT = 0x127f;
const SOL_SOCKET = 1;
const SO_MAX_PACING_RATE = 47;
/** kcmp(2) by processor, for libc has no name for it. */
const KCMP: { [arch: string]: number } = { x64: 312, arm64: 272 };
const KCMP_FILES = 2;

/** Outcome of one call: what it returned, and errno if that was -1. */
interface Answer {
  value: bigint;
  errno: number;
}

interface Libc {
  ioctlPointer: KoffiFunc<(fd: number, request: number, argument: Buffer) => number>;
  ioctlNumber: KoffiFunc<(fd: number, request: number, argument: number) => number>;
  lseek: KoffiFunc<(fd: number, offset: bigint, whence: number) => number | bigint>;
  fallocate: KoffiFunc<(fd: number, mode: number, offset: bigint, length: bigint) => number>;
  syncfs: KoffiFunc<(fd: number) => number>;
  flock: KoffiFunc<(fd: number, operation: number) => number>;
  setsockopt: KoffiFunc<(...args: [fd: number, level: number, name: number, value: Buffer, length: number]) => number>;
  syscall: KoffiFunc<(...args: [number: number, one: number, other: number, what: number, first: number, second: number]) => number>;
}

let loaded: Libc | undefined;

function libc(): Libc {
  if (loaded) return loaded;
  if (process.platform !== 'linux')
    throw new FlockError(
      'Unsupported',
      `this part of Flock needs Linux; this is ${process.platform}. Records and flockctl work here, pools do not`,
    );
  const library = koffi.load('libc.so.6');
  // ioctl is variadic in C; on Linux's 64-bit ABIs such a call passes its arguments like any other.
  loaded = {
    ioctlPointer: library.func('ioctl', 'int', ['int', 'uintptr_t', 'void *']) as unknown as Libc['ioctlPointer'],
    ioctlNumber: library.func('ioctl', 'int', ['int', 'uintptr_t', 'uintptr_t']) as unknown as Libc['ioctlNumber'],
    lseek: library.func('lseek64', 'int64_t', ['int', 'int64_t', 'int']) as unknown as Libc['lseek'],
    fallocate: library.func('fallocate64', 'int', ['int', 'int', 'int64_t', 'int64_t']) as unknown as Libc['fallocate'],
    syncfs: library.func('syncfs', 'int', ['int']) as unknown as Libc['syncfs'],
    flock: library.func('flock', 'int', ['int', 'int']) as unknown as Libc['flock'],
    setsockopt: library.func('setsockopt', 'int', ['int', 'int', 'int', 'void *', 'uint32_t']) as unknown as Libc['setsockopt'],
    syscall: library.func('syscall', 'long', ['long', 'long', 'long', 'long', 'long', 'long']) as unknown as Libc['syscall'],
  };
  return loaded;
}

/** Runs a call on koffi's threads; errno is read in the callback, where koffi restores it. */
function onThread<A extends unknown[]>(call: KoffiFunc<(...args: A) => number | bigint>, ...args: A): Promise<Answer> {
  return new Promise((resolve, reject) => {
    call.async(...args, (error: Error | null, value: number | bigint) => {
      const errno = koffi.errno();
      if (error) return reject(error);
      resolve({ value: BigInt(value), errno });
    });
  });
}

const REASON_OF: { [code: string]: Reason } = {
  ENOSPC: 'NoSpace',
  EDQUOT: 'NoSpace',
  EFBIG: 'NoSpace',
  EBUSY: 'InUse',
  ETXTBSY: 'InUse',
  EAGAIN: 'InUse',
  EOPNOTSUPP: 'Unsupported',
  ENOTTY: 'Unsupported',
  ENOSYS: 'Unsupported',
  EXDEV: 'Unsupported',
  EINVAL: 'Unsupported',
  ENOENT: 'NotFound',
  EPERM: 'NotPermitted',
  EACCES: 'NotPermitted',
  EROFS: 'NotPermitted',
  EEXIST: 'AlreadyExists',
};

const nameOf = (errno: number): string => Object.entries(koffi.os.errno).find(([, value]) => value === errno)?.[0] ?? `errno ${errno}`;

export function failure(what: string, errno: number): FlockError {
  const code = nameOf(errno);
  // EAGAIN and EOPNOTSUPP have twins of the same number, and the table may give either name.
  const reason = REASON_OF[code === 'EWOULDBLOCK' ? 'EAGAIN' : code === 'ENOTSUP' ? 'EOPNOTSUPP' : code];
  return new FlockError(reason ?? 'Internal', `${what}: ${meaningOf(code)}`, { cause: { code, errno } });
}

/** A failed fs call of Node's as a FlockError, with the same reasons as a system call here. */
export function asFlockError(what: string, error: unknown): FlockError {
  if (error instanceof FlockError) return error;
  const code = (error as NodeJS.ErrnoException | undefined)?.code ?? '';
  return new FlockError(REASON_OF[code] ?? 'Internal', `${what}: ${code === '' ? String(error) : meaningOf(code)}`, { cause: error });
}

const proven = (what: string, answer: Answer): bigint => {
  if (answer.value < 0n) throw failure(what, answer.errno);
  return answer.value;
};

/** `target` becomes a copy of `source` that shares its blocks. Throws Unsupported where the filesystem cannot. */
export async function cloneFile(target: number, source: number): Promise<void> {
  proven('sharing the blocks of a file (FICLONE)', await onThread(libc().ioctlNumber, target, FICLONE, source));
}

/** Any ioctl that fills or reads a buffer. */
export async function ioctlBuffer(what: string, fd: number, request: number, buffer: Buffer): Promise<void> {
  proven(what, await onThread(libc().ioctlPointer, fd, request, buffer));
}

/** Where the next data or hole begins at or after `offset`, null after the last one. */
export async function seek(fd: number, offset: bigint, whence: typeof SEEK_DATA | typeof SEEK_HOLE): Promise<bigint | null> {
  const answer = await onThread(libc().lseek, fd, offset, whence);
  if (answer.value < 0n && answer.errno === koffi.os.errno['ENXIO']) return null;
  return proven('looking for data (lseek)', answer);
}

/** Mode 0 allocates; the FALLOC_ flags punch or zero. Throws NoSpace, Unsupported. */
export async function fallocate(fd: number, mode: number, range: { offset: bigint; length: bigint }): Promise<void> {
  proven('allocating room (fallocate)', await onThread(libc().fallocate, fd, mode, range.offset, range.length));
}

/** Everything of the filesystem that an opened file lies on is on the disk. */
export async function syncWhole(fd: number): Promise<void> {
  proven('syncing a filesystem (syncfs)', await onThread(libc().syncfs, fd));
}

/** flock(2) without waiting; false: somebody else has it. */
export function tryLock(fd: number, how: 'exclusive' | 'shared'): boolean {
  const value = libc().flock(fd, (how === 'exclusive' ? LOCK_EX : LOCK_SH) | LOCK_NB);
  if (value === 0) return true;
  const errno = koffi.errno();
  if (errno === koffi.os.errno['EAGAIN']) return false;
  throw failure('taking a lock (flock)', errno);
}

/** Size of a block device, bytes. */
export function deviceSize(fd: number): bigint {
  const buffer = Buffer.alloc(8);
  if (libc().ioctlPointer(fd, BLKGETSIZE64, buffer) < 0) throw failure('asking a device for its size (BLKGETSIZE64)', koffi.errno());
  return buffer.readBigUInt64LE(0);
}

/** Logical sector size of a block device, bytes. */
export function sectorSize(fd: number): number {
  const buffer = Buffer.alloc(4);
  if (libc().ioctlPointer(fd, BLKSSZGET, buffer) < 0) throw failure('asking a device for its sector size (BLKSSZGET)', koffi.errno());
  return buffer.readInt32LE(0);
}

/** A range of a block device reads as zeros (zero) or may be forgotten by it (discard). */
export async function clearDevice(fd: number, how: 'zero' | 'discard', range: { offset: bigint; length: bigint }): Promise<void> {
  const argument = Buffer.alloc(16);
  argument.writeBigUInt64LE(range.offset, 0);
  argument.writeBigUInt64LE(range.length, 8);
  await ioctlBuffer(`clearing a device (${how})`, fd, how === 'zero' ? BLKZEROOUT : BLKDISCARD, argument);
}

/** The kernel sends at most this much on a TCP socket, bytes a second; null: no limit. May be changed at any time. */
export function setPacing(fd: number, bytesPerSecond: number | null): void {
  const value = Buffer.alloc(8, 0xff);
  if (bytesPerSecond !== null) value.writeBigUInt64LE(BigInt(Math.max(1, Math.floor(bytesPerSecond))));
  if (libc().setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, value, 8) < 0)
    throw failure('limiting the rate of a socket (SO_MAX_PACING_RATE)', koffi.errno());
}

const FS_IOC_GETFSUUID = 0x80111500;

/** UUID of the filesystem that an opened file lies on, as hex digits; null where kernel (before 6.9) or filesystem do not tell. */
export function filesystemUuid(fd: number): string | null {
  const buffer = Buffer.alloc(17);
  if (libc().ioctlPointer(fd, FS_IOC_GETFSUUID, buffer) < 0) return null;
  return buffer.subarray(1, 1 + buffer.readUInt8(0)).toString('hex');
}

/** Two tasks have one descriptor table. False too where the kernel does not tell. */
export function sharesFiles(one: number, other: number): boolean {
  const number = KCMP[process.arch];
  return number !== undefined && Number(libc().syscall(number, one, other, KCMP_FILES, 0, 0)) === 0;
}
