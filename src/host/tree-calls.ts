// System calls on the entries of a directory, by descriptor and name: no path is put together, no link is followed, and a name is bytes
// (a string of latin1, one character a byte). They are short and run at once; who makes many of them lets others have a turn.
import { closeSync } from 'node:fs';
import koffi, { type KoffiFunc } from 'koffi';
import { FlockError } from '../model/errors.ts';
import { failure } from './syscalls.ts';

export const O_PATH = 0o10000000;
const AT_SYMLINK_NOFOLLOW = 0x100;
const AT_REMOVEDIR = 0x200;
const AT_EMPTY_PATH = 0x1000;
const STATX_BASIC = 0x7ff;
const STATX_ATTR_IMMUTABLE = 0x10;
const STATX_ATTR_APPEND = 0x20;
const UTIME_OMIT = 0x3ffffffe;
const POSIX_FADV_DONTNEED = 4;

/** Of st_mode. */
const FORMAT = 0o170000;
export const FORMATS = {
  dir: 0o040000,
  file: 0o100000,
  link: 0o120000,
  fifo: 0o010000,
  socket: 0o140000,
  char: 0o020000,
  block: 0o060000,
} as const;

export interface Stat {
  /** Of FORMATS. */
  format: number;
  /** Permissions with set-uid, set-gid and sticky. */
  mode: number;
  links: number;
  uid: number;
  gid: number;
  size: number;
  /** Bytes. */
  allocated: number;
  ino: bigint;
  mtime: Time;
  ctime: Time;
  rdev: Device;
  dev: Device;
}

export interface Time {
  s: number;
  ns: number;
}

export const isBefore = (one: Time, other: Time): boolean => one.s < other.s || (one.s === other.s && one.ns < other.ns);
export const isSameTime = (one: Time, other: Time): boolean => one.s === other.s && one.ns === other.ns;

export interface Device {
  major: number;
  minor: number;
}

type Name = Buffer;

interface Calls {
  openat: KoffiFunc<(...args: [dir: number, name: Name, flags: number, mode: number]) => number>;
  statx: KoffiFunc<(...args: [dir: number, name: Name, flags: number, mask: number, into: Buffer]) => number>;
  getdents64: KoffiFunc<(dir: number, into: Buffer, length: number) => number>;
  readlinkat: KoffiFunc<(...args: [dir: number, name: Name, into: Buffer, length: number]) => number>;
  mkdirat: KoffiFunc<(dir: number, name: Name, mode: number) => number>;
  symlinkat: KoffiFunc<(target: Name, dir: number, name: Name) => number>;
  linkat: KoffiFunc<(...args: [from: number, name: Name, to: number, as: Name, flags: number]) => number>;
  unlinkat: KoffiFunc<(dir: number, name: Name, flags: number) => number>;
  mknodat: KoffiFunc<(...args: [dir: number, name: Name, mode: number, device: number]) => number>;
  utimensat: KoffiFunc<(...args: [dir: number, name: Name, times: Buffer, flags: number]) => number>;
  fchownat: KoffiFunc<(...args: [dir: number, name: Name, uid: number, gid: number, flags: number]) => number>;
  fchmod: KoffiFunc<(fd: number, mode: number) => number>;
  chmod: KoffiFunc<(path: Name, mode: number) => number>;
  listxattr: KoffiFunc<(path: Name, into: Buffer, length: number) => number>;
  flistxattr: KoffiFunc<(fd: number, into: Buffer, length: number) => number>;
  getxattr: KoffiFunc<(...args: [path: Name, name: Name, into: Buffer, length: number]) => number>;
  setxattr: KoffiFunc<(...args: [path: Name, name: Name, value: Buffer, length: number, flags: number]) => number>;
  removexattr: KoffiFunc<(path: Name, name: Name) => number>;
  posix_fadvise: KoffiFunc<(...args: [fd: number, offset: number, length: number, advice: number]) => number>;
}

const SIGNATURES: { [C in keyof Calls]: [result: string, ...args: string[]] } = {
  openat: ['int', 'int', 'void *', 'int', 'uint32_t'],
  statx: ['int', 'int', 'void *', 'int', 'uint32_t', 'void *'],
  getdents64: ['intptr_t', 'int', 'void *', 'uintptr_t'],
  readlinkat: ['intptr_t', 'int', 'void *', 'void *', 'uintptr_t'],
  mkdirat: ['int', 'int', 'void *', 'uint32_t'],
  symlinkat: ['int', 'void *', 'int', 'void *'],
  linkat: ['int', 'int', 'void *', 'int', 'void *', 'int'],
  unlinkat: ['int', 'int', 'void *', 'int'],
  mknodat: ['int', 'int', 'void *', 'uint32_t', 'uint64_t'],
  utimensat: ['int', 'int', 'void *', 'void *', 'int'],
  fchownat: ['int', 'int', 'void *', 'uint32_t', 'uint32_t', 'int'],
  fchmod: ['int', 'int', 'uint32_t'],
  chmod: ['int', 'void *', 'uint32_t'],
  listxattr: ['intptr_t', 'void *', 'void *', 'uintptr_t'],
  flistxattr: ['intptr_t', 'int', 'void *', 'uintptr_t'],
  getxattr: ['intptr_t', 'void *', 'void *', 'void *', 'uintptr_t'],
  setxattr: ['int', 'void *', 'void *', 'void *', 'uintptr_t', 'int'],
  removexattr: ['int', 'void *', 'void *'],
  posix_fadvise: ['int', 'int', 'int64_t', 'int64_t', 'int'],
};

let loaded: Calls | undefined;

function calls(): Calls {
  if (loaded) return loaded;
  if (process.platform !== 'linux') throw new FlockError('Unsupported', `pools of directories need Linux; this is ${process.platform}`);
  const library = koffi.load('libc.so.6');
  const found = Object.entries(SIGNATURES).map(([name, [result, ...args]]) => [name, library.func(name, result, args)]);
  loaded = Object.fromEntries(found) as Calls;
  return loaded;
}

const bytesOf = (name: string): Name => Buffer.from(`${name}\0`, 'latin1');
/** The name itself, whatever it is, of a descriptor that may be of O_PATH. */
const pathOf = (fd: number): Name => Buffer.from(`/proc/self/fd/${fd}\0`, 'latin1');
const ITSELF = bytesOf('');

/** A name for people: what is not plain ASCII as in a C string. */
export const readable = (name: string): string =>
  name.replaceAll('\0', '/').replace(/[^\x20-\x7e]/gu, (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`);

function proven(what: () => string, value: number): number {
  if (value < 0) throw failure(what(), koffi.errno());
  return value;
}

/** The errno that a failure here stands for; null: it is another's error. */
export const errnoOf = (error: unknown): string | null =>
  error instanceof FlockError ? ((error.cause as { code?: string } | undefined)?.code ?? null) : null;

/** The entry vanished, or became something else, between two looks at it. */
export const isVanished = (error: unknown): boolean => ['ENOENT', 'ENOTDIR', 'ELOOP', 'ESTALE'].includes(errnoOf(error) ?? '');

/** A descriptor; closed by Node's closeSync. Always with O_CLOEXEC and O_NOFOLLOW. */
export function openAt(dir: number, name: string, flags: number, mode = 0): number {
  return proven(() => `opening ${readable(name)}`, calls().openat(dir, bytesOf(name), flags | O_NOFOLLOW | O_CLOEXEC, mode));
}
const O_NOFOLLOW = 0o400000;
const O_CLOEXEC = 0o2000000;
const O_DIRECTORY = 0o200000;
const O_NOATIME = 0o1000000;
const O_NONBLOCK = 0o4000;

/** The directory of that name, to be read. */
export const openDirectoryAt = (dir: number, name: string): number => openAt(dir, name, O_DIRECTORY);

/**
 * The regular file of that name, to be read, without touching its access time where that may be. Whoever looked first and finds a FIFO here
 * now does not hang, and sees by statOf that it is another.
 */
export function openFileAt(dir: number, name: string): number {
  const path = bytesOf(name);
  const quiet = calls().openat(dir, path, O_NOATIME | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0);
  if (quiet >= 0 || koffi.errno() !== koffi.os.errno['EPERM']) return proven(() => `opening ${readable(name)}`, quiet);
  return openAt(dir, name, O_NONBLOCK);
}

const stat = Buffer.alloc(256);

export function statAt(dir: number, name: string): Stat {
  proven(() => `looking at ${readable(name)}`, calls().statx(dir, bytesOf(name), AT_SYMLINK_NOFOLLOW, STATX_BASIC, stat));
  return read();
}

export function statOf(fd: number): Stat {
  proven(() => 'looking at an open file', calls().statx(fd, ITSELF, AT_EMPTY_PATH, STATX_BASIC, stat));
  return read();
}

/** As chattr calls it; null: neither, or it cannot be looked at. By an absolute path. */
export function protectionAt(path: string): 'i' | 'a' | null {
  if (calls().statx(-1, bytesOf(path), AT_SYMLINK_NOFOLLOW, STATX_BASIC, stat) < 0) return null;
  const attributes = stat.readUInt32LE(8);
  if ((attributes & STATX_ATTR_IMMUTABLE) !== 0) return 'i';
  return (attributes & STATX_ATTR_APPEND) === 0 ? null : 'a';
}

function read(): Stat {
  const mode = stat.readUInt16LE(28);
  return {
    format: mode & FORMAT,
    mode: mode & 0o7777,
    links: stat.readUInt32LE(16),
    uid: stat.readUInt32LE(20),
    gid: stat.readUInt32LE(24),
    ino: stat.readBigUInt64LE(32),
    size: long(40),
    allocated: long(48) * 512,
    ctime: { s: signed(96), ns: stat.readUInt32LE(104) },
    mtime: { s: signed(112), ns: stat.readUInt32LE(120) },
    rdev: { major: stat.readUInt32LE(128), minor: stat.readUInt32LE(132) },
    dev: { major: stat.readUInt32LE(136), minor: stat.readUInt32LE(140) },
  };
}

const long = (at: number): number => stat.readUInt32LE(at) + stat.readUInt32LE(at + 4) * 2 ** 32;
const signed = (at: number): number => stat.readUInt32LE(at) + stat.readInt32LE(at + 4) * 2 ** 32;

const entries = Buffer.alloc(256 * 1024);

/** Names in an opened directory, sorted as bytes. */
export function namesIn(dir: number): string[] {
  const names: string[] = [];
  for (;;) {
    const length = proven(() => 'listing a directory', calls().getdents64(dir, entries, entries.length));
    if (length === 0) return names.sort(byBytes);
    for (let at = 0; at < length; at += entries.readUInt16LE(at + 16)) {
      const name = entries.toString('latin1', at + 19, entries.indexOf(0, at + 19));
      if (name !== '.' && name !== '..') names.push(name);
    }
  }
}

const byBytes = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0);

const LONGEST_LINK = 4096;

/** Where a symbolic link leads, as bytes. */
export function linkAt(dir: number, name: string): string {
  const into = Buffer.alloc(LONGEST_LINK);
  const length = proven(() => `reading the link ${readable(name)}`, calls().readlinkat(dir, bytesOf(name), into, into.length));
  return into.toString('latin1', 0, length);
}

export const makeDirectoryAt = (dir: number, name: string, mode: number): void =>
  void proven(() => `making the directory ${readable(name)}`, calls().mkdirat(dir, bytesOf(name), mode));

export const makeLinkAt = (dir: number, name: string, target: string): void =>
  void proven(() => `making the link ${readable(name)}`, calls().symlinkat(bytesOf(target), dir, bytesOf(name)));

/** Another name for what `from` has by `name`; a symbolic link itself, not what it leads to. */
export const hardLinkAt = (of: { dir: number; name: string }, dir: number, name: string): void =>
  void proven(() => `linking ${readable(name)}`, calls().linkat(of.dir, bytesOf(of.name), dir, bytesOf(name), 0));

export const removeAt = (dir: number, name: string, what: 'entry' | 'directory'): void =>
  void proven(() => `removing ${readable(name)}`, calls().unlinkat(dir, bytesOf(name), what === 'directory' ? AT_REMOVEDIR : 0));

/** A FIFO, socket or device; `format` of FORMATS. */
export function makeNodeAt(dir: number, name: string, of: { format: number; rdev: Device }): void {
  const { major, minor } = of.rdev;
  const device = (minor & 0xff) + (major & 0xfff) * 2 ** 8 + (minor >>> 8) * 2 ** 20 + (major >>> 12) * 2 ** 44;
  proven(() => `making ${readable(name)}`, calls().mknodat(dir, bytesOf(name), of.format | 0o600, device));
}

export function setModifiedAt(dir: number, name: string, { s, ns }: Time): void {
  const times = Buffer.alloc(32);
  times.writeBigInt64LE(BigInt(UTIME_OMIT), 8);
  times.writeBigInt64LE(BigInt(s), 16);
  times.writeBigInt64LE(BigInt(ns), 24);
  proven(() => `setting the time of ${readable(name)}`, calls().utimensat(dir, bytesOf(name), times, AT_SYMLINK_NOFOLLOW));
}

export function setOwnerAt(dir: number, name: string, { uid, gid }: { uid: number; gid: number }): void {
  proven(() => `setting the owner of ${readable(name)}`, calls().fchownat(dir, bytesOf(name), uid, gid, AT_SYMLINK_NOFOLLOW));
}

export const setModeOf = (fd: number, mode: number): void => void proven(() => 'setting permissions', calls().fchmod(fd, mode));
/** For a descriptor of O_PATH. Not for symbolic links: those have no permissions. */
export const setModeOfPath = (fd: number, mode: number): void => void proven(() => 'setting permissions', calls().chmod(pathOf(fd), mode));

const LONGEST_LIST = 64 * 1024;
const list = Buffer.alloc(LONGEST_LIST);
const value = Buffer.alloc(LONGEST_LIST);

/** Names of the extended attributes of an opened entry of any kind (O_PATH too), sorted; none where the filesystem has none. */
export function attributesOf(fd: number): string[] {
  // Nearly always there are none: asked for the length alone, the kernel makes no room for a list.
  let length = calls().flistxattr(fd, list, 0);
  if (length > 0) length = calls().flistxattr(fd, list, list.length);
  // A descriptor of O_PATH takes the longer way.
  if (length < 0 && koffi.errno() === koffi.os.errno['EBADF']) length = calls().listxattr(pathOf(fd), list, list.length);
  if (length < 0 && koffi.errno() === koffi.os.errno['EOPNOTSUPP']) return [];
  if (proven(() => 'listing extended attributes', length) === 0) return [];
  return list
    .toString('latin1', 0, length - 1)
    .split('\0')
    .sort(byBytes);
}

/** Null when it is not there any more. */
export function attributeOf(fd: number, name: string): Buffer | null {
  const length = calls().getxattr(pathOf(fd), bytesOf(name), value, value.length);
  if (length < 0 && koffi.errno() === koffi.os.errno['ENODATA']) return null;
  return Buffer.from(
    value.subarray(
      0,
      proven(() => `reading the extended attribute ${readable(name)}`, length),
    ),
  );
}

export function setAttributeOf(fd: number, name: string, bytes: Buffer): void {
  proven(
    () => `setting the extended attribute ${readable(name)}`,
    calls().setxattr(pathOf(fd), bytesOf(name), bytes.length === 0 ? ITSELF : bytes, bytes.length, 0),
  );
}

export function dropAttributeOf(fd: number, name: string): void {
  proven(() => `removing the extended attribute ${readable(name)}`, calls().removexattr(pathOf(fd), bytesOf(name)));
}

/** What of an opened file is cached and clean is forgotten, so that it is read from the disk. */
export const forgetCached = (fd: number): void => void calls().posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);

/** Closes it whatever happens inside. */
export function withOpen<T>(fd: number, act: (fd: number) => T): T {
  try {
    return act(fd);
  } finally {
    closeSync(fd);
  }
}
