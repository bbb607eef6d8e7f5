// `npm run bench -- transfer`: which cases are measured, how often, and in which order: one after the other in each round, so that what else
// happens on the machine meets all of them alike.
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { measureApplication } from './application.ts';
import { missingPrograms } from './packages.ts';
import { onGround, warm, type Ground } from './ground.ts';
import { databaseLoad, denseLoad, holesLoad, sparseLoad, type Load } from './loads.ts';
import { slowLink } from './network.ts';
import { LOOPBACK, makeVolume, removeVolume, withMover, type Ways } from './ours.ts';
import { ddCopy, ddRead, ddWrite, nbdcopy, rsyncArchive, rsyncWhole, socat, tcp, type Reference } from './references.ts';
import { add, type Samples } from './samples.ts';
import { say } from './say.ts';
import { measureDelta, measureLimits, measureParallel, measureResume } from './cases.ts';

const GIB = 1024 ** 3;

export interface Wanted {
  /** Bytes of the dense volume. */
  size: number;
  rounds: number;
  /** Ours only. */
  alone: boolean;
  /** Names of cases; null: all. */
  only: string[] | null;
}

export interface Context {
  ground: Ground;
  samples: Samples;
  wanted: Wanted;
  /** Programs that are not here and could not be installed. */
  missing: Set<string>;
}

interface Case {
  name: string;
  measure: (context: Context) => Promise<void>;
}

const CASES: Case[] = [
  {
    name: 'dense',
    measure: (context) =>
      compared(context, denseLoad(context.wanted.size), [ddRead, ddWrite, ddCopy, tcp, rsyncWhole, rsyncArchive, nbdcopy, socat]),
  },
  { name: 'database', measure: (context) => compared(context, databaseLoad(context.wanted.size / 2), [ddCopy, rsyncWhole, nbdcopy]) },
  { name: 'sparse', measure: (context) => compared(context, sparseLoad(), []) },
  { name: 'holes', measure: (context) => compared(context, holesLoad(context.wanted.size / 4), [ddRead, ddCopy]) },
  { name: 'delta', measure: measureDelta },
  { name: 'link', measure: overLink },
  { name: 'limit', measure: measureLimits },
  { name: 'resume', measure: measureResume },
  { name: 'parallel', measure: measureParallel },
  { name: 'application', measure: measureApplication },
];

/** What `check` measures. */
const SMALL: Case = {
  name: 'small',
  measure: async (context) => {
    const { size } = context.wanted;
    await compared(context, denseLoad(size), [ddCopy, tcp]);
    const once = { ...context, wanted: { ...context.wanted, rounds: 1 } };
    await compared(once, databaseLoad(size / 4), []);
    await measureDelta({ ...once, wanted: { ...once.wanted, size: size / 4 } });
  },
};

export async function benchTransfer(wanted: Wanted): Promise<Samples> {
  const missing = await missingPrograms([ddCopy, tcp, rsyncWhole, nbdcopy, socat]);
  return onGround(40 * GIB, async (ground) => {
    await warm(ground, wanted.size);
    const samples: Samples = {};
    const chosen = wanted.only ? [...CASES, SMALL].filter(({ name }) => wanted.only?.includes(name)) : CASES;
    for (const { name, measure } of chosen) {
      say(`-- ${name}`);
      await measure({ ground, samples, wanted, missing });
    }
    return samples;
  });
}

/** Ours and the references, in turns. */
async function compared(context: Context, load: Load, references: Reference[], over?: { ways: Ways; name: string }): Promise<void> {
  const { ground, wanted } = context;
  const { ways, name } = over ?? { ways: LOOPBACK, name: load.name };
  const { image } = await makeVolume(ground, load);
  for (let round = 0; round < wanted.rounds; round += 1) {
    await ours(context, load, ways, name);
    for (const reference of wanted.alone ? [] : references)
      if (round === 0 || !reference.once) await other(context, reference, { ways, image, load, name });
  }
  await rm(join(ground.target, 'reference'), { force: true });
  await removeVolume(image);
}

async function ours({ ground, samples }: Context, load: Load, ways: Ways, name: string): Promise<void> {
  await withMover({ ground, load, ways }, async (mover) => {
    const before = await mover.cost();
    const { seconds, bytesSent, spent } = await mover.pull(0);
    const after = await mover.cost();
    const gigabytes = load.data / 1e9;
    add(samples, name, {
      flock: seconds,
      'flock: written': seconds - (spent['verifying'] ?? 0),
      'bytes of data': load.data,
      'flock: bytes sent': bytesSent,
      'flock: source, processor seconds a GB': (after.source.cpu - before.source.cpu) / gigabytes,
      'flock: target, processor seconds a GB': (after.target.cpu - before.target.cpu) / gigabytes,
      'flock: source, resident': after.source.resident,
      'flock: target, resident': after.target.resident,
    });
    say(`${name} flock ${rate(load, seconds)} ${JSON.stringify(spent)}`);
  });
}

const rate = ({ data }: Load, seconds: number): string => `${(data / 1e6 / seconds).toFixed(0)} MB/s`;

async function other(
  { ground, samples, missing }: Context,
  reference: Reference,
  job: { ways: Ways; image: string; load: Load; name: string },
): Promise<void> {
  if (Object.keys(reference.needs).some((program) => missing.has(program))) return;
  const seconds = await reference.measure({ ground, ways: job.ways, image: job.image, size: job.load.size });
  add(samples, job.name, { [reference.name]: seconds });
  say(`${job.name} ${reference.name} ${rate(job.load, seconds)}`);
}

async function overLink(context: Context): Promise<void> {
  const ways = await slowLink(context.ground);
  const load = denseLoad(context.wanted.size / 2);
  await compared(context, load, [tcp, rsyncWhole], { ways, name: 'link' });
}
