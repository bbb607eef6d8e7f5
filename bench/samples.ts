// What was measured: samples by case and subject, their median and spread, and the ratios between them. Pure.

export interface Spread {
  median: number;
  least: number;
  most: number;
  samples: number[];
}

/** By case, then by what was measured in it. */
export interface Samples {
  [of: string]: { [subject: string]: number[] };
}

export function add(samples: Samples, of: string, values: { [subject: string]: number }): void {
  const known = (samples[of] ??= {});
  for (const [subject, value] of Object.entries(values)) (known[subject] ??= []).push(value);
}

export function spreadOf(samples: readonly number[]): Spread {
  const sorted = [...samples].sort((a, b) => a - b);
  const middle = sorted.length >>> 1;
  const median = sorted.length % 2 === 1 ? sorted[middle] : ((sorted[middle - 1] ?? NaN) + (sorted[middle] ?? NaN)) / 2;
  return { median: median ?? NaN, least: sorted[0] ?? NaN, most: sorted.at(-1) ?? NaN, samples: [...samples] };
}

/** NaN where it was not measured. */
export const medianOf = (samples: Samples, of: string, subject: string): number => spreadOf(samples[of]?.[subject] ?? []).median;
