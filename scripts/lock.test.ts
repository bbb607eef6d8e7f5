// package-lock.json is whole: `npm ci` refuses a lock file that lacks a package of another platform, and npm itself makes such ones when
// packages are added beside an installed node_modules.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

interface Locked {
  optionalDependencies?: { [name: string]: string };
}

const packages = Object.entries(
  (JSON.parse(readFileSync(join(import.meta.dirname, '..', 'package-lock.json'), 'utf8')) as { packages: { [path: string]: Locked } })
    .packages,
);

/** Where a package of that name would be looked for from inside another, nearest first. */
const placesFor = (from: string, name: string): string[] => {
  const above = from.split('node_modules/').map((_, at, parts) => parts.slice(0, parts.length - at).join('node_modules/'));
  return above.map((folder) => `${folder === '' || folder.endsWith('/') ? folder : `${folder}/`}node_modules/${name}`);
};

test('every optional dependency of every package is locked, for all platforms', () => {
  const locked = new Set(packages.map(([path]) => path));
  const missing = packages.flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter((name) => !placesFor(path, name).some((place) => locked.has(place))),
  );
  assert.deepEqual(missing, [], 'make it anew: rm package-lock.json && npm install --package-lock-only in a copy without node_modules');
});
