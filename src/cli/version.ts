// The version of this program, as its package says it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The package's folder: two above this file, in the sources as in dist/. */
export const PACKAGE_ROOT = join(import.meta.dirname, '..', '..');

export function version(): string {
  return (JSON.parse(readFileSync(join(PACKAGE_ROOT, 'package.json'), 'utf8')) as { version: string }).version;
}
