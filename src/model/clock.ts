// Time as a parameter: everything that waits or reads a clock takes one, so that the simulation can own time.

export interface Clock {
  /** Wall clock, ms since 1970. For records that people read. */
  now(): number;
  /** Monotonic, ms. For durations and time-outs. */
  monotonic(): number;
  /** Resolves after `ms`; rejects with the signal's reason when aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const stop = (): void => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', stop);
        resolve();
      }, ms);
      signal?.addEventListener('abort', stop, { once: true });
    }),
};

export const timestamp = (clock: Clock): string => new Date(clock.now()).toISOString();
