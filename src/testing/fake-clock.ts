// Time that a test owns: nothing passes until `advance` is called. Only *.test.ts import it.
import type { Clock } from '../model/clock.ts';

interface Sleeper {
  due: number;
  wake: () => void;
}

export interface FakeClock extends Clock {
  /** Lets `ms` pass: wakes the sleepers in order of time, and lets what they started settle before the next one wakes. */
  advance(ms: number): Promise<void>;
  /** Lets pending promises and already answered IO go on, without time passing. */
  settle(): Promise<void>;
  sleepers(): number;
}

export function fakeClock(start = Date.UTC(2026, 0, 1)): FakeClock {
  let elapsed = 0;
  let sleepers: Sleeper[] = [];

  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  };

  const sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const leave = (): void => {
        sleepers = sleepers.filter((other) => other !== sleeper);
        signal?.removeEventListener('abort', stop);
      };
      const stop = (): void => {
        leave();
        reject(signal?.reason);
      };
      const wake = (): void => {
        leave();
        resolve();
      };
      const sleeper: Sleeper = { due: elapsed + Math.max(0, ms), wake };
      signal?.addEventListener('abort', stop, { once: true });
      sleepers.push(sleeper);
    });

  const advance = async (ms: number): Promise<void> => {
    const until = elapsed + ms;
    for (;;) {
      await settle();
      const next = sleepers.reduce<Sleeper | null>((first, other) => (first === null || other.due < first.due ? other : first), null);
      if (next === null || next.due > until) break;
      elapsed = Math.max(elapsed, next.due);
      next.wake();
    }
    elapsed = until;
    await settle();
  };

  return { now: () => start + elapsed, monotonic: () => elapsed, sleep, advance, settle, sleepers: () => sleepers.length };
}
