// Files that nobody may change or take away, root neither (chattr +i, +a): a refusal by the kernel says only that it may not be.
import { readlinkSync } from 'node:fs';
import { FlockError } from '../model/errors.ts';
import { isCode } from './files.ts';
import { errnoOf, protectionAt, readable } from './tree-calls.ts';

/** Acts on the entry; `name` may be an absolute path. Throws NotPermitted, saying which file is protected, and by which command no more. */
export async function sayingProtected<T>(dir: number, name: string, act: () => T | Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (errnoOf(error) !== 'EPERM' && !isCode(error, 'EPERM')) throw error;
    throw whyProtected(dir, name, error) ?? error;
  }
}

/** Itself, or the directory that it is in. */
function whyProtected(dir: number, name: string, cause: unknown): FlockError | null {
  const path = name.startsWith('/') ? name : `${readlinkSync(`/proc/self/fd/${dir}`, 'latin1')}/${name}`;
  for (const each of [path, path.slice(0, path.lastIndexOf('/'))]) {
    const flag = protectionAt(each);
    if (flag !== null)
      return new FlockError(
        'NotPermitted',
        `"${readable(each)}" is protected (chattr +${flag}), from root too: run chattr -${flag} "${readable(each)}", then it goes on`,
        { cause },
      );
  }
  return null;
}
