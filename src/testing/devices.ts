// Loop devices and programs that fail, for tests of what the host does.
import { chmod, open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beAttached } from '../host/loop.ts';
import { temporaryFolder, type Test } from './folders.ts';
import { afterwards } from './afterwards.ts';

/** A loop device over a new sparse file; both go after the test, and what is mounted from it. */
export async function temporaryDevice(t: Test, size: bigint): Promise<{ device: string; file: string; folder: string }> {
  const folder = await temporaryFolder(t);
  const file = join(folder, 'disk');
  await using opened = await open(file, 'w');
  await opened.truncate(Number(size));
  const { device } = await beAttached(file);
  return { device, file, folder };
}

/** Puts programs that do what `script` says before all others on the PATH, until the returned function is called. */
export async function fakePrograms(t: Test, programs: { [name: string]: string }): Promise<() => void> {
  const folder = await temporaryFolder(t);
  for (const [name, script] of Object.entries(programs)) {
    await writeFile(join(folder, name), `#!/bin/sh\n${script}\n`);
    await chmod(join(folder, name), 0o755);
  }
  const before = process.env['PATH'];
  process.env['PATH'] = `${folder}:${before}`;
  const restore = (): void => {
    process.env['PATH'] = before;
  };
  afterwards(t, async () => restore());
  return restore;
}
