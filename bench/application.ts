// What an application notices of a move: its durable writes of 4 KiB on the mounted volume, alone, while a snapshot is taken, and while the volume is
// copied without a limit by agents that give way as agents do.
import { fork, type ChildProcess } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../src/host/run.ts';
import { openPool } from '../src/pools/open.ts';
import { denseLoad, type Load } from './loads.ts';
import { makeVolume, removeVolume, withMover, type Mover } from './ours.ts';
import { add } from './samples.ts';
import { say } from './say.ts';
import type { Context } from './transfer.ts';
import type { Written } from './writer.ts';

const MIB = 1024 * 1024;
const PROGRAM = fileURLToPath(new URL('writer.ts', import.meta.url));
/** The application's own file, bytes. */
const FILE = 32 * MIB;
const ALONE = 5_000;
const POINT = 'benchapplication';

export async function measureApplication(context: Context): Promise<void> {
  const load = denseLoad(Math.min(context.wanted.size, 1024 * MIB));
  for (let round = 0; round < context.wanted.rounds; round += 1) await once(context, load);
}

async function once(context: Context, load: Load): Promise<void> {
  const { ground } = context;
  const { copy, image } = await makeVolume(ground, load);
  const pool = await openPool({ name: 'bench', type: 'image', path: ground.source }, { uuid: null });
  const undo: (() => Promise<unknown>)[] = [() => removeVolume(image)];
  try {
    const device = await pool.attach(copy);
    undo.push(() => pool.detach(copy));
    const path = await mounted(device, join(ground.folder, 'application'), undo);
    const application = new Application(path);
    try {
      const { idle, snapshot } = await alone(application, async () => {
        await pool.freeze(copy, POINT);
        await pool.release(copy, POINT);
      });
      const copying = await withMover({ ground, load, restrained: true }, (mover) => copied(application, mover));
      add(context.samples, 'application', {
        'p99 alone, ms': idle.p99,
        'p99 while copied, ms': copying.p99,
        'p99 while copied over p99 alone': copying.p99 / idle.p99,
        'longest write while a snapshot is taken, ms': snapshot.longest,
        'longest write while a snapshot is taken over p99 alone': snapshot.longest / idle.p99,
      });
      say(`application ${JSON.stringify({ idle, snapshot, copying })}`);
    } finally {
      await application.end();
    }
  } finally {
    for (const one of undo.reverse()) await one();
  }
}

async function mounted(device: string, folder: string, undo: (() => Promise<unknown>)[]): Promise<string> {
  // What is not the file system's own stays as it was filled, and is copied.
  await run('mkfs.ext4', ['-q', '-F', '-E', 'nodiscard,lazy_itable_init=0,lazy_journal_init=0', device]);
  await mkdir(folder, { recursive: true });
  await run('mount', [device, folder]);
  undo.push(() => run('umount', [folder]));
  const path = join(folder, 'file');
  await run('dd', ['if=/dev/urandom', `of=${path}`, 'bs=1M', `count=${FILE / MIB}`, 'conv=fsync', 'status=none']);
  return path;
}

async function alone(application: Application, freeze: () => Promise<void>): Promise<{ idle: Written; snapshot: Written }> {
  await seconds(1);
  await application.since();
  await seconds(ALONE / 1000);
  const idle = await application.since();
  await freeze();
  await seconds(0.2);
  return { idle, snapshot: await application.since() };
}

async function copied(application: Application, mover: Mover): Promise<Written> {
  await application.since();
  await mover.pull(0);
  return application.since();
}

const seconds = (count: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, count * 1000));

class Application {
  readonly #child: ChildProcess;

  constructor(path: string) {
    this.#child = fork(PROGRAM, [path, String(FILE)]);
  }

  /** What it wrote since it was asked last. */
  since(): Promise<Written> {
    return new Promise((resolve, reject) => {
      this.#child.once('message', (message) => resolve(message as Written));
      this.#child.once('exit', () => reject(new Error('the application of the benchmark ended')));
      this.#child.send('since');
    });
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.disconnect();
    await ended;
  }
}
