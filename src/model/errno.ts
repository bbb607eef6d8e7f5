// What the system's error codes mean to a person, and what to do about each. Knows no call.

const MEANINGS: { [code: string]: string } = {
  ENOENT: 'there is no such file or folder',
  ENOTDIR: 'a part of the path is no folder',
  EISDIR: 'it is a folder',
  EEXIST: 'it is there already',
  ENOTEMPTY: 'the folder is not empty',
  EACCES: 'this user may not do that: run it as root, or give the user access',
  EPERM: 'this user may not do that: run it as root, or give the user access',
  EROFS: 'it is on a read-only filesystem: mount that writable, or choose another place',
  ENOSPC: 'the filesystem below it is full: free some room there, or enlarge it',
  EDQUOT: 'the quota is used up: free some room, or raise it',
  EFBIG: 'the filesystem below it takes no file that large',
  EIO: 'the disk below it failed, or its filesystem is full: look into the log of the kernel (dmesg)',
  EBUSY: 'it is in use: end what uses it',
  ETXTBSY: 'it is in use: end what uses it',
  EMFILE: 'too many files are open: raise the limit (ulimit -n)',
  ENFILE: 'too many files are open on this machine: raise fs.file-max',
  ENAMETOOLONG: 'the name is too long',
  ELOOP: 'its links lead nowhere',
  ENOMEM: 'there is not enough memory',
  ENODEV: 'there is no such device',
  ENXIO: 'there is no such device',
};

/** In words, and the code for who looks it up. */
export const meaningOf = (code: string): string => (Object.hasOwn(MEANINGS, code) ? `${MEANINGS[code]} (${code})` : code);

interface SystemError extends Error {
  code: string;
  syscall: string;
  path?: string;
  dest?: string;
}

/** A failed call of Node's on files. Those on sockets name their peer themselves. */
export const isSystemError = (error: unknown): error is SystemError => {
  const { code, syscall } = (error ?? {}) as NodeJS.ErrnoException;
  return error instanceof Error && code !== undefined && Object.hasOwn(MEANINGS, code) && syscall !== undefined;
};

/** The thing, the cause and the way out. */
export function sayingOf({ code, syscall, path, dest }: SystemError): string {
  const what = path === undefined ? syscall : `${path}${dest === undefined ? '' : ` -> ${dest}`}`;
  return `${what}: ${meaningOf(code)}`;
}
