// The few figures that are judged: ratios between what was measured in the same run, never an absolute figure. Pure.
import { medianOf, spreadOf, type Samples, type Spread } from './samples.ts';

export interface Ratios {
  /** Disk to disk against the slowest of raw TCP, dd reading and dd writing. */
  bound: number;
  /** Disk to disk against dd, direct to direct on the same disk. */
  ddDirect: number;
  /** The same, up to when all is on the target's disk with its hashes checked, before what is left of the reading back. */
  ddDirectWritten: number;
  /** What reading everything back leaves of dd's speed at best, where both ends are on one disk: (read + write) / (2 read + write). */
  ddDirectLimit: number;
  rsyncDaemon: number;
  rsyncArchive: number;
  nbdcopyTls: number;
  ddSocat: number;
  /** Over a link of 1 Gb/s, against raw TCP. */
  link: number;
  linkWritten: number;
  /** Bytes sent over bytes that are not zero: the largest of all loads. */
  wireBytes: number;
  /** Bytes of a delta sent over bytes changed. */
  deltaBytes: number;
  findingSeconds: number;
  /** Data a second of a volume of 4 KiB data, 4 KiB hole, over that of a dense one. */
  hole4k: number;
  /** The same volume, against dd direct to direct on it. */
  hole4kDd: number;
  sparseSeconds: number;
  /** The final round's seconds over what its bytes may take: dirty / (0.85 × bound) + 1 s. */
  pause: number;
  cpuSource: number;
  cpuTarget: number;
  resentMiB: number;
  /** The larger agent's resident memory at four moves, MiB. */
  residentMiB: number;
  /** The limit that was held worst: rate over limit. */
  limit: number;
  /** The application's p99 of durable writes of 4 KiB while its volume is copied, over that alone. */
  application: number;
  /** Its longest write while a snapshot is taken, over that p99 alone. */
  snapshot: number;
}

export interface Result {
  ratios: Partial<Ratios>;
  size: number;
  rounds: number;
  measures: { [of: string]: { [what: string]: Spread } };
}

const MIB = 1024 * 1024;

export function resultOf(samples: Samples, wanted: { size: number; rounds: number }): Result {
  const measures = Object.fromEntries(
    Object.entries(samples).map(([of, subjects]) => [
      of,
      Object.fromEntries(Object.entries(subjects).map(([what, values]) => [what, spreadOf(values)])),
    ]),
  );
  const known = Object.entries({ ...speeds(samples, wanted.size), ...others(samples) }).filter(([, value]) => Number.isFinite(value));
  const ratios = Object.fromEntries(known.map(([name, value]) => [name, Number(value.toPrecision(4))])) as Partial<Ratios>;
  return { ratios, ...wanted, measures };
}

/** Ratios of durations are taken round by round, and the median of them: what else happened then met both. */
function inverse(samples: Samples, of: string, [reference, own]: [string, string]): number {
  const theirs = samples[of]?.[reference] ?? [];
  const ours = samples[of]?.[own] ?? [];
  return spreadOf(theirs.map((seconds, round) => seconds / (ours[round] ?? NaN))).median;
}

function speeds(samples: Samples, size: number): Partial<Ratios> {
  const dense = (reference: string, own = 'flock'): number => inverse(samples, 'dense', [reference, own]);
  const median = (what: string): number => medianOf(samples, 'dense', what);
  const [read, write] = [median('dd read alone'), median('dd write alone')];
  const slowest = Math.max(read, write, median('raw TCP (iperf3)'));
  const dirty = medianOf(samples, 'delta', 'bytes changed');
  return {
    bound: slowest / median('flock'),
    ddDirect: dense('dd direct to direct'),
    ddDirectWritten: dense('dd direct to direct', 'flock: written'),
    ddDirectLimit: (read + write) / (2 * read + write),
    rsyncDaemon: dense('rsync daemon -W --inplace'),
    rsyncArchive: dense('rsync daemon -aHSxz'),
    nbdcopyTls: dense('nbdkit to nbdcopy, TLS'),
    ddSocat: dense('dd | socat | dd'),
    link: inverse(samples, 'link', ['raw TCP (iperf3)', 'flock']),
    linkWritten: inverse(samples, 'link', ['raw TCP (iperf3)', 'flock: written']),
    pause: medianOf(samples, 'delta', 'flock: final') / (dirty / ((0.85 * size) / slowest) + 1),
    hole4kDd: inverse(samples, 'holes', ['dd direct to direct', 'flock']),
    hole4k: medianOf(samples, 'holes', 'bytes of data') / medianOf(samples, 'holes', 'flock') / (size / median('flock')),
  };
}

function others(samples: Samples): Partial<Ratios> {
  const sent = ['dense', 'database', 'holes'].map(
    (of) => medianOf(samples, of, 'flock: bytes sent') / medianOf(samples, of, 'bytes of data'),
  );
  const limits = Object.values(samples['limit'] ?? {}).flat();
  return {
    wireBytes: Math.max(...sent.filter((value) => Number.isFinite(value))),
    deltaBytes: medianOf(samples, 'delta', 'flock: bytes sent over bytes changed'),
    findingSeconds: medianOf(samples, 'delta', 'flock: finding'),
    sparseSeconds: medianOf(samples, 'sparse', 'flock'),
    cpuSource: medianOf(samples, 'dense', 'flock: source, processor seconds a GB'),
    cpuTarget: medianOf(samples, 'dense', 'flock: target, processor seconds a GB'),
    resentMiB: Math.max(...(samples['resume']?.['MiB sent again after SIGKILL'] ?? [NaN])),
    residentMiB:
      Math.max(medianOf(samples, 'parallel', 'flock: source, resident'), medianOf(samples, 'parallel', 'flock: target, resident')) / MIB,
    application: medianOf(samples, 'application', 'p99 while copied over p99 alone'),
    snapshot: medianOf(samples, 'application', 'longest write while a snapshot is taken over p99 alone'),
    limit: limits.reduce((worst, held) => (Math.abs(held - 1) > Math.abs(worst - 1) ? held : worst), limits[0] ?? NaN),
  };
}
