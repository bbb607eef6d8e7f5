// `npm run bench -- check`: in less than a minute, whether moving got worse by much. Bytes on the wire and processor time hardly depend on what
// else runs on the machine, so their bounds are near; times do, so theirs is far, of the best of three rounds, and against what dd and raw TCP
// got beside them. The last line is `N passed, N failed`.
import { resultOf } from './ratios.ts';
import { say } from './say.ts';
import { spreadOf, type Samples } from './samples.ts';
import { benchTransfer } from './transfer.ts';

const SIZE = 512 * 1024 ** 2;

interface Bound {
  what: string;
  of: (samples: Samples) => number;
  least?: number;
  most?: number;
}

const best = (samples: Samples, what: string): number => spreadOf(samples['dense']?.[what] ?? []).least;

const BOUNDS: Bound[] = [
  { what: 'bytes sent over bytes that are not zero', of: (samples) => resultOf(samples, WANTED).ratios.wireBytes ?? NaN, most: 1.005 },
  { what: 'bytes of a delta sent over bytes changed', of: (samples) => resultOf(samples, WANTED).ratios.deltaBytes ?? NaN, most: 1.02 },
  { what: 'processor seconds a GB at the source', of: (samples) => best(samples, 'flock: source, processor seconds a GB'), most: 2 },
  { what: 'processor seconds a GB at the target', of: (samples) => best(samples, 'flock: target, processor seconds a GB'), most: 2.7 },
  { what: 'speed over that of dd', of: (samples) => best(samples, 'dd direct to direct') / best(samples, 'flock'), least: 0.1 },
  { what: 'speed over that of raw TCP', of: (samples) => best(samples, 'raw TCP (iperf3)') / best(samples, 'flock'), least: 0.02 },
];

const WANTED = { size: SIZE, rounds: 3 };

/** Whether every bound was kept. What could not be measured here, for a program is missing, is said and is no failure. */
export async function check(): Promise<boolean> {
  const samples = await benchTransfer({ ...WANTED, alone: false, only: ['small'] });
  const kept = BOUNDS.map(({ what, of, least = -Infinity, most = Infinity }) => {
    const value = of(samples);
    const bound = least > -Infinity ? `at least ${least}` : `at most ${most}`;
    if (Number.isNaN(value)) {
      say(`not measured: ${what}`);
      return null;
    }
    const holds = value >= least && value <= most;
    say(`${holds ? 'ok    ' : 'FAILED'} ${what}: ${value.toPrecision(3)}, ${bound}`);
    return holds;
  });
  const failed = kept.filter((holds) => holds === false).length;
  say(`${kept.filter((holds) => holds === true).length} passed, ${failed} failed`);
  return failed === 0;
}
