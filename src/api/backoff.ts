// How long to wait after a failure: doubling, capped and jittered, so that a hundred clients of a restarted server do not come back at
// once. Knows neither what failed nor a clock.

export interface Backoff {
  /** Shortest and longest wait, ms. */
  first: number;
  longest: number;
}

/** ms to wait after the nth failure in a row (0: the first one): between half of a ceiling, which doubles each time, and the ceiling. */
export function backoffDelay(failures: number, { first, longest }: Backoff, random: () => number): number {
  const ceiling = Math.min(longest, first * 2 ** Math.min(failures + 1, 30));
  return Math.round(ceiling * (0.5 + random() / 2));
}
