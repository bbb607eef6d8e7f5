// Clears away what a demo made, when the demo has ended, in whatever way: it waits until its standard input closes, which happens at the
// latest when the demo's process is gone. A process of its own session, so that no Ctrl-C reaches it.
import { existsSync, writeSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { systemClock } from '../../model/clock.ts';
import { messageOf } from '../../model/errors.ts';
import { allFound, end } from '../local/child.ts';
import { bringDown } from '../local/cluster.ts';
import { readDescription } from '../local/description.ts';
import { layoutOf } from '../local/layout.ts';
import { demoPlaces } from './places.ts';

/** Something that the demo had just begun may not be over yet. */
const PATIENCE_MS = 30_000;
const AGAIN_MS = 250;

async function sweep(folder: string): Promise<void> {
  const until = systemClock.monotonic() + PATIENCE_MS;
  while (existsSync(folder)) {
    try {
      await sweepOnce(folder);
    } catch (error) {
      if (systemClock.monotonic() > until) throw error;
      await systemClock.sleep(AGAIN_MS);
    }
  }
}

async function sweepOnce(folder: string): Promise<void> {
  const { running } = demoPlaces(folder);
  for (const { name } of allFound(running)) await end(running, name, systemClock);
  if (readDescription(layoutOf(folder)) !== null) await bringDown(folder, true, systemClock);
  await rm(folder, { recursive: true, force: true });
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
await new Promise<void>((resolve) => process.stdin.on('end', resolve).on('error', resolve).resume());
const [folder = ''] = process.argv.slice(2);
try {
  await sweep(folder);
} catch (error) {
  process.exitCode = 1;
  // Nobody may be there to read it.
  try {
    writeSync(process.stderr.fd, `flockctl demo: ${folder} could not be cleared away: ${messageOf(error)}\n`);
  } catch {
    process.exitCode = 1;
  }
}
process.stdin.destroy();
