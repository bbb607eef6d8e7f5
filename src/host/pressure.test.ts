// The kernel's pressure figures as they are written, and kernels that have none.
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { temporaryFolder } from '../testing/folders.ts';
import { readWaited } from './pressure.ts';

const figures = (total: number): string =>
  `some avg10=24.78 avg60=15.45 avg300=11.05 total=${total}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=99\n`;

test('what some task waited is read, not what all did', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'io'), figures(1_500_000));
  await writeFile(join(folder, 'cpu'), figures(2000));
  assert.deepEqual(await readWaited(folder), { io: 1500, cpu: 2 });
});

const NONE: [sentence: string, make: (folder: string) => Promise<unknown>, waited: object | null][] = [
  ['a kernel without figures has no pressure', async () => {}, null],
  ['figures that cannot be read are none', (folder) => mkdir(join(folder, 'io')), null],
  ['figures of another form are none', (folder) => writeFile(join(folder, 'io'), 'none today\n'), null],
  ['one of the two is enough', (folder) => writeFile(join(folder, 'cpu'), figures(7000)), { io: 0, cpu: 7 }],
];
for (const [sentence, make, waited] of NONE)
  test(sentence, async (t) => {
    const folder = await temporaryFolder(t);
    await make(folder);
    assert.deepEqual(await readWaited(folder), waited);
  });
