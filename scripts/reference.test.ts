// docs/kinds.md says what the kinds are.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { reference } from './reference.ts';

test('docs/kinds.md is as the kinds are (node scripts/reference.ts writes it anew)', async () => {
  assert.equal(readFileSync(join(import.meta.dirname, '../docs/kinds.md'), 'utf8'), await reference());
});
