// The chart's definitions are what the kinds are.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { definitions, DEFINITIONS } from './definitions.ts';

test("the chart's definitions are made from the kinds as they are", () => {
  assert.equal(readFileSync(DEFINITIONS, 'utf8'), definitions(), 'out of date: run node scripts/definitions.ts');
});
